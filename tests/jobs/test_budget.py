"""Time is shared fairly."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import TrainerCallback

from limbeck.core.checksum import read_sealed
from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Silent
from limbeck.jobs.budget import Stopwatch, _shorter, fit_to_budget, shares
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.plan import Training, plan_arm, trials, with_baselines
from limbeck.jobs.trial import run_trial
from limbeck.objectives.labels import Labels
from limbeck.tasks.base import Model, task_of
from limbeck.training.schedule import Schedule
from tiny import make_classifier, make_rows, make_tokenizer


@pytest.mark.parametrize(
    ("needs", "budget", "found"),
    [
        ([10, 10], 30, [10, 10]),
        ([10, 10], 10, [5, 5]),
        ([2, 10, 30], 22, [2, 10, 10]),
        ([30, 2, 10], 12, [5, 2, 5]),
        ([0, 4], 2, [0, 2]),
        ([3, 3], 0, [0, 0]),
    ],
)
def test_what_one_does_not_need_goes_to_the_others(needs, budget, found):
    assert shares(needs, budget) == pytest.approx(found)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=12), st.floats(0, 1e5))
def test_shares_fit_and_nobody_gets_more_than_it_needs(needs, budget):
    found = shares(needs, budget)
    assert sum(found) <= budget * (1 + 1e-9) + 1e-9
    assert all(share <= need for share, need in zip(found, needs, strict=True))
    wanting = [share for share, need in zip(found, needs, strict=True) if share < need * (1 - 1e-9)]
    assert all(share >= max(found) * (1 - 1e-6) - 1e-9 for share in wanting)


def test_a_shorter_schedule_keeps_its_shape():
    whole = Training("main", 1.0 * Labels(), Schedule(epochs=4.0, batch_size=10, warmup=0.1))
    assert _shorter(whole, 1.0, rows=100) == whole
    half = _shorter(whole, 0.5, rows=100).schedule
    assert (half.epochs, half.evals_per_epoch, half.warmup, half.decay) == (2.0, 2, 0.1, "linear")
    least = _shorter(whole, 0.0, rows=100).schedule
    assert (least.epochs, least.evals_per_epoch) == (0.1, 10)  # one step, and it is looked at


def test_the_first_steps_do_not_count():
    watch = Stopwatch(trainings=2)
    watch.marks = [[0.0, 9.0, 10.0, 11.0, 12.0], [0.0, 5.0]]
    assert watch.seconds_per_step() == [1.0, 5.0]


@pytest.fixture(scope="module")
def arms():
    """Two that need no teacher, the first of two training steps."""
    warm = {"warm": {"epochs": 1.0, "objective": {"labels": {}}}}
    columns = {"staged": {"recipe": "finetune", "stages": warm}, "short": {"recipe": "finetune"}}
    run = CompareRun(recipes="", columns=columns, train={"epochs": 2.0, "batch_size": 16})
    teacher = Model(make_classifier(layers=2), make_tokenizer())
    setup = task_of(run, teacher).prepare(make_rows(120), teacher, Silent())
    found = {name: plan_arm(name, column, setup, Silent()) for name, column in columns_of(run).items()}
    return with_baselines(found, setup.task)


def settled(folder):
    return read_sealed(folder / "budget.json")


class Kill(TrainerCallback):
    """Ends the second training when it begins, and leaves all as it is."""

    def on_train_begin(self, args, state, control, **_):
        if args.output_dir.endswith("checkpoints-01"):
            raise KeyboardInterrupt


def test_killed_while_it_is_timed_a_run_keeps_its_budget(arms, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_trial(trials(arms[:1])[0], tmp_path / "timing", Silent(), [Kill()])
    assert (tmp_path / "timing" / "staged-seed0" / "step-00-warm" / "done.json").exists()
    (found,), _ = fit_to_budget(arms[:1], 1e-6, tmp_path, Silent())
    assert settled(tmp_path) == {"staged": 0.0}
    assert not (tmp_path / "timing").exists()
    assert found.epochs == pytest.approx(2 / 7)  # a step of seven for each training


def test_a_column_that_comes_later_has_its_part_and_changes_no_other(arms, tmp_path):
    fit_to_budget(arms[:1], 10_000, tmp_path, Silent())
    assert settled(tmp_path) == {"staged": 1.0}
    found, note = fit_to_budget(arms, 1e-6, tmp_path, Silent())
    assert settled(tmp_path) == {"staged": 1.0, "short": 0.0}
    assert [arm.epochs for arm in found] == pytest.approx([3.0, 1 / 7])
    assert note.endswith("Epochs trained: staged 3 of 3; short 0.143 of 2.")


def test_a_column_that_cannot_be_timed_is_not_free_of_the_budget(arms, tmp_path):
    def broken():
        raise RuntimeError

    failing = replace(arms[1], start=replace(arms[1].start, build=broken))
    fit_to_budget([arms[0], failing], 1e-6, tmp_path, Silent())
    assert settled(tmp_path) == {"staged": 0.0, "short": 0.0}


def test_a_damaged_budget_is_refused(arms, tmp_path):
    """Timed again, the same columns would train for other epochs."""
    fit_to_budget(arms[:1], 10_000, tmp_path, Silent())
    file = tmp_path / "budget.json"
    file.write_text(file.read_text().replace("1.0", "1.1"))
    with pytest.raises(LimbeckError, match=r"budget.json is damaged.*\n.*timed again; or .*--out"):
        fit_to_budget(arms[:1], 10_000, tmp_path, Silent())
