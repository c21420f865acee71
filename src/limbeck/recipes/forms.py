"""The two forms that rows with labels have: whole texts, and places in texts. What differs between them is here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import WINDOW_KINDS, TaskInfo, WindowKind
from limbeck.data.rows import Split
from limbeck.data.settings import DataSettings
from limbeck.data.span.corpus import encode_questions, read_questions
from limbeck.data.text.encode import encode
from limbeck.data.text.examples import Corpus, Examples, read_texts, relabel
from limbeck.data.token.corpus import encode_sentences, read_sentences
from limbeck.data.windows import WindowCorpus
from limbeck.data.windows import WindowRows as Found
from limbeck.recipes.cell import TaughtExam, TextExam
from limbeck.recipes.place_exam import PlaceExam
from limbeck.recipes.run import Run, TrainRun
from limbeck.students.open import open_classifier, open_encoder
from limbeck.students.open_places import open_reader, open_tagger
from limbeck.students.saved import kind_of

SPLITS = ("train", "dev", "test")
Opened = tuple[PreTrainedModel, Any]  # a network and its tokenizer


@dataclass(frozen=True)
class Matter:
    """The data in a tokenizer's tokens: what is learnt from, asked about and examined on."""

    corpus: Corpus | WindowCorpus
    rows: Mapping[str, Split]
    exam: TaughtExam
    texts: list[tuple[str, str]]  # of the test split, to time models on

    @property
    def task(self) -> TaskInfo:
        return self.corpus.task

    @property
    def card(self) -> DataCard:
        return self.corpus.card.but(truncated=sum(split.truncated for split in self.rows.values()))

    @property
    def has_label(self) -> bool:
        """Whether there is anything to learn without a teacher."""
        return bool(self.rows["train"].has_label.any())


class Form(ABC):
    """How models of one form are opened and its data is read."""

    @abstractmethod
    def opened(self, where: str | Path, trust_remote_code: bool = False) -> Opened:
        """A model that can answer."""

    @abstractmethod
    def headed(self, where: str | Path, task: TaskInfo, trust_remote_code: bool = False) -> Opened:
        """Any encoder, with a head for the task."""

    @abstractmethod
    def read(
        self, run: Run | TrainRun, data: object, watcher: Watcher, taught: PreTrainedModel | None = None
    ) -> Corpus | Found[Any]:
        """The data, before any tokenizer; in the order of labels of the model that is `taught`."""

    @abstractmethod
    def matter(self, found: Any, tokenizer: Any, run: Run | TrainRun, watcher: Watcher) -> Matter: ...


def form_of(kind: str) -> Form:
    return Places(kind) if kind in WINDOW_KINDS else Texts()


class Texts(Form):
    """A label for each text."""

    def opened(self, where: str | Path, trust_remote_code: bool = False) -> Opened:
        return open_classifier(where, trust_remote_code=trust_remote_code)

    def headed(self, where: str | Path, task: TaskInfo, trust_remote_code: bool = False) -> Opened:
        return open_encoder(where, task, trust_remote_code)

    def read(
        self, run: Run | TrainRun, data: object, watcher: Watcher, taught: PreTrainedModel | None = None
    ) -> Corpus:
        if taught is None:
            return read_texts(run.data, data, watcher)
        corpus = read_texts(_asked(run.data, taught), data, watcher, known=labels_of(taught))
        return _fit(corpus, taught, ordered=bool(run.data.classes))

    def matter(self, found: Any, tokenizer: Any, run: Run | TrainRun, watcher: Watcher) -> Matter:
        rows = {name: encode(getattr(found, name), tokenizer, run.data.max_length) for name in SPLITS}
        return Matter(found, rows, TextExam(found.task, tokenizer, rows), _pairs(found.test))


class Places(Form):
    """A tag for each word, or the place of an answer."""

    def __init__(self, kind: WindowKind) -> None:
        self.kind = kind

    def opened(self, where: str | Path, trust_remote_code: bool = False) -> Opened:
        opener = open_tagger if self.kind == "tag" else open_reader
        return opener(where, trust_remote_code=trust_remote_code)

    def headed(self, where: str | Path, task: TaskInfo, trust_remote_code: bool = False) -> Opened:
        opener = partial(open_tagger, task=task) if self.kind == "tag" else open_reader
        return opener(where, fresh=True, trust_remote_code=trust_remote_code)

    def read(
        self, run: Run | TrainRun, data: object, watcher: Watcher, taught: PreTrainedModel | None = None
    ) -> Found[Any]:
        if self.kind == "answer":
            return read_questions(run.data, run.windows, data)
        return read_sentences(run.data, run.windows, data, labels_of(taught) if taught is not None else ())

    def matter(self, found: Any, tokenizer: Any, run: Run | TrainRun, watcher: Watcher) -> Matter:
        encode = encode_sentences if self.kind == "tag" else encode_questions
        corpus = encode(found, tokenizer, run.data, run.windows, watcher)
        return Matter(corpus, corpus.splits, PlaceExam(corpus, tokenizer, run.windows), corpus.texts("test"))


def labels_of(network: PreTrainedModel) -> list[str]:
    return [name for _, name in sorted(network.config.id2label.items())]


def _pairs(examples: Examples) -> list[tuple[str, str]]:
    return list(zip(examples.texts, examples.pairs or [""] * len(examples), strict=True))


def _asked(settings: DataSettings, teacher: PreTrainedModel) -> DataSettings:
    """A teacher that says what it was trained for settles what the labels mean, unless the person did."""
    kind = kind_of(teacher)
    return settings.but(task=kind) if kind and settings.task == "auto" else settings


def _fit(corpus: Corpus, teacher: PreTrainedModel, ordered: bool) -> Corpus:
    """The corpus in the teacher's order of labels; a teacher of another task is refused."""
    kind = kind_of(teacher)
    if corpus.task.kind == "regress" or kind == "regress":
        if teacher.config.num_labels != 1 or corpus.task.kind != "regress":
            raise MismatchError(
                f"the data asks for {corpus.task}, the teacher gives {teacher.config.num_labels} "
                f"output{'s' if teacher.config.num_labels > 1 else ''} ({kind or 'classify'})",
                "use a teacher of this task, or set --data.task",
            )
        return corpus
    if kind == "multilabel" and corpus.task.kind == "classify":
        raise MismatchError(
            "the teacher gives any number of labels per text, the data one class", "set --data.task multilabel"
        )
    return relabel(corpus, labels_of(teacher), ordered=ordered)
