"""What token classification and extractive QA share: long texts are read in windows, and put together again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from limbeck import functional
from limbeck.core.errors import MismatchError
from limbeck.core.forward import forward
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import Disagreement
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch
from limbeck.core.want import Want
from limbeck.data.batches import Collator, batches
from limbeck.data.settings import WindowSettings
from limbeck.data.windows import Window, WindowCorpus, WindowRows, Windows
from limbeck.measure.fidelity import FidelityMeter
from limbeck.measure.predict import eval_mode
from limbeck.students.load import load
from limbeck.tasks.base import ALL, GOLD, EncodedData, Evaluated, Evaluation, Evaluator, Model, Setup, Task, same_tokens
from limbeck.tasks.text import check_outputs, data_fingerprint, labels_fingerprint
from limbeck.teachers.live import LiveTeacher

BATCH = 32  # windows
Predict = Callable[[Batch], Tensor]  # logits of the rows of a batch
Logits = Iterator[tuple[list[Window], Batch, np.ndarray]]  # of each batch: its windows, and the logits of their rows


class Predicted(NamedTuple):
    """Of each sentence or question."""

    values: list[Any]  # the tags of its words, or its answer
    confidences: list[Any]  # their probabilities


@dataclass(frozen=True)
class WindowEvaluator(Evaluator):
    """Every window of a split once; the sentences or questions they are of are scored."""

    corpus: WindowCorpus
    processor: Any
    settings: WindowSettings
    examples: int = 0
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def info(self) -> TaskInfo:
        return self.corpus.task

    @property
    def dev(self) -> Windows:
        return self.corpus.dev

    @property
    def test_rows(self) -> int:
        return len(self.corpus.test)

    @property
    def collator(self) -> Collator:
        return Collator.of(self.processor, self.info)

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.collator(rows)

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Self:
        """Where dev has no labels, the teacher's predictions stand for them."""
        found = replace(self, teacher=teacher)
        if any(item.has_label for item in self.corpus.items("dev")) or not len(self.dev):
            return found
        predicted = found._predictions("dev", found._teacher_logits)
        return replace(found, corpus=self.corpus.with_gold("dev", predicted.values))

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        meters = Meters()
        predicted = self._predictions("dev", _predict(model), NoTeacher(), meters)
        return {"loss": meters.loss, **self.scored("dev", predicted.values).scores}

    def test(self, model: PreTrainedModel) -> Evaluation:
        meters = Meters()
        predicted = self._predictions("test", _predict(model), self.teacher, meters)
        found = replace(self.scored("test", predicted.values), fidelity=meters.fidelity.fidelity)
        if isinstance(self.teacher, NoTeacher):
            return found
        return replace(found, disagreements=self.disagreements(predicted, self._teacher_test))

    def of_teacher(self) -> Evaluation:
        return self.scored("test", self._teacher_test.values)

    @abstractmethod
    def predicted(self, split: str, logits: Logits) -> Predicted:
        """Of each sentence or question: the tags of its words, or the answer."""

    @abstractmethod
    def scored(self, split: str, predictions: list[Any]) -> Evaluation: ...

    @abstractmethod
    def disagreements(self, student: Predicted, teacher: Predicted) -> list[Disagreement]: ...

    @cached_property
    def _teacher_test(self) -> Predicted:
        return self._predictions("test", self._teacher_logits)

    def _predictions(
        self,
        split: str,
        predict: Predict,
        teacher: Teacher | None = None,
        meters: Meters | None = None,
    ) -> Predicted:
        return self.predicted(split, self._logits(split, predict, teacher or NoTeacher(), meters or Meters()))

    def _teacher_logits(self, batch: Batch) -> Tensor:
        return self.teacher.answer(batch).logits.float().cpu()

    def _logits(self, split: str, predict: Predict, teacher: Teacher, meters: Meters) -> Logits:
        rows = self.corpus.splits[split]
        for batch in batches(rows, self.collator, BATCH):
            logits = predict(batch)
            meters.add(logits, teacher.answer(batch).logits.float().cpu(), batch)
            yield rows.find(batch.uids.tolist()), batch, logits.numpy()


