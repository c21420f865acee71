"""The file of a comparison: what its columns are, that it reads back the same, and what is refused."""

import tomllib

import pytest

from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.settings import Run, resolve, write_run
from limbeck.recipes.recipe import RECIPES, Recipe, StageSettings, Train
from running import limbeck

TWO = {"two-layers": {"recipe": "hinton", "student": {"layers": 2}}}


def whole(run):
    return {name: resolve(column, TaskInfo(kind="classify")) for name, column in columns_of(run).items()}


def test_columns_are_the_recipes_and_then_what_each_adds():
    run = CompareRun(recipes="finetune, logits", columns={**TWO, "logits": {"train": {"epochs": 7}}}, seeds=3)
    found = columns_of(run)
    assert list(found) == ["finetune", "logits", "two-layers"]
    assert [column.recipe for column in found.values()] == ["finetune", "logits", "hinton"]
    assert found["two-layers"].student.layers == 2
    assert [column.train.epochs for column in found.values()] == [3.0, 7.0, 3.0]
    assert {type(column) for column in found.values()} == {Run}
    assert {column.seeds for column in found.values()} == {3}


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("auto", ["finetune", "hinton", "pkd-skip"]),
        ("answer", ["finetune", "hinton"]),
        ("generate", ["finetune", "truncated"]),
        ("translate", ["finetune", "word-kd", "seq-kd"]),
    ],
)
def test_without_names_the_columns_are_those_of_the_task(task, names):
    assert list(columns_of(CompareRun(data={"task": task}))) == names
    assert list(columns_of(CompareRun(data={"task": task}, columns=TWO))) == ["two-layers"]


@pytest.fixture
def long_recipe():
    """A recipe with a stage and defaults of its own."""
    hinton = RECIPES["hinton"]
    stage = StageSettings(epochs=5.0, decay="constant")
    defaults = {"train": {"epochs": 9.0}, "student": {"keep": "first"}}
    RECIPES["long"] = Recipe(
        "long",
        "for a test",
        hinton.paper,
        lambda task: (Train(hinton.objective(task), "before", stage), Train(hinton.objective(task))),
        defaults=defaults,
    )
    yield
    del RECIPES["long"]


def test_what_is_written_reads_back_as_the_same_columns(long_recipe):
    own = {"recipe": "custom", "objective": {"hinton": {"temperature": 3.0}, "labels": {"weight": 0.1}}}
    run = CompareRun(
        teacher='a "quoted" \\ folder', recipes="finetune,long", columns={**TWO, "my.own": own}, budget_minutes=2.5
    )
    before = whole(run)
    assert before["long"].train.epochs == 9.0
    assert before["finetune"].train.epochs == 3.0
    resolved = run.resolved_with(before, "classify")
    text = write_run(resolved)
    back = CompareRun(**tomllib.loads(text))
    assert back == resolved
    assert whole(back) == before
    assert write_run(back.resolved_with(whole(back), "classify")) == text
    assert "\nrecipe = " not in text.split("[columns")[0]


def test_what_a_person_sets_for_all_holds_for_all(long_recipe):
    run = CompareRun(recipes="finetune,long", train={"epochs": 4.0})
    assert {column.train.epochs for column in whole(run).values()} == {4.0}


def test_print_writes_the_whole_file(tmp_path):
    flags = ("--recipes", "finetune,logits", "--teacher", "t", "--seeds", 4, "--epochs", 2, "--budget-minutes", 3)
    printed = limbeck("compare", *flags, "--print")
    assert printed.code == 0, printed.err
    file = tmp_path / "run.toml"
    file.write_text(printed.out, encoding="utf-8")
    run = CompareRun(**tomllib.loads(printed.out))
    assert (run.seeds, run.budget_minutes, run.teacher) == (4, 3.0, "t")
    assert run.columns["logits"]["objective"] == {
        "labels": {"weight": 0.5, "class_weights": "", "label_smoothing": 0.0},
        "logits": {"weight": 0.5},
    }
    assert limbeck("compare", file, "--print").out == printed.out
    again = CompareRun(**tomllib.loads(limbeck("compare", file, "--seeds", 2, "--print").out))
    assert again == run.but(seeds=2)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"recipes": "hintn"}, "no recipe 'hintn'\n.*did you mean 'hinton'"),
        ({"recipes": "finetune", "columns": {"three": {}}}, r"no recipe 'three'\n.*\[columns.three\]"),
        ({"recipes": "finetune", "columns": {"a": {"recipe": "logit"}}}, "did you mean 'logits'"),
        ({"recipes": "hinton,hinton"}, r"twice.*\n.*\[columns.hinton-2\]"),
        ({"recipe": "hinton"}, "'recipe' is not one of a whole comparison\n.*--recipes"),
        ({"objective": {"hinton": {}}}, r"'objective' is not.*\n.*\[columns"),
        ({"recipes": "hinton", "columns": {"hinton": {"seeds": 3}}}, "'seeds' is the same for all"),
        ({"recipes": "hinton", "columns": {"hinton": {"data": {"limit": 3}}}}, "'data' is the same for all"),
        ({"recipes": "hinton", "columns": {"hinton": {"student": {"layer": 3}}}}, "did you mean 'layers'"),
        ({"recipes": "hinton", "columns": {"hinton": {"student": {"layers": -3}}}}, "columns.hinton.student.layers"),
        ({"recipes": "hinton", "columns": {"teacher": {"recipe": "hinton"}}}, "cannot be called 'teacher'"),
        ({"recipes": "hinton", "columns": {"plain-hinton": {"recipe": "hinton"}}}, "cannot be called 'plain-hinton'"),
        ({"recipes": "hinton", "columns": {"../x": {"recipe": "hinton"}}}, "cannot be called"),
    ],
)
def test_slips_are_named_with_their_remedy(knobs, message):
    with pytest.raises(KnobError, match=message):
        columns_of(CompareRun(**knobs))


def test_a_slip_on_the_command_line_ends_with_code_2(tmp_path):
    out = tmp_path / "x"
    for words, hint in (
        (("--recipe", "hinton"), "--recipes"),
        (("--recipes", "finetune,hintn"), "did you mean 'hinton'"),
        (("--recipes", "finetune", "--budget-minutes", -1), "greater than or equal to 0"),
        (("--recipes", "pkd-skip", "--task", "generate"), "does not serve --task generate"),
    ):
        said = limbeck("compare", "--teacher", "nowhere", "--data", "nowhere.csv", "--out", out, *words)
        assert said.code == 2
        assert hint in said.err
    assert not out.exists()
