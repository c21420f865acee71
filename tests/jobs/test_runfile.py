"""A run is the same as flags, as a file, and in Python."""

import tomllib
import typing
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError
from limbeck.core.knob import TABLES
from limbeck.core.objective import misfits
from limbeck.core.task import TaskInfo
from limbeck.data.settings import AugmentSettings
from limbeck.jobs.settings import CUSTOM, Run, TrainRun, differences, overlay, read_run, resolve, undot, write_run
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import StageSettings
from limbeck.students.families import families
from limbeck.students.image import NetworkSettings
from limbeck.students.shrink import Shrink
from running import limbeck

# Letters, quotes, backslashes, control characters: whatever a path or a class name may hold, and TOML can write.
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


def values(field) -> st.SearchStrategy:
    """Values within a knob's limits."""
    kind = field.annotation
    if kind == str | dict[str, float]:
        return st.sampled_from(["", "balanced"]) | st.dictionaries(TEXT.filter(bool), st.floats(0.01, 100), min_size=1)
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is str:
        return TEXT
    sides = ("gt", "ge", "lt", "le")
    limits = {side: getattr(limit, side) for limit in field.metadata for side in sides if hasattr(limit, side)}
    low, high = limits.get("gt", limits.get("ge", 0)), limits.get("lt", limits.get("le", 10_000))
    if kind is int:
        return st.integers(low, high)
    return st.floats(low, high, exclude_min="gt" in limits, exclude_max="lt" in limits, allow_subnormal=False)


def settings_of(cls, **fixed) -> st.SearchStrategy:
    fields = {
        name: settings_of(field.annotation)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        else values(field)
        for name, field in cls.model_fields.items()
        if name not in fixed and name != "plugin"  # a plugin must be there
    }
    if "family" in fields:  # a family must be there, too
        fields["family"] = st.sampled_from(["auto", *families()])
    if "lengths" in fields:
        fields["lengths"] = st.sampled_from(["auto", "none", "16", "16,32, 128"])
    if "export" in fields:  # formats that there are
        fields["export"] = st.sampled_from(["", "onnx", "onnx-int8,ctranslate2"])
    for name in ("teacher_column", "teacher_weights", "teacher_temperatures"):  # which must fit the teachers
        fields |= {name: st.just("")} if name in fields else {}
    if cls is NetworkSettings:
        fields["hidden"] = st.sampled_from(["5", "300,100"])
    if cls is MeasureSettings:  # one that fits the task
        fields["metric"] = st.just("")
    return st.builds(lambda **found: cls(**found), **fields, **fixed)


TERMS = st.sets(st.sampled_from(sorted(METHODS)), min_size=1)


@st.composite
def objectives(draw):
    return {
        name: {
            "weight": draw(st.floats(0, 100)),
            **{key: draw(values(field)) for key, field in METHODS[name].cls.model_fields.items()},
        }
        for name in sorted(draw(TERMS))
    }


NAMES = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=8)
STAGES = st.dictionaries(NAMES, settings_of(StageSettings, objective=objectives()), max_size=2)
TASK_TABLES = {
    name: st.dictionaries(NAMES, settings_of(entry.cls), max_size=2) if entry.by_name else settings_of(entry.cls)
    for name, entry in TABLES.items()
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(settings_of(Run, objective=objectives(), recipe=st.just(CUSTOM), stages=STAGES, **TASK_TABLES))
def test_any_run_written_down_reads_back_the_same(run):
    assert Run(**tomllib.loads(write_run(run))) == run


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(settings_of(TrainRun, objective=objectives(), control=st.just("none"), **TASK_TABLES))
def test_any_training_run_written_down_reads_back_the_same(run):
    assert TrainRun(**tomllib.loads(write_run(run))) == run


def test_what_is_printed_is_the_whole_run(tmp_path):
    flags = ("--teacher", 'a "quoted" \\ folder', "--student.layers", 3, "--objective.hinton.temperature", 7)
    printed = limbeck("distill", *flags, "--objective.hinton.weight", "0.25", "--measure.no-speed", "--print")
    assert printed.code == 0
    file = tmp_path / "run.toml"
    file.write_text(printed.out, encoding="utf-8")
    run = Run(**read_run(file))
    assert read_run(file) == run.model_dump(exclude={"stages"})  # every knob is there
    assert run.teacher == 'a "quoted" \\ folder'
    assert run.student.layers == 3
    assert run.measure.speed is False
    plain = {"class_weights": "", "label_smoothing": 0.0}
    assert run.objective == {"labels": {"weight": 0.5, **plain}, "hinton": {"weight": 0.25, "temperature": 7.0}}
    assert limbeck("distill", file, "--print").out == printed.out
    lines = printed.out.splitlines()
    assert all(before.startswith("# ") for before, line in pairwise(lines) if line[0:1].isalpha())  # each with its help


def test_train_prints_its_run_too(tmp_path):
    printed = limbeck("train", "--model", "m", "--epochs", 2, "--print")
    assert TrainRun(**tomllib.loads(printed.out)) == TrainRun(model="m", train={"epochs": 2.0})


def test_flags_override_the_file_knob_by_knob(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(write_run(Run(teacher="t", train={"epochs": 5, "patience": 9}, student={"layers": 2})))
    run = Run(**tomllib.loads(limbeck("distill", file, "--epochs", 1, "--print").out))
    assert (run.train.epochs, run.train.patience, run.student.layers, run.teacher) == (1.0, 9, 2, "t")


def test_another_recipe_by_flag_replaces_the_terms_of_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(limbeck("distill", "--print").out)
    run = Run(**tomllib.loads(limbeck("distill", file, "--recipe", "logits", "--print").out))
    assert run.objective.keys() == {"labels", "logits"}
    same = Run(
        **tomllib.loads(limbeck("distill", file, "--recipe", "hinton", "--objective.labels.weight", 0.1, "--print").out)
    )
    assert same.objective["labels"]["weight"] == 0.1
    assert same.objective.keys() == {"labels", "hinton"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs = 3", "there is no knob 'epochs'"),
        ("[train]\nepoch = 3", "there is no knob 'train.epoch'\n.*did you mean 'epochs'"),
        ("[student]\nlayers = -1", "knob 'student.layers' cannot be -1"),
        ("[objective.hinton]\ntemp = 2", "there is no knob 'objective.hinton.temp'\n.*known here: temperature"),
        ("[objective.hnton]\nweight = 1", "there is no objective 'hnton'"),
        ("train = 3", "knob 'train' cannot be 3"),
        ("[train", "is not a TOML run file"),
    ],
)
def test_a_slip_in_the_file_is_named(tmp_path, text, message):
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(KnobError, match=message):
        resolve(Run(**read_run(file)), TaskInfo(kind="classify"))


def test_a_recipe_is_spelled_out():
    assert resolve(Run(), TaskInfo(kind="classify")).objective["hinton"] == {"weight": 0.5, "temperature": 4.0}
    assert resolve(Run(), TaskInfo(kind="regress")).recipe == "logits"
    custom = resolve(Run(recipe=CUSTOM, objective={"hinton": {}}), TaskInfo(kind="classify"))
    assert custom.objective == {"hinton": {"weight": 1.0, "temperature": 2.0}}


def test_differences_are_named_by_knob():
    found = differences(Run(), Run(train={"epochs": 5}, student=Shrink(layers=2)))
    assert found == ["student.layers: 0 → 2", "train.epochs: 3.0 → 5.0"]


def test_overlay_and_undot():
    base = {"a": {"x": 1, "y": 2}, "b": 3}
    assert overlay(base, undot({"a.x": 9, "c.d": 4})) == {"a": {"x": 9, "y": 2}, "b": 3, "c": {"d": 4}}
    assert base == {"a": {"x": 1, "y": 2}, "b": 3}


@pytest.mark.parametrize("kind", ["tag", "answer"])
def test_of_tokens_and_spans_no_texts_are_made_up(kind):
    task = TaskInfo(kind=kind, labels=("a", "b"))
    assert resolve(Run(), task).recipe == "hinton"
    texts = resolve(Run(recipe="tinybert"), TaskInfo(kind="classify", labels=("a", "b")))
    assert texts.table(AugmentSettings).kind == "tinybert"
    plain = resolve(Run(recipe="tinybert"), task)
    assert plain.train.epochs == 3.0
    assert "augment" not in plain.model_extra
    with pytest.raises(KnobError, match=r"'augment.kind' has no effect for --task"):
        resolve(Run(recipe="tinybert", augment={"kind": "bilstm"}), task)
    with pytest.raises(KnobError, match="does not serve"):
        resolve(Run(recipe="pkd-skip"), task)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_serves_what_all_of_its_terms_serve(name):
    """Of numbers some terms are chosen otherwise, or refused with a remedy."""
    plan = RECIPES[name]
    for kind in plan.tasks:
        task = TaskInfo(kind=kind, labels=("a", "b"))
        every = [step.objective for step in plan.trainings(task).values()]
        assert kind == "regress" or not [part for objective in every for part in misfits(objective, task)]
