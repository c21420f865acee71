"""A Task is one kind of problem. Everything outside this room is the same for all of them.

`Task` calls the methods of a kind of problem, which do not call back. To add one, write `read`, `encode`, `texts`,
`new_rows` and `predict`, and an `Evaluator`; every other method has a default that serves models which
give logits.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeAlias, cast

import numpy as np
from transformers import PreTrainedModel

import limbeck.tasks
from limbeck.core.card import Paper
from limbeck.core.errors import does_not_teach, no_teacher
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.metric import check_metric
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard, Floor, Record, SeedResult
from limbeck.core.task import SEQ2SEQ_KINDS, TEXT_KINDS, WHOLE_KINDS, WINDOW_KINDS, Kind, TaskInfo
from limbeck.core.trace import Teacher, Want
from limbeck.data.batches import Dataset, Split
from limbeck.data.sources.tables import Table
from limbeck.engines.onnx import exported_facts
from limbeck.measure.evaluator import Evaluation as Evaluation
from limbeck.measure.evaluator import Evaluator
from limbeck.measure.size import is_ctranslate2
from limbeck.objectives.labels import DEVLIN_2019, Labels
from limbeck.objectives.supervised import supervised
from limbeck.students.load import kind_of, kind_saved, labels_in, load
from limbeck.students.model_folder import model_in
from limbeck.students.sizes import positions_of
from limbeck.teachers.live import LiveTeacher, MemoryTeacher
from limbeck_runtime import is_exported
from limbeck_runtime.answers import Answer as Answer

COLLECTING = "teacher's outputs"  # the progress item
TEXTS_SHARE = 0.6  # the share of it that is done when the teacher has written its texts
LABELS = "labels"  # the term over labels, in an objective's table
# training rows by their targets: every row, those with what people gave, or every row with what a teacher writes
ALL, GOLD, BEAM = "", "gold", "beam"
Inputs = tuple[str, ...]  # what a model reads of a row: a text, a pair, a question and its context, or words
Terms: TypeAlias = dict[str, dict[str, Any]]  # an objective as a table
Options = Any  # a job's settings, built on TaskKnobs, with the tables of its task


class TaskRows(Protocol):
    """What `Task.read` returns."""

    @property
    def task(self) -> TaskInfo: ...


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", bound=TaskRows, default=Any)  # a bare Task or Setup is of any rows
else:
    from typing import TypeVar

    R = TypeVar("R")


@dataclass(frozen=True)
class Model:
    """A network, what turns rows into its inputs, and the folder or hub id it came from, if any."""

    network: PreTrainedModel
    processor: Any
    source: str = ""

    @property
    def labels(self) -> list[str]:
        return list(labels_in(self.network.config))


class Evaluated(NamedTuple):
    """A model on a file, and what needs no model."""

    info: TaskInfo
    evaluations: list[Evaluation]  # of the model and, if there is one, of the teacher beside it
    floor: Floor | None


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
    for_teacher: Sequence[Split] = ()  # the splits a teacher answers, in its own tokens
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
class Member:
    """One of several teachers whose answers are averaged."""

    model: Model
    weight: float
    temperature: float
    order: Sequence[int]  # which of its outputs each class is
    encode: Callable[[Split], Split]  # rows in the first teacher's tokens, in its own
    fingerprints: Mapping[str, str]


@dataclass(frozen=True)
class Setup(Generic[R]):
    """What all arms of a run share: the teacher, the rows, and the data in the teacher's tokens."""

    task: Task[R]
    teacher: Model | None  # None: there is none, or only its outputs
    splits: R  # the rows as read, before any tokenizer
    data: EncodedData
    fingerprints: dict[str, str]
    notes: list[str] = field(default_factory=list)
    init: Model | None = None  # random weights and a vocabulary, where there is no teacher to shrink
    more_teachers: Sequence[Model] = ()  # each of some of the rows, or averaged with the first
    members: Sequence[Member] = ()  # the teachers that are averaged; none where one teaches alone
    answers: Teacher | None = None  # a teacher that is not run: its answers stand in the data

    @property
    def info(self) -> TaskInfo:
        return self.data.info

    @property
    def teachers(self) -> list[Model]:
        return [self.teacher, *self.more_teachers] if self.teacher else []


