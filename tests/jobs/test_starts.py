"""A comparison starts its students from the same layers, and says where each starts."""

import pytest

from limbeck.core.progress import Silent
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.plan import plan_arm, with_baselines
from limbeck.jobs.settings import Run, resolve
from limbeck.tasks.base import Model, task_of
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_language import save

RECIPES = "finetune,hinton,pkd-skip,pkd-last,minilmv2"


@pytest.fixture(scope="module")
def setup():
    teacher = Model(make_classifier(), make_tokenizer())
    return task_of(CompareRun(), teacher).prepare(make_rows(120), teacher, Silent())


def planned(setup, recipes=RECIPES, **knobs):
    run = CompareRun(recipes=recipes, train={"epochs": 2}, **knobs)
    return {name: plan_arm(name, column, setup, Silent()) for name, column in columns_of(run).items()}


def starts(arms):
    return {name: arm.start.words for name, arm in arms.items()}


def test_all_columns_of_one_shape_start_from_the_same_layers(setup):
    arms = planned(setup)
    assert set(starts(arms).values()) == {"layers 0, 3 of the teacher"}
    assert [arm.name for arm in with_baselines(arms, setup.task)] == RECIPES.split(",")  # finetune serves all


def test_a_switch_leaves_every_recipe_its_own_start(setup):
    arms = planned(setup, starts="recipe")
    assert starts(arms)["hinton"] == "layers 0, 3 of the teacher"
    assert starts(arms)["pkd-skip"] == starts(arms)["pkd-last"] == "layers 0, 1 of the teacher"
    added = [arm.name for arm in with_baselines(arms, setup.task) if not arm.column]
    assert added == ["plain-pkd-skip"]


def test_what_a_person_names_goes_first(setup):
    last = planned(setup, student={"keep": "last"})
    assert set(starts(last).values()) == {"layers 2, 3 of the teacher"}
    own = planned(setup, columns={"pkd-skip": {"student": {"keep": "first"}}})
    assert starts(own)["pkd-skip"] == "layers 0, 1 of the teacher"
    assert starts(own)["pkd-last"] == "layers 0, 3 of the teacher"


def test_a_recipe_of_another_build_keeps_its_own_and_says_so(setup):
    none = {"augment": {"kind": "none"}}
    columns = dict.fromkeys(("bilstm", "albert", "mobilebert"), none) | {"lottery": {}}
    found = starts(planned(setup, "hinton", columns=columns))
    assert found == {
        "hinton": "layers 0, 3 of the teacher",
        "bilstm": "embeddings of the teacher, fresh layers",
        "albert": "layer 2 of the teacher",
        "mobilebert": "embeddings of the teacher, fresh layers",
        "lottery": "layers 0, 1, 2, 3 of the teacher",
    }


def test_one_recipe_alone_starts_as_its_paper_does(setup):
    assert resolve(Run(recipe="pkd-skip"), setup.info).student.keep == "first"


def test_a_replaced_start_is_told(setup):
    arms = planned(setup)
    run = CompareRun(recipes=RECIPES)
    (skip, last) = run.start_notes({name: arm.run for name, arm in arms.items()})
    assert skip == (
        "pkd-skip starts as the other columns do; its recipe alone keeps the first layers (--starts recipe)."
    )
    assert last.startswith("pkd-last")
    own = {name: arm.run for name, arm in planned(setup, starts="recipe").items()}
    assert CompareRun(recipes=RECIPES, starts="recipe").start_notes(own) == []
    chosen = planned(setup, columns={"pkd-skip": {"student": {"keep": "last"}}})
    assert len(run.start_notes({name: arm.run for name, arm in chosen.items()})) == 1


def test_a_comparison_written_down_starts_the_same(setup):
    for how in ("equal", "recipe"):
        run = CompareRun(recipes="hinton,pkd-skip", starts=how)
        before = {name: resolve(column, setup.info) for name, column in columns_of(run).items()}
        back = run.resolved_with(before, "classify")
        assert {name: resolve(column, setup.info) for name, column in columns_of(back).items()} == before


def test_narrower_and_from_another_model(setup, tmp_path, monkeypatch):
    narrow = plan_arm("x", Run(student={"layers": 2, "hidden": 16}), setup, Silent())
    assert narrow.start.words == "layers 0, 3 of the teacher, cut narrower"
    other = save(make_classifier(seed=9), make_tokenizer(), tmp_path / "my-folder")
    monkeypatch.chdir(tmp_path)
    whole = plan_arm("x", Run(student_from=str(other)), setup, Silent())
    assert whole.start.words == "my-folder"
    part = plan_arm("x", Run(student_from=str(other), student={"layers": 1, "keep": "first"}), setup, Silent())
    assert part.start.words == "layer 0 of my-folder"
    in_hand = plan_arm("x", Run(), setup, Silent(), Model(make_classifier(layers=1), make_tokenizer()))
    assert in_hand.start.words == "the given model"