@dataclass(frozen=True)
class WindowTask(Task):
    """Loads, reads and encodes; what is predicted is the subclasses' own."""

    evaluator: ClassVar[type[WindowEvaluator]]

    def load(self, source: str, *, new_head: bool = False) -> Model:
        how: dict[str, Any] = {"new_head": new_head, "trust_remote_code": self.knobs.trust_remote_code}
        return Model(*load(source, self.info.kind, self.info if new_head else None, **how), source=source)

    @abstractmethod
    def cut(self, splits: WindowRows[Any], processor: Any, watcher: Watcher) -> WindowCorpus:
        """The rows as windows of a tokenizer's tokens."""

    def encode(
        self, splits: WindowRows[Any], model: Model, watcher: Watcher, teacher: Model | None = None
    ) -> EncodedData:
        settings = self.knobs.table(WindowSettings)
        corpus = self.cut(splits, model.processor, watcher)
        gold = {GOLD: corpus.train} if corpus.train.has_label.any() else {}
        salt = f"{self.max_length} {settings.stride} {settings.longest_question}"
        # Of several gold answers a row holds one, so they are named here too.
        golds = repr([[item.gold for item in corpus.items(name)] for name in corpus.splits])
        return EncodedData(
            info=splits.task,
            processor=model.processor,
            rows={ALL: corpus.train, **gold},
            evaluator=self.evaluator(corpus, model.processor, settings, self.knobs.measure.examples),
            card=corpus.card,
            fingerprints={"data": data_fingerprint(corpus, salt), "labels": labels_fingerprint(corpus, golds)},
            size=len(corpus.train),
            for_teacher=tuple(corpus.splits.values()),
            has_gold=bool(gold),
        )

    def timing_inputs(self, setup: Setup) -> list[tuple[str, str]]:
        evaluator = setup.data.evaluator
        assert isinstance(evaluator, WindowEvaluator)
        return evaluator.corpus.texts("test")

    def check(self, run: Any, setup: Setup, student: Model, objectives: Sequence[Objective], needed: Want) -> None:
        super().check(run, setup, student, objectives, needed)
        if setup.teacher is not None:
            check_outputs(student, setup.teacher)
            check_alike(student, setup.teacher)

    def evaluate(
        self, model: Model, splits: WindowRows[Any], watcher: Watcher, teacher: Model | None = None
    ) -> Evaluated:
        evaluator = self.encode(splits, model, watcher).evaluator
        if teacher is None:
            return splits.task, [evaluator.test(model.network)]
        check_alike(model, teacher, labels=self.info.kind == "tag", remedy="evaluate each alone, without --teacher")
        evaluator = evaluator.with_teacher(LiveTeacher(teacher.network))
        return splits.task, [evaluator.test(model.network), evaluator.of_teacher()]


def check_alike(
    student: Model,
    teacher: Model,
    labels: bool = False,
    remedy: str = "start from a model with the teacher's tokenizer, or leave out --student-from and shrink the teacher",
) -> None:
    """Predictions about tokens compare only where tokens and tags are the same."""
    if not same_tokens(student.processor, teacher.processor):
        raise MismatchError("student and teacher use different tokenizers, so token positions do not line up", remedy)
    if labels and student.labels != teacher.labels:
        raise MismatchError(
            f"the model's tags are {', '.join(student.labels[:6])}; the teacher's {', '.join(teacher.labels[:6])}",
            "compare models of the same tags in the same order, or evaluate each alone, without --teacher",
        )


def _predict(model: PreTrainedModel) -> Predict:
    def predict(batch: Batch) -> Tensor:
        with eval_mode(model), torch.inference_mode():
            return forward(model, batch.to(model.device)).logits.float().cpu()

    return predict


class Meters:
    """Sums over rows: the loss on the labels, and how close the predictions are to a teacher's."""

    def __init__(self) -> None:
        self._nats = self._has_label = 0.0
        self.fidelity = FidelityMeter()

    def add(self, logits: Tensor, teacher_logits: Tensor, batch: Batch) -> None:
        known, labels = batch.has_label, batch.labels
        self._nats += float(functional.hard_cross_entropy(logits[known], labels[known]).sum())
        self._has_label += int(known.sum())
        self.fidelity.add(logits, teacher_logits, labels, known)

    @property
    def loss(self) -> float:
        return self._nats / max(self._has_label, 1)
