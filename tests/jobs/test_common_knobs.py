"""What practitioners look for first: metric, steps, device, class weights, limits."""

import pytest
from tests.tiny import make_rows

import limbeck
from limbeck.core.device import find_device
from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.data.settings import DataSettings
from limbeck.data.text.examples import read_texts
from limbeck.jobs.settings import Run, resolve
from limbeck.training.schedule import Schedule


def test_dev_and_test_rows_are_limited_and_the_card_says_so():
    rows = make_rows(600)
    limited = DataSettings(limit=100, limit_dev=20, limit_test=15)
    whole, some = read_texts(DataSettings(), rows), read_texts(limited, rows)
    assert [len(part) for part in some.splits.values()] == [100, 20, 15]
    assert all(set(some.splits[name].uids) < set(whole.splits[name].uids) for name in whole.splits)
    assert some.card.splits["test"].rows == 15
    assert f"test: 15 of {len(whole.test)} rows (--data.limit-test)" in some.card.notes
    assert len(read_texts(DataSettings(limit_test=15), rows, only_test=True).test) == 15


def test_steps_are_told_as_epochs():
    schedule = Schedule(max_steps=30, batch_size=10)
    assert schedule.over(100).epochs == 3.0
    assert Schedule().over(100) == Schedule()


def test_a_device_that_is_not_there_is_refused():
    assert find_device("cpu").type == "cpu"
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(KnobError, match="use --device cpu"):
            find_device("cuda")


def test_a_recipe_without_labels_weighs_none():
    with pytest.raises(KnobError, match="does not learn from labels"):
        resolve(Run(recipe="tinybert", objective={"labels": {"class_weights": "balanced"}}), TaskInfo(kind="classify"))


@pytest.mark.slow
def test_one_run_with_all_of_them(tmp_path, teacher_folder):
    """Class weights, smoothing, steps and metric reach the training, the choice and the Record."""
    rows = [row for row in make_rows(500) if row["label"] == "negative" or len(row["text"]) % 3 == 0]
    result = limbeck.distill(
        teacher_folder,
        rows,
        student=limbeck.Shrink(layers=1),
        out=tmp_path,
        run=Run(
            train={"max_steps": 13, "device": "cpu"},
            measure={"metric": "nll", "speed": False},
            objective={"labels": {"class_weights": "balanced", "label_smoothing": 0.1}},
        ),
    )
    record = result.record
    assert record.metric == "nll"
    weights = record.knobs["objective"]["labels"]["class_weights"]
    assert weights["positive"] > 1 > weights["negative"]
    for arm in record.arms[1:]:
        (run,) = arm.runs
        assert f"class_weights={weights!r}" in arm.objective  # the baseline's labels are weighed alike
        assert run.curve[-1].step == 13
        assert run.best_step == min((point for point in run.curve if point.dev), key=lambda p: p.dev["nll"]).step
        assert set(run.before) == set(run.quality)
    assert record.comparisons[0].metric == "nll"
    assert "for 13 steps" in record.steps["distilled"][0]
    assert limbeck.Report((record,))  # can be built
