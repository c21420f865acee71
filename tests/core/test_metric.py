"""Which metrics a model may be chosen by, and what happens to other names."""

import numpy as np
import pytest

from limbeck.core.errors import KnobError
from limbeck.core.metric import METRICS, check_metric, metrics_of
from limbeck.core.task import TaskInfo
from limbeck.jobs.settings import Run
from limbeck.measure.quality import FORMULAS, compare


def test_every_metric_offered_can_be_computed_on_resamples():
    for kind, metrics in METRICS.items():
        assert {metric.name for metric in metrics if metric.chooses} <= set(FORMULAS[kind])
        assert metrics[0].chooses


@pytest.mark.parametrize("metric", [metric.name for metric in METRICS["regress"]])
def test_numbers_are_compared_by_every_metric(metric):
    draw = np.random.default_rng(0)
    gold = draw.normal(size=200)
    near, far = (gold[:, None] + draw.normal(scale=noise, size=(200, 1)) for noise in (0.2, 0.8))
    found = compare(TaskInfo(kind="regress"), metric, "a", "b", [near], [far], gold, gold == gold, rounds=200)
    assert "does better" in found.sentence  # whichever way the metric goes


def test_the_chosen_metric_comes_first_and_tells_its_direction():
    info = TaskInfo(kind="classify", labels=("a", "b"), metric="nll")
    assert next(iter(metrics_of(info))) == "nll"
    assert not info.higher_is_better


def test_names_that_do_not_fit_are_refused_with_those_that_do():
    with pytest.raises(KnobError, match="did you mean 'matthews'") as refused:
        check_metric("mathews", ["classify"])
    assert "--metric cannot be 'mathews' for --task classify" in str(refused.value)
    with pytest.raises(KnobError, match="did you mean 'pearson'"):
        check_metric("pearsonr", ["regress"])
    with pytest.raises(KnobError, match="choose one of bleu, chrf, perplexity"):
        check_metric("bleu_beam", ["translate"])  # dev is decoded greedily
    with pytest.raises(KnobError, match="of 3 classes"):
        check_metric("f1", ["classify"], labels=3)
    with pytest.raises(KnobError):
        check_metric("ece", ["classify"])  # a model that knows nothing can be calibrated


def test_a_run_refuses_a_metric_before_anything_is_read():
    assert Run(measure={"metric": "pearson"}).measure.metric == "pearson"  # the labels will tell the task
    with pytest.raises(KnobError, match="did you mean 'accuracy'"):
        Run(measure={"metric": "acuracy"})
    with pytest.raises(KnobError, match="for --task tag"):
        Run(data={"task": "tag"}, measure={"metric": "pearson"})
