"""A run: every knob of a job in one place, as a file, as flags, or from Python."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob
from limbeck.core.plugins import HELP, Plugins
from limbeck.core.task import Kind, TaskInfo
from limbeck.data.augment import AugmentSettings
from limbeck.data.language import BlockSettings, MaskSettings
from limbeck.data.parallel_settings import ParallelSettings
from limbeck.data.settings import DataSettings
from limbeck.data.window_settings import WindowSettings
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes.directions import Direction, check_directions
from limbeck.recipes.recipe import RECIPES, Stage, Table, find, from_table, to_table
from limbeck.students.seq2seq_config import Seq2SeqConfig
from limbeck.students.shrink import Shrink
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.teachers.switch_settings import SwitchSettings
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.training.schedule import Schedule

CUSTOM = "custom"  # the objective is the run's own, whole
AUTO: dict[Kind, str] = {
    "classify": "hinton",
    "multilabel": "hinton",
    "regress": "logits",
    "tag": "hinton",
    "answer": "hinton",
    "mask-fill": "truncated",
    "generate": "truncated",
    "translate": "seq-kd",
}


class Run(Settings):
    """The main job: a teacher, a file of texts, a smaller student."""

    teacher: str = knob(
        "",
        "the model to make small, a fine-tuned classifier, tagger or reader or a language model: a folder or a hub id",
        short="--teacher",
    )
    recipe: str = knob(
        "auto",
        "a paper's way, as `limbeck methods` lists them; or custom (the objective as given, nothing added); auto: "
        "hinton, for numbers logits, for words truncated, for translations seq-kd",
        short="--recipe",
    )
    out: str = knob("", "folder for the student, the report and everything else", short="--out")
    seeds: int = knob(
        1,
        "how often to train, with seeds counted up from `seed`; 3 or more give an honest interval",
        at_least=1,
        short="--seeds",
    )
    seed: int = knob(0, "the first seed", at_least=0, short="--seed")
    baseline: bool = knob(True, "also train the same student without the teacher, to prove what distillation gave")
    student_from: str = knob(
        "",
        "start the student from this model folder or hub id instead of shrinking the teacher",
        short="--student-from",
    )
    trust_remote_code: bool = knob(False, "run Python code that comes with a model; only for code you have read")
    plugin: Plugins = knob("", HELP, short="--plugin")
    data: DataSettings = knob(DataSettings(), "the texts")
    windows: WindowSettings = knob(WindowSettings(), "words and answers in texts, for --task tag and answer")
    blocks: BlockSettings = knob(BlockSettings(), "running text, for --task mask-fill and generate")
    mask: MaskSettings = knob(MaskSettings(), "hidden words, for --task mask-fill")
    parallel: ParallelSettings = knob(ParallelSettings(), "sources and targets, for --task translate")
    translate: TranslateSettings = knob(TranslateSettings(), "how the teacher translates, for --task translate")
    new: Seq2SeqConfig = knob(
        Seq2SeqConfig(), "a translator that starts from nothing, where the teacher is a black box"
    )
    student: Shrink = knob(Shrink(), "the shape of the student")
    augment: AugmentSettings = knob(AugmentSettings(), "texts made up for the teacher to answer")
    objective: Table = knob({}, "terms and weights that differ from the recipe's")
    stages: dict[str, Stage] = knob({}, "training before the main one, by name")
    directions: dict[str, Direction] = knob({}, "of translate: several teachers of one student, by direction")
    switch: SwitchSettings = knob(SwitchSettings(), "when a teacher steps back, for --task translate")
    train: Schedule = knob(Schedule(), "how the student is trained")
    teacher_cache: TeacherCacheSettings = knob(TeacherCacheSettings(), "how the teacher is asked")
    measure: MeasureSettings = knob(MeasureSettings(), "what is measured")


class TrainRun(Settings):
    """Fine-tune an encoder on a file of texts, to have a teacher."""

    model: str = knob(
        "", "the model to fine-tune: a folder or a hub id; a translator may also start from nothing", short="--model"
    )
    out: str = knob("", "folder for the model, the report and everything else", short="--out")
    seed: int = knob(0, "seed of the new head, the dropout and the order of the rows", at_least=0, short="--seed")
    trust_remote_code: bool = knob(False, "run Python code that comes with the model; only for code you have read")
    plugin: Plugins = knob("", HELP, short="--plugin")
    data: DataSettings = knob(DataSettings(), "the texts")
    windows: WindowSettings = knob(WindowSettings(), "words and answers in texts, for --task tag and answer")
    blocks: BlockSettings = knob(BlockSettings(), "running text, for --task mask-fill and generate")
    mask: MaskSettings = knob(MaskSettings(), "hidden words, for --task mask-fill")
    parallel: ParallelSettings = knob(ParallelSettings(), "sources and targets, for --task translate")
    new: Seq2SeqConfig = knob(
        Seq2SeqConfig(), "a translator from nothing, for --task translate without --model; it has 20 epochs by default"
    )
    smoothing: float = knob(0.1, "of translate: label smoothing", at_least=0, below=1, source="Vaswani et al. 2017")
    tag: str = knob(
        "", "of translate: the language put before every source, as <2de>, for a student of several teachers"
    )
    tags: str = knob("", "of translate: languages, comma-separated, that get such a token in a new vocabulary")
    vocabulary_from: str = knob("", "of translate: a translator whose vocabulary is taken instead of making one")
    train: Schedule = knob(Schedule(), "how it is trained")
    measure: MeasureSettings = knob(MeasureSettings(), "what is measured")


class CacheRun(Settings):
    """Ask a language model once, and keep the top of what it says."""

    teacher: str = knob("", "the language model to ask: a folder or a hub id", short="--teacher")
    out: str = knob("", "folder for the answers", short="--out")
    top: int = knob(50, "how many of the most probable words are kept of each answer", at_least=1, short="--top")
    draws: int = knob(
        0,
        "keep this many draws from the distribution instead of its top; serves the objective 'drawn'",
        at_least=0,
        at_most=255,
    )
    temperature: float = knob(
        1.0, "also keep what the tail form needs at this temperature, and draw at it", above=0, short="--temperature"
    )
    batch_size: int = knob(32, "blocks per question", at_least=1, short="--batch-size")
    threads: int = knob(0, "CPU threads; 0 leaves the choice to torch", at_least=0)
    trust_remote_code: bool = knob(False, "run Python code that comes with a model; only for code you have read")
    data: DataSettings = knob(DataSettings(), "the texts")
    blocks: BlockSettings = knob(BlockSettings(), "how they are cut into blocks")
    mask: MaskSettings = knob(MaskSettings(), "hidden words, for masked language models")


def complete(run: Run, task: TaskInfo) -> Run:
    """The run with its recipe spelled out: what the file of a finished run says."""
    check_directions(run.directions, task.kind)
    name, given = run.recipe, dict(run.objective)
    stages = {stage: settings.model_dump() for stage, settings in run.stages.items()}
    if name != CUSTOM:
        plan = find(AUTO[task.kind] if name == "auto" else name)
        if task.kind not in plan.serves:
            fit = [other.name for other in RECIPES.values() if task.kind in other.serves]
            raise KnobError(f"the recipe '{plan.name}' does not serve --task {task.kind}", f"use {', '.join(fit)}")
        name, planned = plan.name, to_table(plan.objective(task))
        said = run.model_dump(exclude_unset=True)
        stages = overlay({k: v.model_dump() for k, v in plan.stages(task).items()}, said.get("stages", {}))
        for stage in stages.values():  # a term that only a stage has is meant there
            for term in [term for term in given if term in stage["objective"] and term not in planned]:
                stage["objective"][term] = {**stage["objective"][term], **given.pop(term)}
        given = planned | {term: {**planned.get(term, {}), **entry} for term, entry in given.items()}
        # Of places no texts are made up: where a word goes, its tag or the answer may go too.
        defaults = {room: knobs for room, knobs in plan.defaults.items() if room != "augment" or not task.in_windows}
        run = Run(**overlay(defaults, said))
    return run.but(
        recipe=name,
        objective=to_table(from_table(given)),
        stages={stage: _spelled(stage, table) for stage, table in stages.items()},
        mask=run.mask.settled(),
        augment=run.augment.settled(),
        student=run.student.settled("same"),
    )


def _spelled(name: str, stage: Mapping[str, Any]) -> dict[str, Any]:
    if not stage.get("objective"):
        raise KnobError(
            f"the stage '{name}' has no objective", f"give it terms, as in [stages.{name}.objective.hinton]"
        )
    return {**stage, "objective": to_table(from_table(stage["objective"]))}


def read_run(path: Path | str) -> dict[str, Any]:
    """A run file as nested tables, not yet checked."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KnobError(
            f"there is no run file {path}", "write one with `limbeck distill … --print > run.toml`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise KnobError(f"{path} is not a TOML run file: {error}", "compare it with what --print writes") from None


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = overlay(merged[key], value) if both else value
    return merged


