"""Quality against scikit-learn, SciPy and hand-computed numbers."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from limbeck.core.errors import DataError, MismatchError, ModelError
from limbeck.core.metric import METRICS, metric_of, metrics_of
from limbeck.core.task import ENDS, Kind, TaskInfo
from limbeck.measure.predictions import right
from limbeck.measure.quality import FORMULAS, quality

TWO = TaskInfo(kind="classify", labels=("bad", "good"))
FOUR = TaskInfo(kind="classify", labels=("a", "b", "c", "d"))
MANY = TaskInfo(kind="multilabel", labels=("x", "y", "z"))
NUMBER = TaskInfo(kind="regress")


def everyone(n: int) -> np.ndarray:
    return np.ones(n, dtype=bool)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.sampled_from([TWO, FOUR]), st.integers(0, 10_000))
def test_classify_agrees_with_sklearn(n: int, task: TaskInfo, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, task.outputs)), rng.integers(0, task.outputs, n)
    found, classes = quality(task, logits.astype(np.float32), labels, everyone(n))
    said = logits.argmax(1)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, said))
    assert found["f1_macro"] == pytest.approx(sk.f1_score(labels, said, average="macro", zero_division=0))
    assert found["f1_weighted"] == pytest.approx(sk.f1_score(labels, said, average="weighted", zero_division=0))
    if len({*labels, *said}) > 1:  # scikit-learn warns of a single class; here that is 0
        assert found["matthews"] == pytest.approx(sk.matthews_corrcoef(labels, said))
    else:
        assert found["matthews"] == 0.0
    expected = sk.log_loss(labels, np.exp(logits) / np.exp(logits).sum(1, keepdims=True), labels=range(task.outputs))
    assert found["nll"] == pytest.approx(expected, rel=1e-5)
    assert ("f1" in found) == (task is TWO)
    if task is TWO:
        assert found["f1"] == pytest.approx(sk.f1_score(labels, said, zero_division=0))
    precision, recall, f1, rows = sk.precision_recall_fscore_support(
        labels, said, labels=range(task.outputs), zero_division=0
    )
    assert [c.label for c in classes] == list(task.labels)
    assert [c.rows for c in classes] == list(rows)
    np.testing.assert_allclose(
        [[c.precision, c.recall, c.f1] for c in classes], np.stack([precision, recall, f1], axis=1)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10_000))
def test_multilabel_agrees_with_sklearn(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, 3)), rng.integers(0, 2, (n, 3))
    labels[0] = 1  # every label occurs, so that macro F1 is scikit-learn's
    found, classes = quality(MANY, logits, labels.astype(np.float32), everyone(n))
    said = (1 / (1 + np.exp(-logits)) > 0.5).astype(int)
    assert found["f1_micro"] == pytest.approx(sk.f1_score(labels, said, average="micro", zero_division=0))
    assert found["f1_macro"] == pytest.approx(sk.f1_score(labels, said, average="macro", zero_division=0))
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, said))
    assert found["hamming"] == pytest.approx(sk.hamming_loss(labels, said))
    precision, recall, f1, rows = sk.precision_recall_fscore_support(labels, said, zero_division=0)
    np.testing.assert_allclose(
        [[c.precision, c.recall, c.f1, c.rows] for c in classes], np.stack([precision, recall, f1, rows], axis=1)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 40), st.integers(0, 10_000), st.booleans())
def test_regression_agrees_with_scipy(n: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    labels = 1000 + rng.normal(size=n)
    answers = labels + rng.normal(size=n)
    if ties:
        answers = np.round(answers)
        answers[0] = answers[1] + 1
    found, classes = quality(NUMBER, answers[:, None], labels, everyone(n))
    assert classes == []
    assert found["pearson"] == pytest.approx(stats.pearsonr(answers, labels).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(answers, labels).statistic)
    assert found["mse"] == pytest.approx(sk.mean_squared_error(labels, answers))
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(labels, answers))
    assert found == quality(NUMBER, answers, labels, everyone(n))[0]


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def test_calibration_error_by_hand() -> None:
    # Confidences 0.97, 0.95 share the bin (14/15, 1]; 0.7 lies in (10/15, 11/15]; 0.55 in (8/15, 9/15].
    sure = [0.97, 0.95, 0.70, 0.55]
    logits = np.array([[0.0, logit(p)] for p in sure])
    labels = np.array([1, 0, 1, 0])
    by_hand = (2 * abs(0.96 - 0.5) + abs(0.70 - 1) + abs(0.55 - 0)) / 4
    assert quality(TWO, logits, labels, everyone(4))[0]["ece"] == pytest.approx(by_hand)


def test_calibration_error_has_fifteen_bins_closed_above() -> None:
    # 11/15 is the end of the bin (10/15, 11/15], where 0.71 lies too; 0.76 is alone in (11/15, 12/15].
    # Of ten bins all three would share (0.7, 0.8].
    logits = np.array([[0.0, logit(0.71)], [0.0, np.log(11 / 4)], [0.0, logit(0.76)]])
    labels = np.array([0, 1, 1])
    by_hand = (abs(0.71 + (11 / 15 - 1)) + abs(0.76 - 1)) / 3
    assert by_hand == pytest.approx(0.2277778, abs=1e-7)
    assert quality(TWO, logits, labels, everyone(3))[0]["ece"] == pytest.approx(0.2277778, abs=1e-7)


def test_calibration_error_of_several_labels_by_hand() -> None:
    logits = np.array([[logit(0.9), logit(0.1), logit(0.7)]])  # confidences 0.9, 0.9, 0.7
    labels = np.array([[1, 1, 1]])
    by_hand = (2 * abs(0.9 - 0.5) + abs(0.7 - 1)) / 3
    assert quality(MANY, logits, labels, everyone(1))[0]["ece"] == pytest.approx(by_hand)


def test_a_sure_and_right_model_is_calibrated() -> None:
    found, _ = quality(TWO, np.array([[90.0, -90.0], [-90.0, 90.0]]), np.array([0, 1]), everyone(2))
    assert found["ece"] == 0.0
    assert found["nll"] == pytest.approx(0.0, abs=1e-12)


def test_only_labelled_rows_count() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    labels, has_label = np.array([0, -100, 1]), np.array([True, False, True])
    found, classes = quality(TWO, logits, labels, has_label)
    assert found["accuracy"] == 0.5
    assert [c.rows for c in classes] == [1, 1]
    numbers, _ = quality(NUMBER, np.array([1.0, 2.0, 3.0]), np.array([1.0, np.nan, 3.0]), has_label)
    assert numbers["mse"] == 0.0


@pytest.mark.parametrize("task", [TWO, MANY, NUMBER])
def test_no_labels_no_scores(task: TaskInfo) -> None:
    labels = np.zeros((3, 3)) if task is MANY else np.full(3, np.nan)
    assert quality(task, np.zeros((3, task.outputs)), labels, np.zeros(3, dtype=bool)) == ({}, [])


@pytest.mark.parametrize("answers", [np.full(5, 0.1), np.full(5, 1e6 + 0.1)])
def test_constant_answers_do_not_correlate(answers: np.ndarray) -> None:
    found, _ = quality(NUMBER, answers, np.arange(5.0), everyone(5))
    assert found["pearson"] == 0.0
    assert found["spearman"] == 0.0


def test_rows_that_are_right_mean_the_primary_metric() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    rows = right(FOUR, logits, labels)
    assert rows.shape == (50,)
    assert rows.mean() == quality(FOUR, logits, labels, everyone(50))[0][FOUR.metric]


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(MismatchError, match="2 outputs"):
        quality(TWO, np.zeros((3, 4)), np.zeros(3), everyone(3))
    with pytest.raises(ModelError, match="1 of 3 rows"):
        quality(TWO, np.array([[0, 1], [np.nan, 0], [1, 0]]), np.zeros(3), everyone(3))
    with pytest.raises(DataError, match="label 7"):
        quality(TWO, np.zeros((2, 2)), np.array([0, 7]), everyone(2))
    with pytest.raises(MismatchError, match="pair up"):
        quality(TWO, np.zeros((3, 2)), np.zeros(2), everyone(3))


def test_every_metric_is_explained() -> None:
    assert set(METRICS) == set(FORMULAS) == set(get_args(Kind))
    computed = {name for formulas in FORMULAS.values() for name in formulas}
    assert computed == {metric.name for metrics in METRICS.values() for metric in metrics}
    lower = {"classify": ("ece", "nll"), "multilabel": ("hamming",), "regress": ("mse", "mae")}
    named = [(TaskInfo(kind=kind), name) for kind, names in lower.items() for name in names]
    assert not any(metric_of(task, name).higher_is_better for task, name in named)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_primary_metric_comes_first(kind: Kind) -> None:
    task = TaskInfo(kind=kind, labels=("a", "b"), vocab_size=9)
    assert next(iter(metrics_of(task))) == task.metric
    assert all(metric.meaning for metric in metrics_of(task).values())


def test_sums_over_sentences_and_questions_are_scored() -> None:
    tags = TaskInfo(kind="tag", labels=("O", "B-X"))
    sums = np.array([[1.0, 2, 1, 5, 6], [0, 0, 2, 4, 6], [9, 9, 9, 9, 9]])
    scores, per_class = quality(tags, sums, np.ones(3), np.array([True, True, False]))
    assert scores == pytest.approx({"f1": 2 / 5, "precision": 1 / 2, "recall": 1 / 3, "accuracy": 9 / 12})
    assert per_class == []
    answers = TaskInfo(kind="answer", labels=ENDS)
    scores, _ = quality(answers, np.array([[1.0, 1.0], [0.0, 0.5]]), np.ones(2), everyone(2))
    assert scores == pytest.approx({"f1": 0.75, "exact_match": 0.5})