class HasNetwork(Protocol):
    """Where the student of an arm starts."""

    @property
    def network(self) -> PreTrainedModel: ...


class HasTeacher(Protocol):
    """A training step of an arm."""

    @property
    def teacher(self) -> Teacher: ...


class Trained(Protocol):
    """A finished trial, as far as a task looks at it."""

    @property
    def result(self) -> SeedResult: ...
    @property
    def statistics(self) -> np.ndarray: ...
    @property
    def model(self) -> Path: ...


class TrainedArm(Protocol):
    """The plan of its trials."""

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> EncodedData: ...
    @property
    def start(self) -> HasNetwork: ...
    @property
    def trainings(self) -> Sequence[HasTeacher]: ...


class FinishedRun(Protocol):
    """A run that is finished, before its Record is written."""

    @property
    def kind(self) -> str: ...
    @property
    def run(self) -> Options: ...
    @property
    def setup(self) -> Setup: ...
    @property
    def teacher_test(self) -> Evaluation | None: ...
    @property
    def folder(self) -> Path: ...
    @property
    def done(self) -> Sequence[TrainedArm]: ...
    @property
    def results(self) -> Mapping[str, Sequence[Trained]]: ...
    @property
    def seconds(self) -> float: ...
    def best(self) -> tuple[TrainedArm, Trained]: ...


@dataclass(frozen=True)
class Task(ABC, Generic[R]):
    """One kind of problem: how its rows are read, encoded, taught and measured, and how its models are loaded."""

    info: TaskInfo
    knobs: Options

    kinds: ClassVar[tuple[Kind, ...]]
    paper: ClassVar[Paper] = DEVLIN_2019  # what `limbeck train` cites
    remedy: ClassVar[str] = ""  # for an objective that does not serve the task
    labels_only: ClassVar[str] = "labels only"  # how a student without a teacher is called
    # what to do instead of --unlabelled; "" where it is taken
    unlabelled_remedy: ClassVar[str] = f"it serves {', '.join((*TEXT_KINDS, *WINDOW_KINDS, *SEQ2SEQ_KINDS))}"
    unlabelled_recipe: ClassVar[str] = "hinton"  # one that learns from --unlabelled
    from_scratch: ClassVar[bool] = False  # `limbeck train` may start from random weights
    new_students: ClassVar[bool] = False  # a student is a new network, not cut from its teacher

    # What every kind of problem writes

    @abstractmethod
    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> R:
        """The rows, before any tokenizer, in the model's order of labels."""

    @abstractmethod
    def encode(self, splits: R, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        """The rows in a model's tokens; beside a teacher, in tokens that both share."""

    @abstractmethod
    def texts(self, setup: Setup[R], split: str) -> list[tuple[str, str]]:
        """(text, second text) of a split: what models are timed on, and what a pass looks at. Some have no second."""

    @abstractmethod
    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        """Rows to predict, which need no label, and what a model reads of each; nothing but "" where a row is empty."""

    @abstractmethod
    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        """What the model answers to each of these rows, under the same names for all of them."""

    def longest(self, model: Model) -> int:
        """Tokens read of a text to predict: all that the model can, unless --data.max-length says otherwise."""
        settings = self.knobs.data
        if "max_length" in settings.model_fields_set:
            return int(settings.max_length)
        return positions_of(model.network) or int(model.processor.model_max_length)

    # The walk of the data

    def load(self, source: str, *, new_head: bool = False) -> Model:
        """A model that can answer; with `new_head` any that could learn to."""
        info, trusted = self.info if new_head else None, self.knobs.trust_remote_code
        loaded = load(source, self.info.kind, info, new_head=new_head, trust_remote_code=trusted)
        return Model(*loaded, source=model_in(source))

    def settled(self, splits: R) -> Self:
        """With what reading told: the labels, and the kind where it was left open."""
        return replace(self, info=splits.task)

    def with_metric(self, info: TaskInfo) -> TaskInfo:
        """With the metric that a person chose, now that the kind and the labels are known."""
        check_metric(self.knobs.metric, [info.kind], len(info.labels))
        return replace(info, metric=self.knobs.metric)

    def prepare(self, data: object, teacher: Model | None, watcher: Watcher, student: Model | None = None) -> Setup[R]:
        """Reads and encodes what all arms share."""
        owner = teacher or student
        if owner is None or not (teacher or self.info.over_vocabulary):  # a cache can teach tokens alone
            raise no_teacher()
        splits = self.read(data, teacher, watcher)
        encoded = self.settled(splits).encode(splits, owner, watcher, teacher)
        prints = {"teacher": fingerprint(teacher.network)} if teacher else {}
        prints |= {"tokenizer": tokenizer_fingerprint(encoded.processor), **encoded.fingerprints}
        return Setup(replace(self, info=encoded.info), teacher, splits, encoded, prints)

    def prepare_answered(self, data: object, watcher: Watcher, student: Model | None = None) -> Setup[R]:
        """The same where a teacher's answers stand in the data."""
        raise does_not_teach("a teacher's column", self.info.kind, TEXT_KINDS, "give the model itself with --teacher")

    def averaged(self, setup: Setup[R], others: Sequence[Model], voices: Sequence[tuple[float, float]]) -> Setup[R]:
        """With more teachers beside the first, each with its weight and its temperature."""
        raise does_not_teach("an average of several teachers", self.info.kind, WHOLE_KINDS, "give one --teacher")

    def evaluate_teacher(self, setup: Setup[R], teacher: Teacher, place: Path) -> Evaluation | None:
        """The teacher on the test split."""
        if setup.teacher is None:
            return None
        return setup.data.evaluator.with_teacher(teacher).of_teacher(setup.teacher.network)

    def evaluate(self, model: Model, splits: R, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        """The model on the rows that `read(only_test=True)` gave; and a teacher, with which it is compared."""
        data = self.encode(splits, model, watcher, teacher)
        if teacher is None:
            return Evaluated(data.info, [data.evaluator.test(model.network)], data.evaluator.floor())
        outputs = MemoryTeacher(LiveTeacher(teacher.network, vocabulary=data.info.vocab_size))
        evaluator = data.evaluator.with_teacher(outputs)
        theirs = evaluator.of_teacher(teacher.network)
        watcher.at(evaluating(teacher), 1.0)
        return Evaluated(data.info, [evaluator.test(model.network), theirs], evaluator.floor())

    # What some kinds of problem change

    def check_settings(self) -> None:
        """Refuses settings that contradict each other, before a model is loaded."""
        return None

    def check(
        self, run: Options, setup: Setup[R], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        """Refuses a student that does not fit the data or its teacher."""
        return None

    def model_to_train(self, source: str, splits: R) -> tuple[Model, list[str]]:
        """The model that `limbeck train` starts from, and what is to be said of it."""
        return self.load(source, new_head=True), []

    def new_network(self, processor: Any) -> PreTrainedModel:
        """Random weights from torch's current seed, of a kind of problem that may start from them."""
        raise NotImplementedError

    def encode_for_training(self, splits: R, model: Model, watcher: Watcher) -> EncodedData:
        """For a model that learns without a teacher."""
        return self.encode(splits, model, watcher)

    def same_encoding(self, setup: Setup[R], student: Model) -> bool:
        """Whether an arm with the shared tokenizer also shares the encoded rows."""
        return True

    def resolve(self, run: Options, setup: Setup[R], needed: Want) -> Options:
        """The run with what only the data, a model or a cache can tell."""
        return run

    def baseline(self, objective: Objective) -> Objective:
        """What the same student learns towards without a teacher: labels, weighed and smoothed as beside it."""
        return supervised(
            self.info, next((part for _, part in objective.weighted if isinstance(part, Labels)), Labels())
        )

    def supervised(self) -> Objective:
        """What `limbeck train` learns towards."""
        return supervised(self.info, Labels(**self.knobs.objective.get(LABELS, {})))

    def augmented(self, run: Options, setup: Setup[R], data: EncodedData, watcher: Watcher) -> EncodedData:
        """With the rows that an arm adds to the training split."""
        return data

    def with_targets(
        self, setup: Setup[R], wanted: Sequence[tuple[EncodedData, Collection[str]]], place: Path, watcher: Watcher
    ) -> tuple[list[EncodedData], list[str]]:
        """Each data with the training rows of its targets, which a teacher may have to write; and notes."""
        return [data for data, _ in wanted], []

    def row_teachers(self, setup: Setup[R], rows: Dataset) -> list[tuple[Model, np.ndarray]]:
        """Who answers which rows of a training split."""
        return [(model, np.arange(len(rows))) for model in setup.teachers]

    def switched(self, run: Options, setup: Setup[R], teacher: Teacher, rows: Dataset) -> Teacher:
        """The teacher, or one that steps back when its student has passed it."""
        return teacher

    def add_to_record(self, record: Record, finished: FinishedRun, watcher: Watcher) -> Record:
        """With what only a Record of this task has."""
        return record

    @property
    def beam(self) -> int:
        """With which a generating model is timed; 0: it generates nothing."""
        return 0


def with_class_weights(table: Terms, data: EncodedData) -> Terms:
    """A table of terms with the class weights that the labels of the training rows tell."""
    if LABELS not in table or data.info.over_vocabulary:
        return table
    knobs = dict(table[LABELS])
    share = {"weight": knobs.pop("weight")} if "weight" in knobs else {}
    rows = cast(Split, data.rows[ALL])
    settled = Labels(**knobs).settled(data.info, rows.labels[rows.has_label])
    return {**table, LABELS: {**share, **settled.model_dump()}}


def evaluating(model: Model) -> str:
    """The progress item of a model's evaluation."""
    return f"evaluating {model.source or type(model.network).__name__}"


def translating(watcher: Watcher, share: float) -> None:
    """While a teacher writes its texts."""
    watcher.at(COLLECTING, TEXTS_SHARE * share, "translating the training set")


TASKS: dict[str, type[Task]] = {}


def task(cls: type[Task]) -> type[Task]:
    """Registers a task for its kinds."""
    TASKS.update(dict.fromkeys(cls.kinds, cls))
    return cls


def task_of(knobs: Options, model: Model | str | None) -> Task:
    """The task named, else the one that the model's head is for. The only dispatch on a task.

    Where neither a person nor the head tells, it is text classification, and the labels tell which."""
    for module in pkgutil.iter_modules(limbeck.tasks.__path__):
        import_module(f"limbeck.tasks.{module.name}")
    kind, metric = knobs.data.task, knobs.metric
    if kind == "auto":
        kind = kind_of_model(model, knobs.trust_remote_code) or "classify"
        check_metric(metric, TEXT_KINDS if kind in TEXT_KINDS else [kind])  # the labels may tell otherwise
    return TASKS[kind](TaskInfo(kind=kind, metric=metric), knobs)


def kind_of_model(model: Model | str | None, trust_remote_code: bool = False) -> str | None:
    if not model:
        return None
    if isinstance(model, Model):
        return kind_of(model.network)
    if is_exported(model):
        return exported_facts(model, check=False).kind
    return "translate" if is_ctranslate2(model) else kind_saved(model, trust_remote_code)