def undot(flags: Mapping[str, Any]) -> dict[str, Any]:
    """{'student.layers': 4} → {'student': {'layers': 4}}."""
    nested: dict[str, Any] = {}
    for dotted, value in flags.items():
        *path, last = dotted.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def write_run(run: Settings) -> str:
    """The complete run file, each knob with its help."""
    lines: list[str] = []
    tables: list[tuple[str, Any]] = []
    for name, field in type(run).model_fields.items():
        value = getattr(run, name)
        if isinstance(value, BaseModel | dict):
            tables.append((name, value))
        else:
            lines += _line(name, value, field.description)
    for name, value in tables:
        if isinstance(value, BaseModel):
            lines += _table(name, value)
        elif name in ("stages", "directions"):
            for key, settings in value.items():
                lines += _table(f"{name}.{key}", settings)
                lines += _terms(f"{name}.{key}.objective", getattr(settings, "objective", {}))
        else:
            lines += _terms(name, value)
    return "\n".join(lines).lstrip("\n") + "\n"


def _table(name: str, settings: BaseModel) -> list[str]:
    lines = ["", f"[{name}]"]
    for key, field in type(settings).model_fields.items():
        if not isinstance(getattr(settings, key), dict):
            lines += _line(key, getattr(settings, key), field.description)
    return lines


def _terms(name: str, table: Table) -> list[str]:
    lines: list[str] = []
    for term, entry in table.items():
        known = METHODS[term].cls.model_fields if term in METHODS else {}
        lines += ["", f"[{name}.{term}]"]
        for key, value in entry.items():
            lines += _line(key, value, known[key].description if key in known else "share in the sum")
    return lines


def _line(name: str, value: Any, help: str | None) -> list[str]:
    # TOML writes strings, numbers and booleans as JSON does, but for this one character.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return [f"# {help}", f"{name} = {text}"]


def differences(old: Settings, new: Settings) -> list[str]:
    """The dotted knobs in which two runs differ, as 'train.epochs: 3.0 → 5.0'."""
    a, b = _flat(old.model_dump()), _flat(new.model_dump())
    return [f"{key}: {a.get(key)} → {b.get(key)}" for key in sorted(a | b) if a.get(key) != b.get(key)]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat
