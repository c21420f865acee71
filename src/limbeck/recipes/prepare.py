"""Everything that can be checked is checked here, before the first step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import Objective, misfits, wants
from limbeck.core.progress import Watcher
from limbeck.core.task import Kind, Task
from limbeck.core.want import PER_TEXT
from limbeck.data.corpus import Corpus, Examples, joined, load, relabel
from limbeck.data.encode import Encoded, encode
from limbeck.data.settings import DataSettings
from limbeck.recipes.augmented import made_up
from limbeck.recipes.recipe import Table, from_table
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
class Material:
    """The teacher and the texts, opened, read and found to fit together: the same for every student."""

    teacher: Model
    corpus: Corpus
    encoded: dict[str, Encoded]  # with the teacher's tokenizer
    fingerprints: dict[str, str]

    @property
    def task(self) -> Task:
        return self.corpus.task


@dataclass(frozen=True)
class Prepared:
    """All that a run needs to train its students."""

    run: Run
    material: Material
    student: Model | None  # a given starting point; None when the teacher is shrunk
    objective: Objective
    extra: Examples  # made up for the teacher to answer; without labels
    for_teacher: dict[str, Encoded]
    for_student: dict[str, Encoded]
    labelled: Encoded | None  # the training rows a student without a teacher learns from
    fingerprints: dict[str, str]

    @property
    def teacher(self) -> Model:
        return self.material.teacher

    @property
    def corpus(self) -> Corpus:
        return self.material.corpus

    @property
    def task(self) -> Task:
        return self.corpus.task

    @property
    def tokenizer(self) -> Any:
        """The student's."""
        return (self.student or self.teacher).tokenizer


def check_recipe(run: Run) -> None:
    """Refuses a recipe or a term that does not exist, before anything is opened."""
    complete(run, Task(kind="regress" if run.data.task == "auto" else run.data.task))


def gather(run: Run, watcher: Watcher, *, data: object = None, teacher: Model | None = None) -> Material:
    if not run.teacher and teacher is None:
        raise KnobError("no teacher was given", "name one with --teacher, or make one with `limbeck train`")
    check_loggers(run.train)
    watcher.say(f"opening the teacher {run.teacher or type(teacher.network).__name__}")  # type: ignore[union-attr]
    taught = teacher or Model(*open_classifier(run.teacher, trust_remote_code=run.trust_remote_code), where=run.teacher)
    corpus = _fit(load(_asked(run.data, taught), data, watcher, known=taught.labels), taught, run)
    prints = {
        "teacher": fingerprint(taught.network),
        "tokenizer": tokenizer_fingerprint(taught.tokenizer),
        "data": data_fingerprint(corpus, run.data.max_length),
        "labels": labels_fingerprint(corpus),
    }
    return Material(taught, corpus, encode_splits(corpus, taught.tokenizer, run.data.max_length), prints)


def prepare(run: Run, material: Material, watcher: Watcher, student: Model | None = None) -> Prepared:
    taught, corpus = material.teacher, material.corpus
    run = _pooled(complete(run, corpus.task), taught.tokenizer)
    objective = from_table(run.objective)
    if student is None and run.student_from:
        student = Model(*open_encoder(run.student_from, corpus.task, run.trust_remote_code), where=run.student_from)
    _check(objective, corpus, taught, student, run)
    extra = made_up(run.augment, material, Path(run.out), watcher)
    for_teacher = _with(extra, material, taught.tokenizer, run)
    alike = student is None or tokenizers_equal(student.tokenizer, taught.tokenizer)
    for_student = for_teacher if alike else _with(extra, material, student.tokenizer, run)  # type: ignore[union-attr]
    prints = dict(material.fingerprints)
    if len(extra):
        prints["augmented"] = uids_fingerprint(extra.uids)
    if student is not None and not student.where:
        prints["student"] = fingerprint(student.network)
    return Prepared(
        run, material, student, objective, extra, for_teacher, for_student, _labelled(for_student, corpus), prints
    )


def _pooled(run: Run, tokenizer: Any) -> Run:
    """What stands for a text, where a term leaves it open: its first token if that is one made for it."""
    pool = "cls" if tokenizer.cls_token_id is not None else "mean"

    def settled(table: Table) -> Table:
        return {
            term: {**entry, "pool": pool} if entry.get("pool") == "auto" else entry for term, entry in table.items()
        }

    stages = {name: stage.but(objective=settled(stage.objective)) for name, stage in run.stages.items()}
    return run.but(objective=settled(run.objective), stages={k: v.model_dump() for k, v in stages.items()})


def _with(extra: Examples, material: Material, tokenizer: Any, run: Run) -> dict[str, Encoded]:
    """Every split in a tokenizer's tokens, with the made-up rows after the training rows."""
    if not len(extra) and tokenizer is material.teacher.tokenizer:
        return material.encoded
    corpus = replace(material.corpus, train=joined(material.corpus.train, extra)) if len(extra) else material.corpus
    return encode_splits(corpus, tokenizer, run.data.max_length)


def _labelled(encoded: dict[str, Encoded], corpus: Corpus) -> Encoded | None:
    if not corpus.train.labelled.any():
        return None
    train = encoded["train"]
    return train if len(train) == len(corpus.train) else train.first(len(corpus.train))


def encode_splits(corpus: Corpus, tokenizer: Any, max_length: int) -> dict[str, Encoded]:
    return {name: encode(getattr(corpus, name), tokenizer, max_length) for name in SPLITS}


def data_fingerprint(corpus: Corpus, max_length: int) -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    return uids_fingerprint(np.concatenate([getattr(corpus, name).uids for name in SPLITS]), str(max_length))


def uids_fingerprint(uids: np.ndarray, salt: str = "") -> str:
    return hashlib.blake2b(np.sort(uids).tobytes() + salt.encode(), digest_size=8).hexdigest()


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
    every = [objective, *(from_table(stage.objective) for stage in run.stages.values())]
    for part in (part for towards in every for part in misfits(towards, corpus.task)):
        raise MismatchError(f"{part} does not serve {corpus.task}", part.remedy)
    needed = reduce(or_, map(wants, every))
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
