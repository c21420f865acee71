"""What was done and what came of it. Reports are made from Records only.

A Record is plain data: pydantic writes it as JSON and reads it back. Quantities carry their unit in their name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from limbeck.core.checksum import DamagedError, sealed, unsealed
from limbeck.core.errors import DataError
from limbeck.core.files import write_text
from limbeck.core.knob import Frozen
from limbeck.core.matrix import Matrix
from limbeck.core.task import TaskInfo

SCHEMA = 1


class Machine(Frozen):
    system: str
    processor: str
    cores: int
    memory_bytes: int
    python: str
    versions: dict[str, str]  # torch, transformers, limbeck, …


class SplitCard(Frozen):
    source: str  # a file, or how it was cut
    rows: int
    labelled: int
    per_class: dict[str, int] = {}


class SourceCard(Frozen):
    """What one of several files gave."""

    source: str
    gives: str  # splits, "train, dev, test", or "unlabelled"
    read: int
    used: int
    dropped: dict[str, int] = {}  # reason → rows

    @property
    def sentence(self) -> str:
        """What it gave, and what became of the rest."""
        dropped = ", ".join(f"{count:,} {why}" for why, count in self.dropped.items())
        gives = "for the teacher to answer" if self.gives == "unlabelled" else f"for {self.gives}"
        return f"{self.source}: {self.used:,} of {self.read:,} rows {gives}{dropped and f'; dropped: {dropped}'}"


class DataCard(Frozen):
    """Where the examples came from and what happened to each row."""

    source: str
    columns: dict[str, str]  # role (text, pair, label) → column chosen
    read: int
    dropped: dict[str, int] = {}  # reason → rows
    duplicates: int = 0  # rows whose text occurred before; kept
    overlap: int = 0  # test rows whose text the model also learned from
    conflicts: int = 0  # of those, rows whose label differs from the first one's
    truncated: int = 0  # rows longer than max_length tokens
    splits: dict[str, SplitCard] = {}  # train, dev, test
    notes: list[str] = []
    sources: list[SourceCard] = []  # of data with unlabelled files: every file; `read` and `dropped` are of --data


class ClassScore(Frozen):
    label: str
    precision: float
    recall: float
    f1: float
    rows: int


class ReliabilityBin(Frozen):
    """The test rows of which a model was about equally sure."""

    low: float
    high: float
    rows: int
    confidence: float  # mean probability of the predicted class
    accuracy: float


class Fidelity(Frozen):
    """How close a student stays to its teacher, and how it does where the teacher is right (A) and wrong (B).

    Translations have no right and wrong. Their agreement is the share of test sentences whose beam translation is the
    teacher's. Their divergence is the mean per token of (student nats − teacher nats) on the teacher's translations:
    an estimate of KL at the teacher's mode, which may be negative. None is unknown, as with a black box.
    """

    agreement: float | None  # share of rows with the teacher's prediction (regression: Pearson with it)
    divergence: float | None  # mean KL(teacher ‖ student); regression: mean squared difference
    teacher_right_rows: int = 0
    teacher_wrong_rows: int = 0
    accuracy_teacher_right: float | None = None
    accuracy_teacher_wrong: float | None = None


class CurvePoint(Frozen):
    step: int
    epoch: float
    loss: float | None = None  # training loss, mean since the last point
    terms: dict[str, float] = {}  # unweighted terms of the objective
    dev: dict[str, float] = {}  # metrics on the dev set


class Stopped(Frozen):
    """A training at its lowest loss on dev: the early-stopping iteration of the literature."""

    step: int
    loss: float  # on dev
    quality: dict[str, float]  # on the test split, with the weights of that step


class Level(Frozen):
    """A model of one sparsity, trained: one round of a search for a ticket."""

    remaining: int  # weights that live
    total: int  # of those that may be pruned
    quality: dict[str, float]  # on the test split
    best_step: int  # of its training: where dev was best, whichever weights were kept
    steps: int
    dev: dict[str, float] = {}  # at the best step
    ticket: str = ""  # its file, relative to the run folder; of the whole model none
    stopped: Stopped | None = None  # None: not measured

    @property
    def share(self) -> float:
        return self.remaining / max(self.total, 1)


class SeedResult(Frozen):
    """One model trained (or just measured) once."""

    seed: int
    quality: dict[str, float]  # accuracy, f1_macro, matthews, ece, … on the test split
    before: dict[str, float] = {}  # the same on dev before the first step
    unseen: dict[str, float] = {}  # the same on the test rows that are not in train, where some are
    constant: str = ""  # the one answer that the model gave for every row, if it did
    per_class: list[ClassScore] = []
    confusion: list[list[int]] = []  # label → predicted label → rows, in the task's order of labels
    reliability: list[ReliabilityBin] = []
    fidelity: Fidelity | None = None
    curve: list[CurvePoint] = []
    seconds: float = 0.0  # training time
    best_step: int = 0
    levels: list[Level] = []  # of a search for a ticket, from the whole model on
    stopped: Stopped | None = None  # of the last training; None: not measured
    sentences_per_second: float = 0.0  # while training


class Size(Frozen):
    parameters: int
    parameters_without_embeddings: int
    bytes_on_disk: int  # of the weights
    bytes_in_all: int = 0  # of every file needed to answer, the tokenizer's included; 0: not counted


class LengthSpeed(Frozen):
    """Latency of texts of one length."""

    tokens: int
    p50_ms: float
    p95_ms: float


class Speed(Frozen):
    """Measured alone in a process of its own."""

    engine: str  # "torch fp32"
    threads: int
    p50_ms: float  # one text at a time
    p95_ms: float
    batch: int
    sentences_per_second: float  # in batches
    peak_bytes: int  # resident memory of the process at its highest
    rounds: int
    busy: bool = False  # other processes held the cores meanwhile: not a figure to quote
    p99_ms: float = 0.0  # 0: not measured, as all below
    load_ms: float = 0.0  # from the start of the process to its first answer
    low_ms: float = 0.0  # 95 % interval of p50_ms, over the turns
    high_ms: float = 0.0
    by_length: list[LengthSpeed] = []


class Floor(Frozen):
    """What needs no model: the most frequent class, the mean, the copied source."""

    title: str  # "most frequent class (positive)"
    quality: dict[str, float]  # on the test split, as the arms'


class Shape(Frozen):
    architecture: str
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    decoder_layers: int = 0  # of an encoder-decoder, whose `layers` are the encoder's
    text: str = ""  # of what is no transformer, for people: "784-300-100-10"


class Arm(Frozen):
    """One way of getting a model, over all its seeds."""

    name: str  # "teacher", "distilled", "plain"
    title: str  # what a person reads: "3 layers, distilled"
    role: Literal["teacher", "student", "baseline", "model"]
    objective: str = ""
    start: str = ""  # where its weights come from: "layers 0, 2, 5 of the teacher"
    shape: Shape | None = None
    runs: list[SeedResult]
    size: Size | None = None
    speed: Speed | None = None

    def mean(self, metric: str) -> float:
        return sum(run.quality[metric] for run in self.runs) / len(self.runs)


class Comparison(Frozen):
    """The paired difference of two arms on the same test rows, and what it means."""

    better: str  # arm
    than: str  # arm
    metric: str
    difference: float
    low: float
    high: float
    confidence: float = 0.95
    seeds: int
    rows: int
    sentence: str  # the honest one


class Failure(Frozen):
    """An arm that came to nothing, whole or for some seeds; or an export of its best model."""

    arm: str
    seeds: list[int] = []  # empty: refused before the first step
    export: str = ""  # the format that its model could not be written in
    reason: str


class Disagreement(Frozen):
    """A test row on which student and teacher disagree."""

    text: str
    pair: str = ""
    label: str  # gold, or ""
    teacher: str
    teacher_confidence: float
    student: str
    student_confidence: float
    right: Literal["student", "teacher", "neither", ""] = ""  # where comparing with the label does not show it


class Artifact(Frozen):
    """What became of a trained model: after a pass, or in another format, measured by the engine that runs it."""

    name: str
    arm: str  # the one it comes from
    seed: int
    engine: str  # "CTranslate2", "ONNX Runtime", "torch"
    precision: str  # "int8"
    path: str  # relative to the run folder
    step: str = ""  # the pass or training that made it, of a chain; "" of an export
    note: str = ""  # what the step says of it
    seconds: float = 0.0  # that making it took
    figures: dict[str, float] = {}  # what the step counted; of an export, its parity: agreement, largest difference
    quality: dict[str, float] = {}
    size: Size | None = None
    speed: Speed | None = None
    comparison: Comparison | None = None  # with the model it comes from

    @property
    def title(self) -> str:
        return f"+ {self.step}" if self.step else f"{self.arm}, {self.precision} in {self.engine}"


class Sample(Frozen):
    """A test text, and what models wrote from it."""

    source: str
    reference: str
    written: dict[str, str]  # arm → text


class Citation(Frozen):
    text: str
    bibtex: str


class Published(Frozen):
    """A figure that a paper prints, and what was measured here for it."""

    row: str  # "small network, soft targets"
    column: str  # "test errors"
    published: float
    ours: float | None = None  # the mean over seeds; None: not measured
    spread: float | None = None  # its standard deviation; None of one seed
    seeds: int = 0
    unit: str = ""  # of both: "%", "errors", "BLEU"; "" of a number that has none
    source: str = ""  # where the paper has it: "table 2"

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours - self.published


class Record(Frozen):
    schema_version: int = SCHEMA
    kind: Literal["distill", "compare", "train", "compress", "eval", "bench", "benchmark"]
    name: str
    created: str  # ISO 8601, UTC
    command: str
    machine: Machine
    seeds: list[int]
    knobs: dict[str, Any]  # the complete run file
    fingerprints: dict[str, str]  # teacher, tokenizer, data, cache, …
    task: TaskInfo
    metric: str  # the primary one
    data: DataCard
    arms: list[Arm]
    floor: Floor | None = None
    artifacts: list[Artifact] = []
    steps: dict[str, list[str]] = {}  # arm → its steps, in their order
    comparisons: list[Comparison] = []
    failed: list[Failure] = []
    disagreements: list[Disagreement] = []
    samples: list[Sample] = []
    figures: dict[str, float] = {}  # whatever else was measured
    seconds: dict[str, float] = {}  # arm → seconds of training
    citations: list[Citation] = []
    notes: list[str] = []
    matrices: list[Matrix] = []  # rows against columns, such as tickets of tasks on other tasks
    published: list[Published] = []  # of a paper's experiment, run again: its figures beside ours
    finding: str = ""  # which of the paper's findings appear in them
    quick: bool = False  # cut down to minutes, so that its figures say nothing about the paper

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def save(self, path: Path | str) -> Path:
        content = sealed(json.loads(self.model_dump_json()))
        return write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> Record:
        path = Path(path)
        file = path / "record.json" if path.is_dir() else path
        try:
            return cls.model_validate_json(json.dumps(unsealed(file.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            raise DataError(f"no record at {file}", "give the folder of a finished run, or its record.json") from None
        except (DamagedError, ValidationError, ValueError) as error:
            raise DataError(f"{file} is not a Limbeck record: {str(error).splitlines()[0]}", "run it again") from None
