"""Every metric as a function of weighted rows.

A metric looks at each row once (`columns`, [n, k]) and then turns weights over rows into a score (`value`). Weights of
one give the score on a test set; counts of a bootstrap resample give the score on that resample, thousands at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from limbeck.core.task import LANGUAGE_KINDS, TaskInfo
from limbeck.measure.answers import Array, answers, log_sigmoid, log_softmax, right

BINS = 15
FLAT = 1e-12  # a variance this small beside the whole sample's is rounding


class Metric(NamedTuple):
    title: str  # inside a sentence
    meaning: str
    higher_is_better: bool
    columns: Callable[[TaskInfo, Array, Array], Array]  # logits [n, outputs], labels → [n, k]
    value: Callable[[Array, Array], Array]  # weights [r, n], columns [n, k] → [r]
    points: bool = False  # told in hundredths
    heavy: bool = False  # goes through all rows again for every resample, where the others go through sums


def score(metric: Metric, task: TaskInfo, logits: Array, labels: Array) -> float:
    """The metric on these rows, each counted once."""
    return float(metric.value(np.ones((1, len(logits))), metric.columns(task, logits, labels))[0])


# What one looks at, row by row.


def _right(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return right(task, logits, labels)[:, None].astype(np.float64)


def _wrong_decisions(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return (answers(task, logits) != labels).mean(axis=1, keepdims=True)


def _surprise(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return -np.take_along_axis(log_softmax(logits), labels[:, None], axis=1)


def _squared_error(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return (logits - labels[:, None]) ** 2


def _absolute_error(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return np.abs(logits - labels[:, None])


def hits(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n, 3C]: per class, answered and right; answered; true."""
    said, true = answers(task, logits), labels
    if task.kind == "classify":
        classes = np.arange(task.outputs)
        said, true = said[:, None] == classes, true[:, None] == classes
    return np.concatenate([said & true, said, true], axis=1).astype(np.float64)


def _overconfidence(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n, bins]: confidence minus correctness, in the bin of the confidence; bins are closed above."""
    if task.kind == "multilabel":
        sure, correct = np.exp(log_sigmoid(np.abs(logits))), (logits > 0) == labels
    else:
        sure, correct = np.exp(log_softmax(logits).max(axis=1))[:, None], right(task, logits, labels)[:, None]
    bin_of = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)  # [n, decisions]
    gap = (sure - correct) / sure.shape[1]
    return np.stack([np.where(bin_of == b, gap, 0.0).sum(axis=1) for b in range(BINS)], axis=1)


def _answer_and_label(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return np.stack([logits[:, 0], labels], axis=1)


def _moments(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n, 5]: x, y, x², y², xy, standardised first so that sums of squares do not cancel."""
    x, y = _standardised(logits[:, 0]), _standardised(labels)
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _standardised(x: Array) -> Array:
    return (x - x.mean()) / x.std() if np.ptp(x) > FLAT * np.abs(x).max() else np.zeros(len(x))


# What it comes to, for each row of weights.


def _mean(weights: Array, columns: Array) -> Array:
    return weights @ columns[:, 0] / weights.sum(axis=1)


def _calibration(weights: Array, columns: Array) -> Array:
    return np.abs(weights @ columns).sum(axis=1) / weights.sum(axis=1)


def ratio(over: Array, under: Array) -> Array:
    """over / under, and 0 where there is nothing to divide by."""
    return np.divide(over, under, out=np.zeros(np.broadcast(over, under).shape), where=under > 0)


def _f1s(weights: Array, columns: Array) -> tuple[Array, Array, Array]:
    """F1 [r, C], rows answered or true [r, C], rows true [r, C]."""
    both, said, true = np.split(weights @ columns, 3, axis=1)
    return ratio(2 * both, said + true), said + true, true


def _f1_of_class_1(weights: Array, columns: Array) -> Array:
    return _f1s(weights, columns)[0][:, 1]


def _f1_macro(weights: Array, columns: Array) -> Array:
    f1, seen, _ = _f1s(weights, columns)
    return ratio(f1.sum(axis=1), (seen > 0).sum(axis=1))


def _f1_weighted(weights: Array, columns: Array) -> Array:
    f1, _, true = _f1s(weights, columns)
    return ratio((f1 * true).sum(axis=1), true.sum(axis=1))


def _f1_micro(weights: Array, columns: Array) -> Array:
    both, said, true = (part.sum(axis=1) for part in np.split(weights @ columns, 3, axis=1))
    return ratio(2 * both, said + true)


def _matthews(weights: Array, columns: Array) -> Array:
    """Gorodkin's R_K, which is the Matthews correlation when there are two classes."""
    both, said, true = np.split(weights @ columns, 3, axis=1)
    rows = weights.sum(axis=1)
    covariance = both.sum(axis=1) * rows - (said * true).sum(axis=1)
    spread = (rows**2 - (said**2).sum(axis=1)) * (rows**2 - (true**2).sum(axis=1))
    return ratio(covariance, np.sqrt(spread))


