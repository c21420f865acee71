"""Everything that can be checked is checked here, before the first step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import Objective, misfits, wants
from limbeck.core.progress import Watcher
from limbeck.core.task import Kind, Task
from limbeck.core.want import PER_TEXT, Want
from limbeck.data.corpus import Corpus, load, relabel
from limbeck.data.encode import Encoded, encode
from limbeck.data.settings import DataSettings
from limbeck.recipes.recipe import from_table
from limbeck.recipes.run import Run, complete
from limbeck.students.open import fingerprint, open_classifier, open_encoder, tokenizer_fingerprint, tokenizers_equal
from limbeck.train.trainer import check_loggers

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Model:
    """A network with the tokenizer it was trained with, and where it lies, if anywhere."""

    network: PreTrainedModel
    tokenizer: Any
    where: str = ""

    @property
    def labels(self) -> list[str]:
        return [name for _, name in sorted(self.network.config.id2label.items())]


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, opened, read, cut into tokens and found to fit together."""

    run: Run
    teacher: Model
    student: Model | None  # a given starting point; None when the teacher is shrunk
    objective: Objective
    corpus: Corpus
    for_teacher: dict[str, Encoded]
    for_student: dict[str, Encoded]
    fingerprints: dict[str, str]

    @property
    def task(self) -> Task:
        return self.corpus.task

    @property
    def tokenizer(self) -> Any:
        """The student's."""
        return (self.student or self.teacher).tokenizer


def prepare(
    run: Run, watcher: Watcher, *, data: object = None, teacher: Model | None = None, student: Model | None = None
) -> Prepared:
    if not run.teacher and teacher is None:
        raise KnobError("no teacher was given", "name one with --teacher, or make one with `limbeck train`")
    check_loggers(run.train)
    complete(run, Task(kind="regress"))  # a recipe or term that does not exist is refused before anything is opened
    watcher.say(f"opening the teacher {run.teacher or type(teacher.network).__name__}")  # type: ignore[union-attr]
    taught = teacher or Model(*open_classifier(run.teacher, trust_remote_code=run.trust_remote_code), where=run.teacher)
    corpus = _fit(load(_asked(run.data, taught), data, watcher, known=taught.labels), taught, run)
    run = complete(run, corpus.task)
    objective = from_table(run.objective)
    if student is None and run.student_from:
        student = Model(*open_encoder(run.student_from, corpus.task, run.trust_remote_code), where=run.student_from)
    _check(objective, corpus, taught, student, run)
    for_teacher = encode_splits(corpus, taught.tokenizer, run.data.max_length)
    alike = student is None or tokenizers_equal(student.tokenizer, taught.tokenizer)
    for_student = for_teacher if alike else encode_splits(corpus, student.tokenizer, run.data.max_length)  # type: ignore[union-attr]
    prints = {
        "teacher": fingerprint(taught.network),
        "tokenizer": tokenizer_fingerprint(taught.tokenizer),
        "data": data_fingerprint(corpus, run.data.max_length),
        "labels": labels_fingerprint(corpus),
    }
    if student is not None and not student.where:
        prints["student"] = fingerprint(student.network)
    return Prepared(run, taught, student, objective, corpus, for_teacher, for_student, prints)


def encode_splits(corpus: Corpus, tokenizer: Any, max_length: int) -> dict[str, Encoded]:
    return {name: encode(getattr(corpus, name), tokenizer, max_length) for name in SPLITS}


def data_fingerprint(corpus: Corpus, max_length: int) -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    uids = np.sort(np.concatenate([getattr(corpus, name).uids for name in SPLITS]))
    return hashlib.blake2b(uids.tobytes() + str(max_length).encode(), digest_size=8).hexdigest()


def labels_fingerprint(corpus: Corpus) -> str:
    """Names what is learnt from the examples: their labels, and the order from which a seed shuffles."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SPLITS:
        rows = getattr(corpus, name)
        for column in (rows.uids, rows.labels, rows.labelled):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _asked(settings: DataSettings, teacher: Model) -> DataSettings:
    """A teacher that says what it was trained for settles what the labels mean, unless the person did."""
    kind = kind_of(teacher.network)
    return settings.but(task=kind) if kind and settings.task == "auto" else settings


def kind_of(network: PreTrainedModel) -> Kind | None:
    """The kind of task a model says it was trained for, if it says."""
    kinds: dict[str, Kind] = {
        "single_label_classification": "classify",
        "multi_label_classification": "multilabel",
        "regression": "regress",
    }
    return kinds.get(network.config.problem_type or "")


def _fit(corpus: Corpus, teacher: Model, run: Run) -> Corpus:
    """The corpus in the teacher's order of labels; a teacher of another task is refused."""
    kind = kind_of(teacher.network)
    if corpus.task.kind == "regress" or kind == "regress":
        if teacher.network.config.num_labels != 1 or corpus.task.kind != "regress":
            raise MismatchError(
                f"the data asks for {corpus.task}, the teacher gives {teacher.network.config.num_labels} "
                f"output{'s' if teacher.network.config.num_labels > 1 else ''} ({kind or 'classify'})",
                "use a teacher of this task, or set --data.task",
            )
        return corpus
    if kind == "multilabel" and corpus.task.kind == "classify":
        raise MismatchError(
            "the teacher gives any number of labels per text, the data one class", "set --data.task multilabel"
        )
    return relabel(corpus, teacher.labels, ordered=bool(run.data.classes))


def _check(objective: Objective, corpus: Corpus, teacher: Model, student: Model | None, run: Run) -> None:
    for part in misfits(objective, corpus.task):
        raise MismatchError(f"{part} does not serve {corpus.task}", part.remedy)
    needed = wants(objective)
    if needed & ~Want.LOGITS:
        raise MismatchError(f"the objective wants {needed}, but this teacher shows logits only", "drop the other terms")
    if student is not None:
        outputs = student.network.config.num_labels, teacher.network.config.num_labels
        if outputs[0] != outputs[1]:
            raise MismatchError(
                f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
                "give the student as many labels as the teacher",
            )
        same = tokenizers_equal(student.tokenizer, teacher.tokenizer)
        if not same and (run.teach.live or needed & ~PER_TEXT):
            raise MismatchError(
                "student and teacher cut text into different tokens, so one batch cannot serve both",
                "leave --teach.live off: cached answers are per text and fit any tokenizer",
            )
    if not corpus.train.labelled.any() and not needed:
        raise MismatchError(
            "no training row has a label, and the objective asks for nothing else", "add labels, or --recipe hinton"
        )
