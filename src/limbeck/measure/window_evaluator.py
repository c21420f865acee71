"""Token classification and extractive QA, evaluated: windows of long texts are put together again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from transformers import PreTrainedModel

from limbeck.core.forward import forward
from limbeck.core.record import Disagreement, Fidelity, Floor
from limbeck.core.tap import eval_mode
from limbeck.core.trace import Batch, NoTeacher, Teacher
from limbeck.data.batches import batches
from limbeck.data.settings import WindowSettings
from limbeck.data.span.questions import Question
from limbeck.data.token.sentences import Sentence
from limbeck.data.windows import Window, WindowCorpus
from limbeck.functional.divergence import hard_cross_entropy
from limbeck.measure.evaluator import Evaluation, Evaluator
from limbeck.measure.fidelity import NO_ANSWER, FidelityMeter, span_disagreements, tag_disagreements
from limbeck.measure.floor import constant_answer, most_frequent_tag
from limbeck.measure.spans import answer_quality, each_answer
from limbeck.measure.tags import each_sentence, per_type, tag_quality
from limbeck_runtime.spans import Span, best_spans, chosen, confidence
from limbeck_runtime.tags import OUTSIDE

BATCH = 32  # windows
Logits = Iterator[tuple[list[Window], Batch, np.ndarray]]  # of each batch: its windows, and the logits of their rows
P = TypeVar("P")  # what is predicted of a sentence or question: the tags of its words, or its answer
C = TypeVar("C")  # how sure of it: the probability of each tag, or of the answer


class Predicted(NamedTuple, Generic[P, C]):
    """Of each sentence or question."""

    values: list[P]
    confidences: list[C]


@dataclass(eq=False)
class WindowEvaluator(Evaluator, Generic[P, C]):
    """Every window of a split once; the sentences or questions they are of are scored."""

    agrees: ClassVar[bool] = True
    corpus: WindowCorpus
    processor: Any
    settings: WindowSettings
    examples: int = 0  # disagreements to keep
    teacher: Teacher = field(default_factory=NoTeacher)
    dev_labelled: bool = True

    def __post_init__(self) -> None:
        self.info, self.splits = self.corpus.task, self.corpus.splits
        super().__post_init__()

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Self:
        """Where dev has no labels, the teacher's predictions stand for them."""
        found = replace(self, teacher=teacher)
        if any(item.has_label for item in self.corpus.items("dev")) or not len(self.corpus.dev):
            return found
        return replace(found, corpus=found._by_teacher, dev_labelled=False)

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        """Agreement is the task's metric with the teacher's predictions for labels."""
        predicted, loss, _ = self._predicted("dev", model, NoTeacher())

        def agreement() -> float:
            return replace(self, corpus=self._by_teacher).scored("dev", predicted.values).scores[self.info.metric]

        return {"loss": loss, **self.with_agreement(self.scored("dev", predicted.values).scores, agreement)}

    @cached_property
    def _by_teacher(self) -> WindowCorpus:
        """With the teacher's predictions for dev's labels."""
        return self.corpus.with_gold("dev", self._of_teacher("dev").values)

    def test(self, model: PreTrainedModel) -> Evaluation:
        predicted, _, fidelity = self._predicted("test", model, self.teacher)
        found = replace(self._tested(predicted.values), fidelity=fidelity)
        if isinstance(self.teacher, NoTeacher):
            return found
        return replace(found, disagreements=self.disagreements(predicted, self._teacher_test))

    def predictions(self, model: PreTrainedModel) -> Predicted[P, C]:
        """Of the test split, whether its rows have labels or not."""
        return self._predicted("test", model, NoTeacher())[0]

    def of_teacher(self, network: PreTrainedModel) -> Evaluation:
        return self._tested(self._teacher_test.values)

    def keys(self, split: str) -> Sequence[Hashable]:
        return [item.key for item in self.corpus.items(split)]

    def _tested(self, predictions: list[P]) -> Evaluation:
        """With the scores without what stands in train too, and the one answer, if it is one."""
        found = replace(self.scored("test", predictions), constant=self.constant(predictions))
        return self.without_seen(found, np.isin(found.uids, self.corpus.test.row_uids[self.seen]))

    def _golds(self) -> tuple[str, list[tuple[str, ...]]]:
        """What the floor is made from: train, or test where nothing in train has a label; and its labels."""
        golds = {name: [one.gold for one in self.corpus.items(name) if one.has_label] for name in ("train", "test")}
        split = "train" if golds["train"] else "test"
        return split, golds[split]

    @abstractmethod
    def constant(self, predictions: list[P]) -> str:
        """The one answer everywhere, if it is one."""

    @abstractmethod
    def predicted(self, split: str, logits: Logits) -> Predicted[P, C]: ...

    @abstractmethod
    def scored(self, split: str, predictions: list[P]) -> Evaluation: ...

    @abstractmethod
    def disagreements(self, student: Predicted[P, C], teacher: Predicted[P, C]) -> list[Disagreement]: ...

    @cached_property
    def _teacher_test(self) -> Predicted[P, C]:
        return self._of_teacher("test")

    def _of_teacher(self, split: str) -> Predicted[P, C]:
        found = ((windows, batch, answer.numpy()) for windows, batch, answer in self._answers(split, self.teacher))
        return self.predicted(split, found)

    def _predicted(
        self, split: str, model: PreTrainedModel, teacher: Teacher
    ) -> tuple[Predicted[P, C], float, Fidelity | None]:
        """What a model predicts, its loss on the labels, and how close it is to a teacher."""
        nats, labelled, meter = 0.0, 0, FidelityMeter()

        def logits() -> Logits:
            nonlocal nats, labelled
            for windows, batch, answer in self._answers(split, teacher):
                with eval_mode(model), torch.inference_mode():
                    found = forward(model, batch.to(model.device)).logits.float().cpu()
                known, labels = batch.has_label, batch.labels
                nats += float(hard_cross_entropy(found[known], labels[known]).sum())
                labelled += int(known.sum())
                meter.add(found, answer, labels, known)
                yield windows, batch, found.numpy()

        predicted = self.predicted(split, logits())
        return predicted, nats / max(labelled, 1), meter.fidelity

    def _answers(self, split: str, teacher: Teacher) -> Iterator[tuple[list[Window], Batch, Tensor]]:
        rows = self.corpus.splits[split]
        for batch in batches(rows, self.collate, BATCH):
            yield rows.find(batch.uids.tolist()), batch, teacher.answer(batch).logits.float().cpu()


