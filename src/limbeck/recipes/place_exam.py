"""How models that tag words or find answers are examined: every window of a split once, put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from limbeck import functional
from limbeck.core.forward import forward
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch
from limbeck.data.answers import Question
from limbeck.data.place_corpus import PlaceCorpus
from limbeck.data.places import PlaceCollator, PlaceRows, Window, place_batches
from limbeck.data.tags import OUTSIDE
from limbeck.data.window_settings import WindowSettings
from limbeck.measure.fidelity import FidelityMeter
from limbeck.measure.predict import eval_mode
from limbeck.measure.spans import Span, answer_quality, best_spans, chosen, each_answer
from limbeck.measure.tags import each_sentence, per_type, tag_quality
from limbeck.recipes.cell import Answers

BATCH = 32  # windows


Say = Callable[[Batch], Tensor]  # logits of the rows of a batch


@dataclass(frozen=True)
class PlaceExam:
    corpus: PlaceCorpus
    tokenizer: Any
    settings: WindowSettings
    teacher: Teacher = field(default_factory=NoTeacher)  # to compare with on the test split

    @property
    def dev(self) -> PlaceRows:
        return self.corpus.dev

    @property
    def collator(self) -> PlaceCollator:
        return PlaceCollator(self.tokenizer, self.corpus.task)

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.collator(rows)

    def beside(self, teacher: Teacher) -> PlaceExam:
        exam = replace(self, teacher=teacher)
        if any(item.has_label for item in self.corpus.items("dev")):
            return exam
        said = exam._answers("dev", exam._say_as_teacher, NoTeacher(), Meters())
        return replace(exam, corpus=self.corpus.answered("dev", said))

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        return {"gauge": self._gauge}

    def _gauge(self, model: PreTrainedModel) -> dict[str, float]:
        near = Meters()
        found = self._examine("dev", _speaker(model), NoTeacher(), near)
        return {"loss": near.loss, **found.quality}

    def test(self, model: PreTrainedModel) -> Answers:
        return self._examine("test", _speaker(model), self.teacher, Meters())

    def of_teacher(self) -> Answers:
        return self._examine("test", self._say_as_teacher, NoTeacher(), Meters())

    def _say_as_teacher(self, batch: Batch) -> Tensor:
        return self.teacher.answer(batch).logits.float().cpu()

    def _examine(self, split: str, say: Say, teacher: Teacher, near: Meters) -> Answers:
        labels, names = self.corpus.task.labels, self.corpus.splits[split].names
        said = self._answers(split, say, teacher, near)
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        if self.corpus.task.kind == "tag":
            sums = each_sentence(gold, said, labels)
            types = per_type(gold, said, labels)
            return Answers(names, sums, tag_quality(sums), types, near.fidelity.fidelity, known, known)
        sums = np.stack(each_answer(said, gold), axis=1)[known]
        rows = known[known]
        return Answers(names[known], sums, answer_quality(sums), (), near.fidelity.fidelity, rows, rows)

    def _answers(self, split: str, say: Say, teacher: Teacher, near: Meters) -> list[Any]:
        """Of each item: the tags of its words, or the answer in letters."""
        said = self._said(split, say, teacher, near)
        return self._tags(split, said) if self.corpus.task.kind == "tag" else self._spans(split, said)

    def _said(
        self, split: str, say: Say, teacher: Teacher, near: Meters
    ) -> Iterator[tuple[list[Window], Batch, np.ndarray]]:
        """Windows, and what is said of their rows."""
        for windows, batch in place_batches(self.corpus.splits[split], self.collator, BATCH):
            logits = say(batch)
            near.add(logits, teacher.answer(batch).logits.float().cpu(), batch)
            yield windows, batch, logits.numpy()

    def _tags(self, split: str, said: Any) -> list[list[str]]:
        labels = self.corpus.task.labels
        # a word the tokenizer does not see is said to be outside
        filler = OUTSIDE if OUTSIDE in labels else labels[0]
        answers = [[filler] * len(item.gold) for item in self.corpus.items(split)]
        for windows, _, logits in said:
            answer = iter(logits.argmax(axis=1).tolist())
            for window in windows:
                for word in window.where.tolist():
                    answers[window.item][word] = labels[next(answer)]
        return answers

    def _spans(self, split: str, said: Any) -> list[str]:
        questions = [item for item in self.corpus.items(split) if isinstance(item, Question)]
        found: list[list[tuple[Span, Window]]] = [[] for _ in questions]
        nullable, longest = self.corpus.places.nullable, self.settings.longest_answer
        for windows, batch, logits in said:
            start, end = logits[0::2], logits[1::2]
            for window, span in zip(
                windows, best_spans(start, end, batch.predicted.numpy(), longest, nullable), strict=True
            ):
                found[window.item].append((span, window))
        return [self._spell(question, spans) for question, spans in zip(questions, found, strict=True)]

    def _spell(self, question: Question, spans: Sequence[tuple[Span, Window]]) -> str:
        best = chosen([span for span, _ in spans], self.settings.null_threshold) if spans else -1
        if best < 0:
            return ""
        span, window = spans[best]
        return question.context[window.where[span.start, 0] : window.where[span.end, 1]].strip()


def _speaker(model: PreTrainedModel) -> Say:
    def say(batch: Batch) -> Tensor:
        with eval_mode(model), torch.inference_mode():
            return forward(model, batch.to(model.device)).logits.float().cpu()

    return say


class Meters:
    """Sums over rows: the loss on the labels, and how close the predictions are to a teacher's."""

    def __init__(self) -> None:
        self._nats = self._labelled = 0.0
        self.fidelity = FidelityMeter()

    def add(self, logits: Tensor, taught: Tensor, batch: Batch) -> None:
        known, labels = batch.has_label, batch.labels
        self._nats += float(functional.hard_cross_entropy(logits[known], labels[known]).sum())
        self._labelled += int(known.sum())
        self.fidelity.add(logits, taught, labels, known)

    @property
    def loss(self) -> float:
        return self._nats / max(self._labelled, 1)
