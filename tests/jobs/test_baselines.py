"""Which students are trained without a teacher, and under which names."""

import pytest

from limbeck.core.progress import Silent
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.plan import plan_arm, trials, with_baselines
from limbeck.tasks.base import Model, task_of
from tiny import make_classifier, make_rows, make_tokenizer


@pytest.fixture(scope="module")
def setup():
    teacher = Model(make_classifier(), make_tokenizer())
    return task_of(CompareRun(), teacher).prepare(make_rows(120), teacher, Silent())


def planned(setup, recipes, columns, **knobs):
    run = CompareRun(recipes=recipes, columns=columns, **knobs)
    return {name: plan_arm(name, column, setup, Silent()) for name, column in columns_of(run).items()}


def arms(setup, recipes, columns, **knobs):
    return with_baselines(planned(setup, recipes, columns, **knobs), setup.task)


def named(found):
    return [(arm.name, arm.baseline, arm.supervised) for arm in found]


def test_students_that_are_alike_share_a_baseline(setup):
    one = {
        "one": {"recipe": "hinton", "student": {"layers": 1}},
        "other": {"recipe": "logits", "student": {"layers": 1}},
    }
    assert named(arms(setup, "hinton,finetune", one)) == [
        ("hinton", "finetune", False),
        ("finetune", "", True),
        ("plain-one", "", True),
        ("one", "plain-one", False),
        ("other", "plain-one", False),
    ]


def test_another_schedule_is_another_baseline(setup):
    longer = {"longer": {"recipe": "hinton", "train": {"epochs": 5.0}}}
    found = arms(setup, "finetune,hinton", longer)
    assert named(found)[2:] == [("plain-longer", "", True), ("longer", "plain-longer", False)]
    assert [arm.epochs for arm in found] == [3.0, 3.0, 5.0, 5.0]


def test_a_baseline_keeps_its_name_when_other_columns_are_gone(setup):
    """Else a resumed run would take the finished model of another student for it."""
    columns = {f"l{layers}": {"recipe": "hinton", "student": {"layers": layers}} for layers in (1, 2, 3)}
    whole = planned(setup, "", columns)
    before = {arm.name: arm.start.network.config.num_hidden_layers for arm in with_baselines(whole, setup.task)}
    del whole["l1"]
    after = {arm.name: arm.start.network.config.num_hidden_layers for arm in with_baselines(whole, setup.task)}
    assert after.items() <= before.items()
    assert len(after) == 4


def test_trials_go_by_seed_and_arm(setup):
    plain, arm = arms(setup, "hinton", {}, seeds=2, seed=4)
    assert [trial.name for trial in trials([arm])] == ["hinton-seed4", "hinton-seed5"]
    assert [trial.title for trial in trials([plain])] == ["plain-hinton, seed 4", "plain-hinton, seed 5"]
    both = ["plain-hinton-seed4", "hinton-seed4", "plain-hinton-seed5", "hinton-seed5"]
    assert [trial.name for trial in trials([plain, arm])] == both
    assert named(arms(setup, "hinton", {}, baseline=False)) == [("hinton", "", False)]
