"""Classification of whole inputs: one row of logits for each text or image."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import digest
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import TaskInfo
from limbeck.data.batches import Split
from limbeck.data.settings import DataSettings
from limbeck.data.splits import LabelledSplits, Splits
from limbeck.data.text.labels import is_generic, permutation
from limbeck.measure.evaluator import Evaluator, TextEvaluator
from limbeck.students.load import kind_of
from limbeck.tasks.base import ALL, GOLD, EncodedData, Evaluated, Model, Task, evaluating

C = TypeVar("C", bound=LabelledSplits[Any])


@dataclass(frozen=True)
class WholeClassification(Task[C]):
    """What is the same for texts and images."""

    @abstractmethod
    def read_rows(self, data: object, model: Model | None, watcher: Watcher, only_test: bool) -> C:
        """The rows in the model's order of labels, before a person's metric is known to fit."""

    @abstractmethod
    def encode_rows(self, rows: Any, processor: Any) -> Any:
        """The rows of one split as a model reads them, to be answered."""

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> C:
        found = self.read_rows(data, model, watcher, only_test)
        return replace(found, task=self.with_metric(found.task))

    def evaluate(self, model: Model, splits: C, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        """The teacher's outputs are put into the model's order."""
        order = _order_of(teacher, model, splits.task, self.knobs.data) if teacher else []
        evaluator, ours = self._predicted(model, splits, watcher)
        if teacher is None:
            return Evaluated(splits.task, [evaluator.evaluation(ours)], evaluator.floor())
        theirs = self._predicted(teacher, splits, watcher)[1][:, order]
        both = [evaluator.evaluation(ours, theirs), evaluator.evaluation(theirs)]
        return Evaluated(splits.task, both, evaluator.floor())

    def _predicted(self, model: Model, splits: C, watcher: Watcher) -> tuple[TextEvaluator, np.ndarray]:
        test = self.encode_rows(splits.test, model.processor)
        evaluator = TextEvaluator(splits.task, model.processor, {"test": test}, self.knobs.measure.examples)
        return evaluator, evaluator.logits("test", model.network, partial(watcher.at, evaluating(model)))


def encoded_rows(
    rows: Mapping[str, Split],
    evaluator: Evaluator,
    card: DataCard,
    fingerprints: Mapping[str, str],
    labelled: np.ndarray,
) -> EncodedData:
    """The data of a task whose rows have labels, of which a teacher gives logits; `labelled` training rows do."""
    train, info = rows["train"], evaluator.info
    gold = {}
    if train.has_label.any():
        gold = {GOLD: train if labelled.all() else train.take(np.flatnonzero(labelled))}
    data = EncodedData(info, evaluator.processor, {ALL: train, **gold}, evaluator, card, fingerprints, len(train))
    return replace(data, for_teacher=tuple(rows.values()), has_gold=bool(gold))


def data_fingerprint(corpus: Splits[Any], salt: str) -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    return digest([np.sort(np.concatenate([rows.uids for rows in corpus.splits.values()])), salt])


def labels_fingerprint(corpus: Splits[Any], first: str = "") -> str:
    """Names what is learnt from the examples: their labels, and the order from which a seed shuffles."""
    columns = [column for rows in corpus.splits.values() for column in (rows.uids, rows.labels, rows.has_label)]
    return digest([first, *columns])


def check_outputs(student: Model, teacher: Model) -> None:
    outputs = student.network.config.num_labels, teacher.network.config.num_labels
    if outputs[0] != outputs[1]:
        raise MismatchError(
            f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
            "give the student as many labels as the teacher",
        )


def _order_of(teacher: Model, model: Model, info: TaskInfo, settings: DataSettings) -> list[int]:
    """For every output of the model, the teacher's of the same name; generic ones are named as the data is."""
    generic = is_generic(teacher.labels)
    if kind_of(teacher.network) in (None, kind_of(model.network), info.kind):
        if info.kind == "regress" and len(teacher.labels) == 1:
            return [0]
        named = [teacher.labels]
        if generic:
            named += [settings.classes.split(","), [str(place) for place in range(len(teacher.labels))]]
        for names in (model.labels, info.labels):  # the data may name the outputs of a model that does not
            for labels in named:
                if found := permutation(names, labels):
                    return found
    told = [f"{', '.join(one.labels[:6])} ({kind_of(one.network) or info.kind})" for one in (model, teacher)]
    same = "; if they are the same, list them in the teacher's order with --data.classes" if generic else ""
    raise MismatchError(
        f"the model's labels are {told[0]}; the teacher's {told[1]}",
        f"compare models of the same labels, or evaluate each alone, without --teacher{same}",
    )