Tags = Predicted[list[str], list[float]]


class TokenEvaluator(WindowEvaluator[list[str], list[float]]):
    """Precision, recall and F1 of entities, or of tags where they are no entities, over whole sentences.

    `TokenEvaluator(corpus, tokenizer, WindowSettings()).test(model).scores["f1"]`
    """

    def predicted(self, split: str, logits: Logits) -> Tags:
        labels = self.info.labels
        # A word that the tokenizer drops is predicted to be outside.
        filler = OUTSIDE if OUTSIDE in labels else labels[0]
        lengths = [len(item.gold) for item in self.corpus.items(split)]
        tags, sure = [[filler] * length for length in lengths], [[0.0] * length for length in lengths]
        for windows, _, rows in logits:
            best = zip(rows.argmax(axis=1).tolist(), softmax(rows, axis=1).max(axis=1).tolist(), strict=True)
            for window in windows:
                for word in window.where.tolist():
                    label, probability = next(best)
                    tags[window.item][word], sure[window.item][word] = labels[label], probability
        return Predicted(tags, sure)

    def scored(self, split: str, predictions: list[list[str]]) -> Evaluation:
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        sums = each_sentence(gold, predictions, self.info.labels)
        types = per_type(gold, predictions, self.info.labels)
        return Evaluation(self.corpus.splits[split].row_uids, sums, tag_quality(sums), types, None, known, known)

    def constant(self, predictions: list[list[str]]) -> str:
        found = [tag for tags in predictions for tag in tags]
        return found[0] if len(found) > 1 and len(set(found)) == 1 else ""

    def floor(self) -> Floor | None:
        split, golds = self._golds()
        if not golds:
            return None
        title, tag = most_frequent_tag(golds, split)
        scores = self.scored("test", [[tag] * len(item.gold) for item in self.corpus.items("test")]).scores
        return Floor(title=title, quality=scores) if scores else None

    def disagreements(self, student: Tags, teacher: Tags) -> list[Disagreement]:
        items = [item for item in self.corpus.items("test") if isinstance(item, Sentence)]
        words, gold = [item.words for item in items], [item.tags for item in items]
        return tag_disagreements(words, gold, *student, *teacher, most=self.examples)


Answers = Predicted[str, float]


class SpanEvaluator(WindowEvaluator[str, float]):
    """F1 and exact match, as the SQuAD script has them, of the best span of all windows of a question.

    `SpanEvaluator(corpus, tokenizer, WindowSettings()).test(model).scores["exact_match"]`
    """

    def predicted(self, split: str, logits: Logits) -> Answers:
        questions = self._questions(split)
        spans: list[list[tuple[Span, Window]]] = [[] for _ in questions]
        nullable, longest = self.corpus.rows.nullable, self.settings.longest_answer
        for windows, batch, rows in logits:
            best = best_spans(rows[0::2], rows[1::2], batch.predicted.numpy(), longest, nullable)
            for window, span in zip(windows, best, strict=True):
                spans[window.item].append((span, window))
        answers = [self._answer(question, of_one) for question, of_one in zip(questions, spans, strict=True)]
        limit = self.settings.null_threshold
        return Predicted(answers, [confidence([span for span, _ in of_one], limit) for of_one in spans])

    def _questions(self, split: str) -> list[Question]:
        return [item for item in self.corpus.items(split) if isinstance(item, Question)]

    def _answer(self, question: Question, spans: Sequence[tuple[Span, Window]]) -> str:
        best = chosen([span for span, _ in spans], self.settings.null_threshold) if spans else -1
        if best < 0:
            return ""
        span, window = spans[best]
        return question.context[window.where[span.start, 0] : window.where[span.end, 1]].strip()

    def scored(self, split: str, predictions: list[str]) -> Evaluation:
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        sums = np.stack(each_answer(predictions, gold), axis=1)[known]
        names, rows = self.corpus.splits[split].row_uids[known], known[known]
        return Evaluation(names, sums, answer_quality(sums), (), None, rows, rows)

    def constant(self, predictions: list[str]) -> str:
        return predictions[0] or NO_ANSWER if len(predictions) > 1 and len(set(predictions)) == 1 else ""

    def floor(self) -> Floor | None:
        split, golds = self._golds()
        if not golds:
            return None
        title, answer = constant_answer(golds, split)
        scores = self.scored("test", [answer] * len(self.corpus.items("test"))).scores
        return Floor(title=title, quality=scores) if scores else None

    def disagreements(self, student: Answers, teacher: Answers) -> list[Disagreement]:
        items = self._questions("test")
        asked = [item.question for item in items], [item.context for item in items]
        gold = [item.answers for item in items], [item.has_label for item in items]
        return span_disagreements(*asked, *gold, *student, *teacher, most=self.examples)
