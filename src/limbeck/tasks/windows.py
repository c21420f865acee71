"""What token classification and extractive QA share: long texts are read in windows, and put together again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from limbeck import functional
from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.forward import forward
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import Disagreement
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch
from limbeck.core.want import Want
from limbeck.data.batches import batches
from limbeck.data.padding import Collator
from limbeck.data.settings import WindowSettings
from limbeck.data.windows import Window, WindowCorpus, WindowRow, WindowRows, Windows
from limbeck.measure.fidelity import FidelityMeter
from limbeck.measure.predict import eval_mode
from limbeck.students.reading import labels_in
from limbeck.tasks.base import ALL, GOLD, EncodedData, Evaluation, Evaluator, Model, Options, Setup, Task
from limbeck.tasks.text import check_outputs, data_fingerprint, labels_fingerprint

BATCH = 32  # windows
Logits = Iterator[tuple[list[Window], Batch, np.ndarray]]  # of each batch: its windows, and the logits of their rows
P = TypeVar("P")  # what is predicted of a sentence or question: the tags of its words, or its answer
C = TypeVar("C")  # how sure of it: the probability of each tag, or of the answer
W = TypeVar("W", bound=WindowRow)


class Predicted(NamedTuple, Generic[P, C]):
    """Of each sentence or question."""

    values: list[P]
    confidences: list[C]


@dataclass(frozen=True)
class WindowEvaluator(Evaluator, Generic[P, C]):
    """Every window of a split once; the sentences or questions they are of are scored."""

    corpus: WindowCorpus
    processor: Any
    settings: WindowSettings
    examples: int = 0  # disagreements to keep
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def info(self) -> TaskInfo:  # type: ignore[override]
        return self.corpus.task

    @property
    def splits(self) -> dict[str, Windows]:  # type: ignore[override]
        return self.corpus.splits

    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Self:
        """Where dev has no labels, the teacher's predictions stand for them."""
        found = replace(self, teacher=teacher)
        if any(item.has_label for item in self.corpus.items("dev")) or not len(self.corpus.dev):
            return found
        return replace(found, corpus=self.corpus.with_gold("dev", found._of_teacher("dev").values))

    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]:
        meters = Meters()
        predicted = self.predicted("dev", self._logits("dev", model, NoTeacher(), meters))
        return {"loss": meters.loss, **self.scored("dev", predicted.values).scores}

    def test(self, model: PreTrainedModel) -> Evaluation:
        meters = Meters()
        predicted = self.predicted("test", self._logits("test", model, self.teacher, meters))
        found = replace(self.scored("test", predicted.values), fidelity=meters.fidelity.fidelity)
        if isinstance(self.teacher, NoTeacher):
            return found
        return replace(found, disagreements=self.disagreements(predicted, self._teacher_test))

    def of_teacher(self, network: PreTrainedModel) -> Evaluation:
        return self.scored("test", self._teacher_test.values)

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

    def _logits(self, split: str, model: PreTrainedModel, teacher: Teacher, meters: Meters) -> Logits:
        answers = self._answers(split, teacher)
        for windows, batch, answer in answers:
            with eval_mode(model), torch.inference_mode():
                logits = forward(model, batch.to(model.device)).logits.float().cpu()
            meters.add(logits, answer, batch)
            yield windows, batch, logits.numpy()

    def _answers(self, split: str, teacher: Teacher) -> Iterator[tuple[list[Window], Batch, Tensor]]:
        rows = self.corpus.splits[split]
        for batch in batches(rows, Collator.of(self.processor, self.corpus.task), BATCH):
            yield rows.find(batch.uids.tolist()), batch, teacher.answer(batch).logits.float().cpu()


@dataclass(frozen=True)
class WindowTask(Task[WindowRows[W]], Generic[W]):
    """Reads windows; what is predicted of them is the subclasses' own."""

    evaluator: ClassVar[type[WindowEvaluator[Any, Any]]]

    @abstractmethod
    def cut(self, splits: WindowRows[W], processor: Any, watcher: Watcher) -> WindowCorpus:
        """The rows as windows of a tokenizer's tokens."""

    def encode(
        self, splits: WindowRows[W], model: Model, watcher: Watcher, teacher: Model | None = None
    ) -> EncodedData:
        if teacher is not None:
            check_alike(model, teacher, self.info.kind == "tag", remedy="evaluate each alone, without --teacher")
        settings: WindowSettings = self.knobs.table(WindowSettings)
        corpus = self.cut(splits, model.processor, watcher)
        gold = {GOLD: corpus.train} if corpus.train.has_label.any() else {}
        salt = f"{self.knobs.data.max_length} {settings.stride} {settings.longest_question}"
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

    def timing_inputs(self, setup: Setup[WindowRows[W]]) -> list[tuple[str, str]]:
        return [row.texts for row in setup.splits.parts["test"].rows]

    def check_student(
        self,
        run: Options,
        setup: Setup[WindowRows[W]],
        student: Model,
        objectives: Sequence[Objective],
        needed: Want,
    ) -> None:
        if setup.teacher is not None:
            check_outputs(student, setup.teacher)
            check_alike(student, setup.teacher)


def check_alike(
    student: Model,
    teacher: Model,
    labels: bool = False,
    remedy: str = "start from a model with the teacher's tokenizer, or leave out --student-from and shrink the teacher",
) -> None:
    """Predictions about tokens compare only where tokens and tags are the same."""
    if not tokenizers_equal(student.processor, teacher.processor):
        raise MismatchError("student and teacher use different tokenizers, so token positions do not line up", remedy)
    ours, theirs = labels_in(student.network.config), labels_in(teacher.network.config)
    if labels and ours != theirs:
        raise MismatchError(
            f"the model's tags are {', '.join(ours[:6])}; the teacher's {', '.join(theirs[:6])}",
            "compare models of the same tags in the same order, or evaluate each alone, without --teacher",
        )


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
