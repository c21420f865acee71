"""Everything that can be checked is checked here, before the first step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
from limbeck.core.record import DataCard
from limbeck.core.task import TaskInfo
from limbeck.core.want import PER_TEXT, Want
from limbeck.data.rows import Split
from limbeck.data.text.encode import encode
from limbeck.data.text.examples import Corpus, Examples, concatenate
from limbeck.data.windows import WindowCorpus
from limbeck.recipes.augmented import made_up
from limbeck.recipes.cell import TaughtExam, TextExam
from limbeck.recipes.forms import SPLITS, Form, Matter, form_of, labels_of
from limbeck.recipes.recipe import Table, find, from_table
from limbeck.recipes.run import CUSTOM, Run, TrainRun, complete
from limbeck.students.open import fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.students.saved import kind_of, kind_saved
from limbeck.training.trainer import check_loggers


@dataclass(frozen=True)
class Model:
    """A network with the tokenizer it was trained with, and where it lies, if anywhere."""

    network: PreTrainedModel
    tokenizer: Any
    where: str = ""

    @property
    def labels(self) -> list[str]:
        return labels_of(self.network)


@dataclass(frozen=True)
class Material:
    """The teacher and the texts, opened, read and found to fit together: the same for every student."""

    teacher: Model
    form: Form
    matter: Matter  # with the teacher's tokenizer
    fingerprints: dict[str, str]

    @property
    def task(self) -> TaskInfo:
        return self.matter.task

    @property
    def corpus(self) -> Corpus | WindowCorpus:
        return self.matter.corpus

    @property
    def encoded(self) -> Mapping[str, Split]:
        return self.matter.rows

    @property
    def card(self) -> DataCard:
        return self.matter.card

    @property
    def rows(self) -> int:
        """That the teacher is asked about."""
        return sum(map(len, self.encoded.values()))

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Of the test split, to time models on."""
        return self.matter.texts


@dataclass(frozen=True)
class Prepared:
    """All that a run needs to train its students."""

    run: Run
    material: Material
    student: Model | None  # a given starting point; None when the teacher is shrunk
    objective: Objective
    extra: Examples  # made up for the teacher to answer; without labels
    for_teacher: Mapping[str, Split]
    for_student: Mapping[str, Split]
    has_label: Split | None  # the training rows a student without a teacher learns from
    exam: TaughtExam
    fingerprints: dict[str, str]

    @property
    def teacher(self) -> Model:
        return self.material.teacher

    @property
    def corpus(self) -> Corpus | WindowCorpus:
        return self.material.corpus

    @property
    def task(self) -> TaskInfo:
        return self.corpus.task

    @property
    def tokenizer(self) -> Any:
        """The student's."""
        return (self.student or self.teacher).tokenizer


def check_recipe(run: Run) -> None:
    """Refuses a recipe or a term that does not exist, before anything is opened."""
    complete(run, TaskInfo(kind="regress" if run.data.task == "auto" else run.data.task))


def serves(run: Run) -> bool:
    """Whether a run's recipe serves the task that a person named."""
    return run.data.task == "auto" or run.recipe in ("auto", CUSTOM) or run.data.task in find(run.recipe).serves


def gather(run: Run, watcher: Watcher, *, data: object = None, teacher: Model | None = None) -> Material:
    if not run.teacher and teacher is None:
        raise KnobError("no teacher was given", "name one with --teacher, or make one with `limbeck train`")
    check_loggers(run.train)
    watcher.say(f"opening the teacher {run.teacher or type(teacher.network).__name__}")  # type: ignore[union-attr]
    form = form_of(_kind(run, teacher))
    taught = teacher or Model(*form.opened(run.teacher, run.trust_remote_code), where=run.teacher)
    matter = form.matter(form.read(run, data, watcher, taught.network), taught.tokenizer, run, watcher)
    prints = {
        "teacher": fingerprint(taught.network),
        "tokenizer": tokenizer_fingerprint(taught.tokenizer),
        **data_prints(matter.corpus, run),
    }
    return Material(taught, form, matter, prints)


def _kind(run: Run, teacher: Model | None) -> str:
    """The task a person names, else what the teacher's head is for."""
    if run.data.task != "auto":
        return run.data.task
    found = kind_of(teacher.network) if teacher else kind_saved(run.teacher, run.trust_remote_code)
    return found or run.data.task


def prepare(run: Run, material: Material, watcher: Watcher, student: Model | None = None) -> Prepared:
    taught, corpus = material.teacher, material.corpus
    run = _pooled(complete(run, corpus.task), taught.tokenizer)
    objective = from_table(run.objective)
    if student is None and run.student_from:
        opened = material.form.headed(run.student_from, corpus.task, run.trust_remote_code)
        student = Model(*opened, where=run.student_from)
    _check(objective, material, student, run)
    extra = made_up(run.augment, material, Path(run.out), watcher)
    for_teacher = _with(extra, material, taught.tokenizer, run)
    for_student, exam = for_teacher, material.matter.exam
    if student is not None and not tokenizers_equal(student.tokenizer, taught.tokenizer):
        for_student = _with(extra, material, student.tokenizer, run)
        exam = TextExam(corpus.task, student.tokenizer, for_student)  # type: ignore[arg-type]  # places were refused
    prints = dict(material.fingerprints)
    if len(extra):
        prints["augmented"] = uids_fingerprint(extra.uids)
    if student is not None and not student.where:
        prints["student"] = fingerprint(student.network)
    has_label = _labelled(for_student, material)
    return Prepared(run, material, student, objective, extra, for_teacher, for_student, has_label, exam, prints)