def _pearson(weights: Array, columns: Array) -> Array:
    x, y, xx, yy, xy = (weights @ columns / weights.sum(axis=1, keepdims=True)).T
    spread_x, spread_y = xx - x * x, yy - y * y
    spread = np.sqrt(np.where((spread_x > FLAT) & (spread_y > FLAT), spread_x * spread_y, 0.0))
    return np.clip(ratio(xy - x * y, spread), -1.0, 1.0)


def _spearman(weights: Array, columns: Array) -> Array:
    rows = weights.sum(axis=1, keepdims=True)
    x, y = (_midranks(weights, column) / rows for column in columns.T)  # [r, n]
    x, y = (rank - (weights * rank).sum(axis=1, keepdims=True) / rows for rank in (x, y))
    spread_x, spread_y = (weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1)
    spread = np.sqrt(np.where((spread_x > FLAT) & (spread_y > FLAT), spread_x * spread_y, 0.0))
    return np.clip(ratio((weights * x * y).sum(axis=1), spread), -1.0, 1.0)


def _midranks(weights: Array, x: Array) -> Array:
    """[r, n]: the rank of each row where it occurs `weight` times; equal values share the mean of their ranks."""
    _, group, size = np.unique(x, return_inverse=True, return_counts=True)
    starts = np.cumsum(size) - size
    mass = np.add.reduceat(weights[:, np.argsort(group, kind="stable")], starts, axis=1)  # [r, distinct values]
    ranks = np.cumsum(mass, axis=1) - mass + (mass + 1) / 2
    return ranks[:, group]


def _sums(task: TaskInfo, tallies: Array, labels: Array) -> Array:
    """Of tokens, what was summed per block (measure/tokens.py) stands where other tasks have logits."""
    return tallies


def _per_token(weights: Array, columns: Array, place: int) -> Array:
    return ratio(weights @ columns[:, place], weights @ columns[:, 2])


def _token_nats(weights: Array, columns: Array) -> Array:
    return _per_token(weights, columns, 0)


def _perplexity(weights: Array, columns: Array) -> Array:
    return np.exp(_token_nats(weights, columns))


def _token_accuracy(weights: Array, columns: Array) -> Array:
    return _per_token(weights, columns, 1)


def _token_calibration(weights: Array, columns: Array) -> Array:
    return ratio(np.abs(weights @ columns[:, 3:]).sum(axis=1), weights @ columns[:, 2])


METRIC: dict[str, Metric] = {
    "accuracy": Metric("accuracy", "share of rows answered right; every label of the row", True, _right, _mean, True),
    "f1": Metric("F1", "F1 of class 1, of two", True, hits, _f1_of_class_1, True),
    "f1_macro": Metric("macro F1", "mean F1 of the classes that occur or are answered", True, hits, _f1_macro, True),
    "f1_weighted": Metric("weighted F1", "F1 per class, weighted by its rows", True, hits, _f1_weighted, True),
    "f1_micro": Metric("micro F1", "F1 of all decisions pooled", True, hits, _f1_micro, True),
    "matthews": Metric("Matthews correlation", "correlation of answer and label, 0 is chance", True, hits, _matthews),
    "hamming": Metric("Hamming loss", "share of single label decisions that are wrong", False, _wrong_decisions, _mean),
    "ece": Metric(
        "calibration error",
        f"expected calibration error: |confidence − accuracy| over {BINS} equal bins of confidence",
        False,
        _overconfidence,
        _calibration,
    ),
    "nll": Metric("negative log-likelihood", "mean −log probability of the label, in nats", False, _surprise, _mean),
    "pearson": Metric("Pearson correlation", "linear correlation; constant answers give 0", True, _moments, _pearson),
    "spearman": Metric(
        "Spearman correlation",
        "correlation of ranks; constant answers give 0",
        True,
        _answer_and_label,
        _spearman,
        heavy=True,
    ),
    "perplexity": Metric("perplexity", "exp of the mean −log probability of a token", False, _sums, _perplexity),
    "token_nll": Metric("cross-entropy", "mean −log probability of a token, in nats", False, _sums, _token_nats),
    "token_accuracy": Metric(
        "token accuracy", "share of tokens whose most probable word is right", True, _sums, _token_accuracy, True
    ),
    "token_ece": Metric(
        "calibration error",
        f"expected calibration error per token: |confidence − accuracy| over {BINS} equal bins of confidence",
        False,
        _sums,
        _token_calibration,
    ),
    "mse": Metric("mean squared error", "mean squared error", False, _squared_error, _mean),
    "mae": Metric("mean absolute error", "mean absolute error", False, _absolute_error, _mean),
}

BY_KIND: dict[str, tuple[str, ...]] = {
    "classify": ("accuracy", "f1", "f1_macro", "f1_weighted", "matthews", "ece", "nll"),
    "multilabel": ("f1_micro", "f1_macro", "accuracy", "hamming", "ece"),
    "regress": ("pearson", "spearman", "mse", "mae"),
    **dict.fromkeys(LANGUAGE_KINDS, ("perplexity", "token_nll", "token_accuracy", "token_ece")),
}
