"""Classification of whole inputs: one row of logits for each text or image."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.fingerprint import digest, fingerprint, tokenizer_fingerprint
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Teacher, Want
from limbeck.data.batches import Split
from limbeck.data.settings import DataSettings
from limbeck.data.splits import LabelledSplits, Splits
from limbeck.data.text.labels import is_generic, permutation
from limbeck.measure.evaluator import Evaluation, Evaluator, TextEvaluator
from limbeck.students.load import kind_of
from limbeck.tasks.base import ALL, GOLD, EncodedData, Evaluated, Member, Model, Setup, Task, evaluating

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

    def evaluate_teacher(self, setup: Setup[C], teacher: Teacher, place: Path) -> Evaluation | None:
        """By its outputs alone, whoever gave them."""
        evaluator = setup.data.evaluator.with_teacher(teacher)
        assert isinstance(evaluator, TextEvaluator)
        return evaluator.of_teacher()

    def averaged(self, setup: Setup[C], others: Sequence[Model], voices: Sequence[tuple[float, float]]) -> Setup[C]:
        first = setup.teacher
        assert first is not None
        members = []
        for model, (weight, temperature) in zip((first, *others), voices, strict=True):
            order = range(setup.info.outputs) if model is first else _same_labels(model, first, setup, self.knobs.data)
            if setup.info.kind == "regress" and temperature != 1:
                raise KnobError("a number has no distribution to soften", "leave --teacher-temperatures out")
            prints = {
                "teacher": fingerprint(model.network),
                "tokenizer": tokenizer_fingerprint(model.processor),
                "data": setup.fingerprints["data"],
            }
            same = prints["tokenizer"] == setup.fingerprints["tokenizer"]
            encode = as_they_are if same else partial(self._encoded_again, processor=model.processor)
            members.append(Member(model, weight, temperature, list(order), encode, prints))
        members = [member for member in members if member.weight]
        told = [f"{one.fingerprints['teacher']} {one.weight} {one.temperature}" for one in members]
        prints = {**setup.fingerprints, "teacher": digest([setup.fingerprints["teacher"], *told])}
        return replace(setup, fingerprints=prints, more_teachers=others, members=members)

    def _encoded_again(self, rows: Any, processor: Any) -> Any:
        return self.encode_rows(rows.examples, processor)

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


def as_they_are(rows: Any) -> Any:
    return rows


def check_teacher(setup: Setup[Any], student: Model, needed: Want, live: bool) -> None:
    """Refuses a student that cannot learn from its teacher, or from several, or from a column of answers."""
    if setup.teacher is None:
        check_answers(needed, "a column with the teacher's answers", "give the model itself with --teacher")
        _check_count(student, setup.info.outputs)
        return
    check_outputs(student, setup.teacher)
    if setup.members:
        check_answers(needed, "the average of several teachers", "give one --teacher")
        own = tokenizer_fingerprint(student.processor)
        if live and any(one.fingerprints["tokenizer"] != own for one in setup.members):
            raise MismatchError(
                "the teachers and the student use different tokenizers, so one batch cannot serve all",
                "leave --teacher-cache.live off: cached outputs are per text and fit any tokenizer",
            )


def check_answers(needed: Want, what: str, remedy: str) -> None:
    if more := needed & ~Want.LOGITS:
        raise MismatchError(
            f"the objective compares {more}, and {what} has only answers", f"use --recipe hinton or logits, or {remedy}"
        )


def check_outputs(student: Model, teacher: Model) -> None:
    _check_count(student, teacher.network.config.num_labels)


def _check_count(student: Model, wanted: int) -> None:
    outputs = student.network.config.num_labels, wanted
    if outputs[0] != outputs[1]:
        raise MismatchError(
            f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
            "give the student as many labels as the teacher",
        )


def _same_labels(other: Model, first: Model, setup: Setup[Any], settings: DataSettings) -> list[int]:
    """For every class, the output of another teacher."""
    if found := _find_order(other, first, setup.info, settings):
        return found
    told = [f"{', '.join(one.labels[:6])} ({kind_of(one.network) or setup.info.kind})" for one in (first, other)]
    raise MismatchError(
        f"the labels of the first teacher are {told[0]}; those of {other.source or 'another'} {told[1]}",
        "average teachers of the same labels, in any order; if they are the same under other names, save them under "
        "one name in the teacher's config (id2label)",
    )


def _order_of(teacher: Model, model: Model, info: TaskInfo, settings: DataSettings) -> list[int]:
    """For every output of the model, the teacher's of the same name; other labels are refused."""
    if found := _find_order(teacher, model, info, settings):
        return found
    told = [f"{', '.join(one.labels[:6])} ({kind_of(one.network) or info.kind})" for one in (model, teacher)]
    generic = is_generic(teacher.labels)
    same = "; if they are the same, list them in the teacher's order with --data.classes" if generic else ""
    raise MismatchError(
        f"the model's labels are {told[0]}; the teacher's {told[1]}",
        f"compare models of the same labels, or evaluate each alone, without --teacher{same}",
    )


def _find_order(teacher: Model, model: Model, info: TaskInfo, settings: DataSettings) -> list[int] | None:
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
    return None