def _pooled(run: Run, tokenizer: Any) -> Run:
    """What stands for a text, where a term leaves it open: its first token if that is one made for it."""
    pool = "cls" if tokenizer.cls_token_id is not None else "mean"

    def settled(table: Table) -> Table:
        return {
            term: {**entry, "pool": pool} if entry.get("pool") == "auto" else entry for term, entry in table.items()
        }

    stages = {name: stage.but(objective=settled(stage.objective)) for name, stage in run.stages.items()}
    return run.but(objective=settled(run.objective), stages={k: v.model_dump() for k, v in stages.items()})


def _with(extra: Examples, material: Material, tokenizer: Any, run: Run) -> Mapping[str, Split]:
    """Every split in a tokenizer's tokens, with the made-up rows after the training rows."""
    corpus = material.corpus
    if isinstance(corpus, WindowCorpus) or (not len(extra) and tokenizer is material.teacher.tokenizer):
        return material.encoded
    corpus = replace(corpus, train=concatenate(corpus.train, extra)) if len(extra) else corpus
    return {name: encode(getattr(corpus, name), tokenizer, run.data.max_length) for name in SPLITS}


def _labelled(rows: Mapping[str, Split], material: Material) -> Split | None:
    if not material.matter.has_label:
        return None
    train, real = rows["train"], len(material.encoded["train"])
    return train if len(train) == real else train.take(range(real))


def data_prints(corpus: Corpus | WindowCorpus, run: Run | TrainRun) -> dict[str, str]:
    places = f" {run.windows.stride} {run.windows.longest_question}" if corpus.task.in_windows else ""
    return {"data": data_fingerprint(corpus, run.data.max_length, places), "labels": labels_fingerprint(corpus)}


def data_fingerprint(corpus: Corpus | WindowCorpus, max_length: int, places: str = "") -> str:
    """Names the set of examples, whatever their order, and how many tokens of each are seen."""
    return uids_fingerprint(np.concatenate([getattr(corpus, name).uids for name in SPLITS]), f"{max_length}{places}")


def uids_fingerprint(uids: np.ndarray, salt: str = "") -> str:
    return hashlib.blake2b(np.sort(uids).tobytes() + salt.encode(), digest_size=8).hexdigest()


def labels_fingerprint(corpus: Corpus | WindowCorpus) -> str:
    """Names what is learnt from the examples: their labels, and the order from which a seed shuffles."""
    digest = hashlib.blake2b(digest_size=8)
    if isinstance(corpus, WindowCorpus):  # of several gold answers a row holds one
        digest.update(repr([[item.gold for item in corpus.items(name)] for name in SPLITS]).encode())
    for name in SPLITS:
        rows = getattr(corpus, name)
        for column in (rows.uids, rows.labels, rows.has_label):
            digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _check(objective: Objective, material: Material, student: Model | None, run: Run) -> None:
    task, teacher = material.task, material.teacher
    every = [objective, *(from_table(stage.objective) for stage in run.stages.values())]
    for part in (part for towards in every for part in misfits(towards, task)):
        raise MismatchError(f"{part} does not serve {task}", part.remedy)
    if task.in_windows and run.student.family == "bilstm":
        raise KnobError("a bilstm answers about whole texts only", "set --student.family same")
    needed = reduce(or_, map(wants, every))
    if student is not None:
        outputs = student.network.config.num_labels, teacher.network.config.num_labels
        if outputs[0] != outputs[1]:
            raise MismatchError(
                f"the student has {outputs[0]} outputs, the teacher {outputs[1]}",
                "give the student as many labels as the teacher",
            )
        if not tokenizers_equal(student.tokenizer, teacher.tokenizer):
            _check_tokens(task, needed, run)
    if not material.matter.has_label and not needed:
        raise MismatchError(
            "no training row has a label, and the objective asks for nothing else", "add labels, or --recipe hinton"
        )


def _check_tokens(task: TaskInfo, needed: Want, run: Run) -> None:
    """What student and teacher may do when they cut text into different tokens."""
    if task.in_windows:
        raise MismatchError(
            "student and teacher cut text into different tokens, so their places in it are not the same",
            "start from a model with the teacher's tokenizer, or leave out --student-from and shrink the teacher",
        )
    if by_token := needed & ~PER_TEXT:
        raise MismatchError(
            f"the objective compares {by_token} token by token, but student and teacher cut text into different tokens",
            "use --recipe logits, hinton or pkd-skip, which look at whole texts, or start from a model with the "
            "teacher's tokenizer",
        )
    if run.teacher_cache.live:
        raise MismatchError(
            "student and teacher cut text into different tokens, so one batch cannot serve both",
            "leave --teacher-cache.live off: cached answers are per text and fit any tokenizer",
        )
