"""A Task is one kind of problem. Everything outside this room is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from limbeck.core.card import Paper
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.core.objective import Objective, misfits
from limbeck.core.progress import Watcher
from limbeck.core.record import ClassScore, DataCard, Disagreement, Fidelity, Record, SeedResult
from limbeck.core.task import Kind, TaskInfo
from limbeck.core.teacher import Teacher
from limbeck.core.want import Want
from limbeck.data.batches import Dataset
from limbeck.objectives.labels import DEVLIN_2019
from limbeck.objectives.supervised import supervised
from limbeck.students.families import find_family

COLLECTING = "teacher's outputs"  # the progress item
TEXTS = 0.6  # the share of it that is done when the teacher has written its texts
ALL, GOLD = "", "gold"  # training rows by their targets: every row, or those with what people gave


@dataclass(frozen=True)
class Model:
    """A network, what turns rows into its inputs, and the folder or hub id it came from, if any."""

    network: PreTrainedModel
    processor: Any
    source: str = ""

    @property
    def labels(self) -> list[str]:
        return [name for _, name in sorted(self.network.config.id2label.items())]


@dataclass(frozen=True)
class Evaluation:
    """A model on the test split: per-row statistics, from which every metric and every resample is computed."""

    uids: np.ndarray
    statistics: np.ndarray  # [rows, k]; of texts, the logits
    scores: dict[str, float]
    per_class: Sequence[ClassScore] = ()
    fidelity: Fidelity | None = None
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))  # where the metrics need them beside the statistics
    has_label: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))
    texts: Sequence[str] = ()  # what a generating model wrote
    disagreements: Sequence[Disagreement] = ()  # with the teacher, the surest first

    def result(self, seed: int = 0) -> SeedResult:
        return SeedResult(seed=seed, quality=self.scores, per_class=list(self.per_class), fidelity=self.fidelity)


Evaluated = tuple[TaskInfo, list[Evaluation]]  # of a model and, if there is one, of the teacher beside it


class Evaluator(ABC):
    """Measures models on dev while they train, and on test; beside a teacher, also how close they are to it."""

    passes: ClassVar[tuple[int, int]] = (1, 1)  # forward passes that a row of dev and one of test costs

    @property
    @abstractmethod
    def dev(self) -> Dataset: ...

    @property
    @abstractmethod
    def test_rows(self) -> int: ...

    @abstractmethod
    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]: ...

    @abstractmethod
    def dev_metrics(self, model: PreTrainedModel) -> dict[str, float]: ...

    def while_training(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        """The dev metrics as the trainer takes them: from the model, or from all logits of its own evaluation loop."""
        return {"dev_metrics": self.dev_metrics}

    @abstractmethod
    def test(self, model: PreTrainedModel) -> Evaluation: ...

    @abstractmethod
    def with_teacher(self, teacher: Teacher, test: Evaluation | None = None) -> Self:
        """The same, comparing with a teacher and what it made of the test split."""

    def of_teacher(self) -> Evaluation:
        """The teacher itself on test, from its outputs."""
        raise NotImplementedError(f"{type(self).__name__} evaluates a teacher as it does any model")


@dataclass(frozen=True)
class EncodedData:
    """The data in one processor's tokens."""

    info: TaskInfo
    processor: Any
    rows: Mapping[str, Dataset]  # training rows by their targets; some targets are only known later
    evaluator: Evaluator
    card: DataCard
    fingerprints: Mapping[str, str]
    size: int  # training rows
    augmented: int = 0  # of them, made from others
    for_teacher: Sequence[Any] = ()  # the splits a teacher answers, in its own tokens
    max_length: int = 0  # tokens of a row; 0: as --data.max-length says
    notes: Sequence[str] = ()
    has_gold: bool = True  # whether people gave anything to learn from
    pairs: bool = False  # rows are pairs of texts

    def train(self, targets: str) -> Dataset:
        return self.rows[targets if targets in self.rows else ALL]

    def count(self, targets: str) -> int:
        known = targets if targets in self.rows else ALL
        return len(self.rows[known]) if known in self.rows else self.size


@dataclass(frozen=True)
class Setup:
    """What all arms of a run share: the teacher, the rows, and the data in the teacher's tokens."""

    task: Task
    teacher: Model | None  # None: there is none, or only its outputs
    splits: Any  # the rows as read, before any tokenizer
    data: EncodedData
    fingerprints: dict[str, str]
    notes: list[str] = field(default_factory=list)

    @property
    def info(self) -> TaskInfo:
        return self.data.info

    @property
    def teachers(self) -> list[Model]:
        return [self.teacher] if self.teacher else []


@dataclass(frozen=True)
class Task(ABC):
    """One kind of problem: how its rows are read, encoded, taught and measured, and how its models are loaded."""

    info: TaskInfo
    knobs: Any  # a job's settings, built on TaskKnobs

    kinds: ClassVar[tuple[Kind, ...]]
    recipes: ClassVar[Mapping[str, str]]  # what `--recipe auto` means, by kind
    paper: ClassVar[Paper] = DEVLIN_2019  # what `limbeck train` cites
    remedy: ClassVar[str] = ""  # for an objective that does not serve the task

    @abstractmethod
    def load(self, source: str, *, new_head: bool = False) -> Model:
        """A model that can answer; with `new_head` any that could learn to."""

    @abstractmethod
    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> Any:
        """The rows, before any tokenizer, in the model's order of labels; they have a `task`."""

    @abstractmethod
    def encode(self, splits: Any, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        """The rows in a model's tokens; beside a teacher, in tokens that both share."""

    @abstractmethod
    def timing_inputs(self, setup: Setup) -> list[tuple[str, str]]:
        """(text, second text) of the test split, to time models on."""

    def check_settings(self) -> None:
        """Refuses settings that contradict each other, before a model is loaded."""
        return None

    def settled(self, splits: Any) -> Self:
        """With what reading told: the labels, and the kind where it was left open."""
        return replace(self, info=splits.task)

    def prepare(self, data: object, teacher: Model | None, watcher: Watcher, student: Model | None = None) -> Setup:
        """Reads and encodes what all arms share."""
        splits = self.read(data, teacher, watcher)
        owner = teacher or student
        if owner is None:
            raise KnobError("no teacher was given", "name one with --teacher, or make one with `limbeck train`")
        encoded = self.settled(splits).encode(splits, owner, watcher, teacher)
        prints = {"teacher": fingerprint(teacher.network)} if teacher else {}
        prints |= {"tokenizer": tokenizer_fingerprint(encoded.processor), **encoded.fingerprints}
        return Setup(replace(self, info=encoded.info), teacher, splits, encoded, prints)

    def encode_for_training(self, splits: Any, model: Model, watcher: Watcher) -> EncodedData:
        """For a model that learns without a teacher."""
        return self.encode(splits, model, watcher)

    def same_encoding(self, setup: Setup, student: Model) -> bool:
        """Whether an arm with the shared tokenizer also shares the encoded rows."""
        return True

    def resolve(self, run: Any, setup: Setup, needed: Want) -> Any:
        """The run with what only the data, a model or a cache can tell."""
        return run

    def baseline(self, objective: Objective) -> Objective:
        """What the same student learns towards without a teacher."""
        return supervised(self.info)

    def check(self, run: Any, setup: Setup, student: Model, objectives: Sequence[Objective], needed: Want) -> None:
        """Refuses an arm whose parts do not fit together."""
        family = find_family(run.student.family)
        if family.serves and self.info.kind not in family.serves:
            raise KnobError(
                f"a {family.name} student does not serve --task {self.info.kind}", "set --student.family same"
            )
        for part in (part for objective in objectives for part in misfits(objective, self.info)):
            raise MismatchError(f"{part} does not serve --task {self.info.kind}", part.remedy or self.remedy)

    def supervised(self) -> Objective:
        """What `limbeck train` learns towards."""
        return supervised(self.info)

    def augmented(self, run: Any, setup: Setup, data: EncodedData, watcher: Watcher) -> EncodedData:
        """With the rows that an arm adds to the training split."""
        return data

    def with_targets(
        self, setup: Setup, wanted: Sequence[tuple[EncodedData, Collection[str]]], place: Path, watcher: Watcher
    ) -> tuple[list[EncodedData], list[str]]:
        """Each data with the training rows of its targets, which a teacher may have to write; and notes."""
        return [data for data, _ in wanted], []

    def evaluate_teacher(self, setup: Setup, teacher: Teacher, place: Path) -> Evaluation | None:
        """The teacher on the test split."""
        return setup.data.evaluator.with_teacher(teacher).of_teacher()

    def row_teachers(self, setup: Setup, rows: Dataset) -> list[tuple[Model, np.ndarray]]:
        """Who answers which rows of a training split."""
        return [(model, np.arange(len(rows))) for model in setup.teachers]

    def switched(self, run: Any, setup: Setup, teacher: Teacher, rows: Dataset) -> Teacher:
        """The teacher, or one that steps back when its student has passed it."""
        return teacher

    def add_to_record(self, record: Record, finished: Any, watcher: Watcher) -> Record:
        """With what only a Record of this task has."""
        return record

    @abstractmethod
    def evaluate(self, model: Any, splits: Any, watcher: Watcher, teacher: Any = None) -> Evaluated:
        """The model on the rows that `read(only_test=True)` gave; and a teacher, with which it is compared."""

    @property
    def max_length(self) -> int:
        """Tokens of a row at most."""
        return int(self.knobs.data.max_length)

    @property
    def beam(self) -> int:
        """With which a generating model is timed; 0: it generates nothing."""
        return 0

    def labels_only(self) -> str:
        """How a student without a teacher is called."""
        return "labels only"


def evaluating(model: Any) -> str:
    """The progress item of a model's evaluation."""
    return f"evaluating {model.source or type(model.network).__name__}"


def same_tokens(a: Any, b: Any) -> bool:
    """Whether two processors turn every row into the same inputs."""
    return a is b or tokenizers_equal(a, b)


TASKS: dict[str, type[Task]] = {}


def task(cls: type[Task]) -> type[Task]:
    """Registers a task for its kinds."""
    TASKS.update(dict.fromkeys(cls.kinds, cls))
    return cls
