"""Every knob of a job in one place, from a run file, from flags, or from Python; and run files, read and written."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, field_validator, model_validator

from limbeck.core.card import METHODS
from limbeck.core.device import DeviceName
from limbeck.core.errors import KnobError
from limbeck.core.knob import TABLES, Settings, knob
from limbeck.core.metric import METRICS, check_metric
from limbeck.core.task import Kind, TaskInfo
from limbeck.core.ticket import Control
from limbeck.data.settings import MaskSettings, TaskKnobs
from limbeck.exporters.targets import TARGETS, Target
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import ObjectiveTable, Recipe, StageSettings, find, from_table, to_table
from limbeck.students import image, seq2seq
from limbeck.students.shrink import SMALL, Shrink
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.training.schedule import Schedule

Options: TypeAlias = Mapping[str, Any]  # a table of a run file, or keywords that are knobs
JobKind: TypeAlias = Literal["train", "distill", "compare", "compress"]
EXPORTS = "export"  # their folder in a run's
CUSTOM = "custom"  # the objective is the run's own, whole
AUTO: dict[Kind, str] = {
    **dict.fromkeys(("classify", "multilabel", "tag", "answer", "image"), "hinton"),
    "regress": "logits",
    **dict.fromkeys(("mask-fill", "generate"), "truncated"),
    "translate": "seq-kd",
}
_REGISTER = (seq2seq, image)  # tables of tasks


def names_in(text: str) -> list[str]:
    """Of a knob that holds several, comma-separated."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(name: str, text: str, count: int) -> list[float]:
    """Of a knob that holds one for each of several teachers; 1 for each where it is empty."""
    flag, given = f"--{name.replace('_', '-')}", names_in(text)
    if not given:
        return [1.0] * max(count, 1)
    if count < 2 or len(given) != count:
        raise KnobError(
            f"{flag} has {len(given)} number{'s' * (len(given) != 1)} ({text}), and there {_are(count)}",
            f"give one for each --teacher{'' if count > 1 else f', of which there are several, or leave {flag} out'}",
        )
    try:
        found = [float(part) for part in given]
    except ValueError:
        found = []
    if not all(math.isfinite(number) for number in found) or not found:
        raise KnobError(f"{flag} cannot be '{text}'", "give numbers, comma-separated, such as 1,2")
    return found


def _are(count: int) -> str:
    return f"are {count} teachers" if count > 1 else "is one teacher" if count else "is no teacher"


def check_known(names: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuses a name that is none, with the nearest that is."""
    known = list(known)
    for name in (name for name in names if name not in known):
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise KnobError(f"there is no {what} '{name}'", f"{hint}choose among {', '.join(known)}")


class MeasuredKnobs(TaskKnobs):
    """Of every verb that measures models."""

    measure: MeasureSettings = knob(MeasureSettings(), "what is measured")

    @property
    def metric(self) -> str:
        return self.measure.metric

    @model_validator(mode="after")
    def _check_metric(self) -> Self:
        """As far as the task is known: before anything is read."""
        check_metric(self.metric, METRICS if self.data.task == "auto" else [self.data.task])
        return self


class BenchRun(MeasuredKnobs):
    quality: bool = knob(
        True, "also score the models on --data where it has labels, and compare their predictions with the first's"
    )
    beam: int = knob(5, "of seq2seq models: beam size; 1 is greedy", at_least=1, short="--beam")


class ExportRun(TaskKnobs):
    """A model for another engine."""

    to: Target = knob(
        "onnx-int8",
        "onnx (float32), onnx-int8 (the fastest) or onnx-int4 (the smallest) for encoders; numpy (float16 vectors) or "
        "numpy-int8 for static students; ctranslate2 for translators",
        short="--to",
    )
    out: str = knob("", "folder for the export; it must not be there yet", short="--out")


class PredictRun(TaskKnobs):
    """What a model says of new texts."""

    out: str = knob("", "file for the rows with their answers: .csv, .tsv, .jsonl or .parquet", short="--out")
    batch_size: int = knob(32, "texts per forward pass", at_least=1, short="--batch-size")
    device: DeviceName = knob("auto", "where the model runs; auto: a GPU if there is one", short="--device")
    all_probabilities: bool = knob(False, "classify, multilabel: the probability of every class, not only the answer's")
    top: int = knob(5, "mask-fill: words given for each [MASK]", at_least=1, short="--top")
    max_new_tokens: int = knob(50, "generate: tokens of a continuation at most", at_least=1, short="--max-new-tokens")


class Job(MeasuredKnobs):
    """Of every verb that trains."""

    kind: ClassVar[JobKind]  # of its Records
    unwritten: ClassVar[frozenset[str]] = frozenset()  # knobs that its run files leave out
    fixed: ClassVar[frozenset[str]] = frozenset()  # knobs that nobody sets: they have no flag

    out: str = knob("", "folder for the models and the report", short="--out")
    export: str = knob(
        "",
        "also write the best model in these formats, comma-separated, each compared with it and measured; onnx, "
        "onnx-int8, onnx-int4; static students: numpy, numpy-int8; translators: ctranslate2",
        short="--export",
        free=True,
    )
    seed: int = knob(0, "the first seed", at_least=0, short="--seed")
    train: Schedule = knob(Schedule(), "how models are trained")

    @property
    def seed_list(self) -> list[int]:
        return [self.seed]

    @property
    def export_targets(self) -> list[str]:
        return names_in(self.export)

    @field_validator("export")
    @classmethod
    def _check_export(cls, value: str) -> str:
        check_known(names_in(value), TARGETS, "format to export to")
        return value

    def settled_as(self, begun: Self) -> Self:
        """With what is still open as the run that was begun has it."""
        return self


class Run(Job):
    """The main job: a teacher, data, a smaller student."""

    kind: ClassVar[JobKind] = "distill"
    distils = True
    teacher: str = knob(
        "",
        "the model to make small: a folder or a hub id; several, comma-separated or each with a flag of its own, are "
        "averaged, and the student is cut from the first",
        short="--teacher",
        several=True,
    )
    teacher_weights: str = knob(
        "",
        "of several teachers: how much each counts, comma-separated; 0 leaves one out; default: all the same",
        short="--teacher-weights",
    )
    teacher_temperatures: str = knob(
        "",
        "of several teachers: what the logits of each are divided by before they are averaged, comma-separated; "
        "default: 1",
        short="--teacher-temperatures",
    )
    recipe: str = knob(
        "auto",
        "distillation method, as `limbeck methods` lists them; custom: the objective as given; auto: hinton "
        "(classification, token classification, QA), logits (regression), truncated (language models), seq-kd "
        "(translation); small, where --preset is small or tiny",
        short="--recipe",
    )
    seeds: int = knob(
        1,
        "how many seeds to train with; counted up from --seed; 3 or more give an honest interval",
        at_least=1,
        short="--seeds",
    )
    baseline: bool = knob(True, "also train the same student without the teacher, to prove what distillation gave")
    student_from: str = knob(
        "",
        "start the student from this model folder or hub id instead of shrinking the teacher",
        short="--student-from",
    )
    student: Shrink = knob(Shrink(), "the shape of the student")
    objective: ObjectiveTable = knob({}, "terms and weights that differ from the recipe's")
    stages: dict[str, StageSettings] = knob({}, "training steps beside the main one, by name")
    teacher_cache: TeacherCacheSettings = knob(TeacherCacheSettings(), "how the teacher's outputs are collected")

    @field_validator("teacher", mode="before")
    @classmethod
    def _join_teachers(cls, value: Any) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check_teachers(self) -> Self:
        if self.teacher:
            self.voices(len(self.teachers))
        return self

    @property
    def teachers(self) -> list[str]:
        """A folder whose name has a comma is one."""
        whole = self.teacher and os.path.exists(
            os.path.expanduser(self.teacher)
        )  # whatever the text, it raises nothing
        return [self.teacher] if whole else names_in(self.teacher)

    def voices(self, count: int) -> list[tuple[float, float]]:
        """Weight and temperature of each of so many teachers; what does not fit them is refused."""
        if self.data.teacher_column and self.distils and count:
            raise KnobError(
                "both --teacher and --teacher-column are given, and a student learns from one of them",
                "leave one out; --student-from names the model that the student starts from",
            )
        weights = _numbers("teacher_weights", self.teacher_weights, count)
        heats = _numbers("teacher_temperatures", self.teacher_temperatures, count)
        if not any(weights) or min(weights) < 0:
            raise KnobError(f"teacher weights cannot be {self.teacher_weights}", "give numbers from 0, one above 0")
        if min(heats) <= 0:
            raise KnobError(f"teacher temperatures cannot be {self.teacher_temperatures}", "give numbers above 0")
        return list(zip(weights, heats, strict=True))

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    def recipe_for(self, info: TaskInfo) -> Recipe | None:
        """The recipe of the run; None where its objective is its own."""
        if self.recipe == CUSTOM:
            return None
        small = self.student.preset in SMALL and info.kind in RECIPES["small"].tasks
        auto = "small" if small else AUTO[info.kind]
        found = find(auto if self.recipe == "auto" else self.recipe)
        if info.kind not in found.tasks:
            fit = [other.name for other in RECIPES.values() if info.kind in other.tasks]
            raise KnobError(f"the recipe '{found.name}' does not serve --task {info.kind}", f"use {', '.join(fit)}")
        return found

    def resolved_with(self, columns: Mapping[str, Run], task: str) -> Run:
        """As it is written down, given its columns: of a distillation, the one."""
        (only,) = columns.values()
        return only


class TrainRun(Job):
    """Train a model without a teacher, to have one."""

    kind: ClassVar[JobKind] = "train"
    model: str = knob(
        "",
        "the model to train: a folder or a hub id; a seq2seq model or one of images may also start from scratch",
        short="--model",
    )
    objective: ObjectiveTable = knob({}, "how labels are weighed and smoothed, in a table 'labels'")
    ticket: str = knob("", "start from this winning ticket, a file of `limbeck tickets`", short="--ticket")
    control: Control = knob(
        "none",
        "with --ticket: what is changed to see whether it matters; reinit (weights drawn anew), permuted or random "
        "(another mask of as many, within layers or over all), shuffled (weights shuffled within layers)",
        short="--control",
    )

    @model_validator(mode="after")
    def _check_control(self) -> Self:
        if self.control != "none" and not self.ticket:
            raise KnobError(f"--control {self.control} changes a ticket, and none is named", "name one with --ticket")
        return self


class CacheRun(TaskKnobs):
    """Run a language model once, and cache the top of its distributions."""

    teacher: str = knob("", "the language model: a folder or a hub id", short="--teacher")
    out: str = knob("", "folder for the cache", short="--out")
    top: int = knob(50, "most probable tokens cached of each distribution", at_least=1, short="--top")
    draws: int = knob(
        0,
        "cache this many samples of the distribution instead of its top; serves the objective 'sampled'",
        at_least=0,
        at_most=255,
    )
    temperature: float = knob(
        1.0, "also cache what the tail form needs at this temperature, and sample at it", above=0, short="--temperature"
    )
    batch_size: int = knob(32, "blocks per forward pass", at_least=1, short="--batch-size")
    threads: int = knob(0, "CPU threads; 0 leaves the choice to torch", at_least=0)
    measure: MeasureSettings = knob(MeasureSettings(speed=False, examples=0), "not used here")


def resolve(run: Run, info: TaskInfo) -> Run:
    """The run with its recipe spelled out, as the file of a finished run has it."""
    plan, terms = run.recipe_for(info), dict(run.objective)
    trains = plan is None or bool(plan.trainings(info))
    stages = {name: stage.model_dump() for name, stage in run.stages.items()}
    if plan is not None:
        planned = to_table(plan.objective(info)) if trains else {}
        said = run.model_dump(exclude_unset=True)
        stages = overlay(
            {name: stage.model_dump() for name, stage in plan.stages(info).items()}, said.get("stages", {})
        )
        for name, stage in stages.items():
            # A term that only a stage has is meant there; of one that the main step has too, all but its share.
            own = said.get("stages", {}).get(name, {}).get("objective", {})
            for term in [term for term in terms if term in stage["objective"]]:
                if term not in planned:
                    stage["objective"][term] = {**stage["objective"][term], **terms.pop(term)}
                elif term not in own:
                    knobs = {key: value for key, value in terms[term].items() if key != "weight"}
                    stage["objective"][term] = {**stage["objective"][term], **knobs}
        if "labels" in terms and "labels" not in planned and "weight" not in terms["labels"]:
            raise KnobError(
                f"the recipe '{plan.name}' does not learn from labels, so they are neither weighed nor smoothed",
                "give labels a share, as in --objective.labels.weight 0.5, or use another recipe, such as hinton",
            )
        terms = planned | {term: {**planned.get(term, {}), **entry} for term, entry in terms.items()}
        # A table that the task does not have is the recipe's for other tasks.
        defaults = {
            name: table
            for name, table in plan.defaults.items()
            if name not in TABLES or info.kind in TABLES[name].kinds
        }
        if run.student.names_depth and Shrink(**defaults.get("student", {})).counts_layers:
            defaults = overlay(defaults, {"student": {"keep": "spread"}})  # a person's number of layers goes first
        if run.student_from and "preset" in defaults.get("student", {}):  # a model to start from has its size
            defaults = {**defaults, "student": {}}
        run = type(run)(**overlay(defaults, said))
    spelled = run.spelled_out(info.kind)
    return spelled.but(
        recipe=plan.name if plan else CUSTOM,
        objective=to_table(from_table(terms)) if trains or terms else {},
        stages={name: _checked(name, table) for name, table in stages.items()},
        student=run.student if run.student.preset in SMALL else run.student.settled("same"),  # the teacher tells
    )


def _checked(name: str, stage: Options) -> dict[str, Any]:
    if not stage.get("objective"):
        raise KnobError(
            f"the stage '{name}' has no objective", f"give it terms, as in [stages.{name}.objective.hinton]"
        )
    return {**stage, "objective": to_table(from_table(stage["objective"]))}


J = TypeVar("J", bound="Job")


def with_masking(run: J, kind: str) -> J:
    """With `auto` of the table [mask] decided, for a task that masks and without a recipe that says otherwise."""
    return run.but(mask=run.table(MaskSettings).settled()) if kind in TABLES["mask"].kinds else run


def check_names(run: Run) -> None:
    """Refuses a recipe or a term that does not exist, before anything is loaded."""
    task = run.data.task
    if task != "auto":
        resolve(run, TaskInfo(kind=task))
        return
    if run.recipe not in ("auto", CUSTOM):
        find(run.recipe)
    if run.objective:
        from_table(run.objective)


# Run files


def read_run(path: Path | str) -> dict[str, Any]:
    """A run file as nested tables, not yet checked."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KnobError(
            f"there is no run file {path}", "write one with `limbeck distill … --print > run.toml`"
        ) from None
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise KnobError(f"{path} is not a TOML run file: {error}", "compare it with what --print writes") from None


def overlay(base: Options, changes: Options) -> dict[str, Any]:
    """`base` with `changes` laid over it, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = overlay(merged[key], value) if both else value
    return merged


def undot(flags: Options) -> dict[str, Any]:
    """{'student.layers': 4} → {'student': {'layers': 4}}."""
    nested: dict[str, Any] = {}
    for dotted, value in flags.items():
        *path, last = dotted.split(".")
        table = nested
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return nested


def write_run(run: TaskKnobs) -> str:
    """The complete run file, each knob with its help; what has no help is written bare."""
    skipped = run.unwritten if isinstance(run, Job) else ()
    entries = {name: value for name, value in run if name not in skipped}
    return "\n".join(_lines("", entries, _helps(type(run)))).lstrip("\n") + "\n"


def _lines(path: str, entries: Mapping[str, object], helps: Mapping[str, str]) -> Iterator[str]:
    """The knobs of a table, then the tables inside it."""
    tables = {key: value for key, value in entries.items() if isinstance(value, BaseModel | dict)}
    if path and (len(tables) < len(entries) or (not entries and "." in path)):
        yield from ("", f"[{path}]")
    for key in (key for key in entries if key not in tables):
        if help := helps.get(key):
            yield f"# {help}"
        yield f"{_key(key)} = {_toml(entries[key])}"
    for key, table in tables.items():
        method = METHODS[key].cls if key in METHODS else Settings
        known = {"weight": "share in the sum", **_helps(method)} if isinstance(table, dict) else _helps(type(table))
        yield from _lines(f"{path}.{_key(key)}".lstrip("."), dict(table), known)


def _helps(cls: type[BaseModel]) -> dict[str, str]:
    return {name: field.description for name, field in cls.model_fields.items() if field.description}


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    # TOML writes keys, strings, numbers and booleans as JSON does, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def differences(old: Settings, new: Settings) -> list[str]:
    """The dotted knobs in which two runs differ, as 'train.epochs: 3.0 → 5.0'; free ones may."""
    a, b = _flat(old.model_dump()), _flat(new.model_dump())
    free = set(_free(new))
    changed = [key for key in sorted(a | b) if a.get(key) != b.get(key)]
    return [f"{key}: {a.get(key)} → {b.get(key)}" for key in changed if _in_column(key) not in free]


def run_checksum(run: Settings, table: Options) -> str:
    """Of a run file as it was read: of its knobs, whatever its comments, without those that may change."""
    free = set(_free(run))
    knobs = {key: value for key, value in _flat(table).items() if _in_column(key) not in free}
    return f"{zlib.crc32(json.dumps(knobs, sort_keys=True, default=str).encode()):08x}"


def _in_column(key: str) -> str:
    """A dotted knob without the column it is of."""
    return re.sub(r"^columns\.[^.]+\.", "", key)


def _free(settings: BaseModel, prefix: str = "") -> Iterator[str]:
    """The knobs that may change when a run is resumed: they concern speed or display alone."""
    yield "out"
    fields = type(settings).model_fields
    for name, value in settings:
        extra = fields[name].json_schema_extra if name in fields else None
        if isinstance(extra, dict) and extra.get("free"):
            yield prefix + name
        if isinstance(value, BaseModel):
            yield from _free(value, f"{prefix}{name}.")


def _flat(table: Options, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat
