"""Every metric as a function of weighted rows.

A metric looks at each row once (`columns`, [n, k]) and then turns weights over rows into a score (`value`). Weights of
one give the score on a test set; counts of a bootstrap resample give the score on that resample, thousands at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from limbeck.core.task import TaskInfo
from limbeck.measure.predictions import Array, log_sigmoid, log_softmax, predictions, right

BINS = 15
NATS, RIGHT, TOKENS = range(3)  # columns of what is summed over a block; those after them are bins of confidence
FLAT = 1e-12  # a variance this small beside the whole sample's is rounding


class Formula(NamedTuple):
    """How a metric is computed; what it is called and means is in core.metric."""

    columns: Callable[[TaskInfo, Array, Array], Array]  # logits [n, outputs], labels → [n, k]
    value: Callable[[Array, Array], Array]  # weights [r, n], columns [n, k] → [r]
    heavy: bool = False  # goes through all rows again for every resample, where the others go through sums


# What one looks at, row by row.


def _right(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return right(task, logits, labels)[:, None].astype(np.float64)


def _wrong_decisions(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return (predictions(task, logits) != labels).mean(axis=1, keepdims=True)


def _surprise(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return -np.take_along_axis(log_softmax(logits), labels[:, None], axis=1)


def _squared_error(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return (logits - labels[:, None]) ** 2


def _absolute_error(task: TaskInfo, logits: Array, labels: Array) -> Array:
    return np.abs(logits - labels[:, None])


def hits(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n, 3C]: per class, answered and right; answered; true."""
    predicted, true = predictions(task, logits), labels
    if task.single_label:
        classes = np.arange(task.outputs)
        predicted, true = predicted[:, None] == classes, true[:, None] == classes
    return np.concatenate([predicted & true, predicted, true], axis=1).astype(np.float64)


def bins_of(sure: Array) -> Array:
    """The number of each confidence's bin; bins are closed above."""
    return np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)


def _overconfidence(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n, bins]: confidence minus correctness, in the bin of the confidence."""
    if task.kind == "multilabel":
        sure, correct = np.exp(log_sigmoid(np.abs(logits))), (logits > 0) == labels
    else:
        sure, correct = np.exp(log_softmax(logits).max(axis=1))[:, None], right(task, logits, labels)[:, None]
    bin_of = bins_of(sure)  # [n, decisions]
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


def _root_mean(weights: Array, columns: Array) -> Array:
    return np.sqrt(_mean(weights, columns))


def _calibration(weights: Array, columns: Array) -> Array:
    return np.abs(weights @ columns).sum(axis=1) / weights.sum(axis=1)


def ratio(over: Array, under: Array) -> Array:
    """over / under, and 0 where there is nothing to divide by."""
    return np.divide(over, under, out=np.zeros(np.broadcast(over, under).shape), where=under > 0)


def _f1s(weights: Array, columns: Array) -> tuple[Array, Array, Array]:
    """F1 [r, C], rows answered or true [r, C], rows true [r, C]."""
    both, predicted, true = np.split(weights @ columns, 3, axis=1)
    return ratio(2 * both, predicted + true), predicted + true, true


def _f1_of_class_1(weights: Array, columns: Array) -> Array:
    return _f1s(weights, columns)[0][:, 1]


def _f1_macro(weights: Array, columns: Array) -> Array:
    f1, seen, _ = _f1s(weights, columns)
    return ratio(f1.sum(axis=1), (seen > 0).sum(axis=1))


def _f1_weighted(weights: Array, columns: Array) -> Array:
    f1, _, true = _f1s(weights, columns)
    return ratio((f1 * true).sum(axis=1), true.sum(axis=1))


def _f1_micro(weights: Array, columns: Array) -> Array:
    both, predicted, true = (part.sum(axis=1) for part in np.split(weights @ columns, 3, axis=1))
    return ratio(2 * both, predicted + true)


def _matthews(weights: Array, columns: Array) -> Array:
    """Gorodkin's R_K, which is the Matthews correlation when there are two classes."""
    both, predicted, true = np.split(weights @ columns, 3, axis=1)
    rows = weights.sum(axis=1)
    covariance = both.sum(axis=1) * rows - (predicted * true).sum(axis=1)
    spread = (rows**2 - (predicted**2).sum(axis=1)) * (rows**2 - (true**2).sum(axis=1))
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


def sums_of_rows(task: TaskInfo, statistics: Array, labels: Array) -> Array:
    """Tokens, tags and spans have sums per block, sentence or question where texts have logits."""
    return statistics


def share(over: int, under: int) -> Callable[[Array, Array], Array]:
    """The sum of one column per sum of another."""
    return lambda weights, columns: ratio(weights @ columns[:, over], weights @ columns[:, under])


def summed_quality(formulas: Mapping[str, Formula], sums: Array) -> dict[str, float]:
    """Every metric over rows that are sums, each counted once."""
    return {name: float(formula.value(np.ones((1, len(sums))), sums)[0]) for name, formula in formulas.items()}


def _perplexity(weights: Array, columns: Array) -> Array:
    return np.exp(share(NATS, TOKENS)(weights, columns))


def _token_calibration(weights: Array, columns: Array) -> Array:
    return ratio(np.abs(weights @ columns[:, 3:]).sum(axis=1), weights @ columns[:, TOKENS])


TEXT_FORMULAS: dict[str, Formula] = {
    "accuracy": Formula(_right, _mean),
    "f1": Formula(hits, _f1_of_class_1),
    "f1_macro": Formula(hits, _f1_macro),
    "f1_weighted": Formula(hits, _f1_weighted),
    "f1_micro": Formula(hits, _f1_micro),
    "matthews": Formula(hits, _matthews),
    "hamming": Formula(_wrong_decisions, _mean),
    "ece": Formula(_overconfidence, _calibration),  # |confidence − accuracy| over BINS equal bins of confidence
    "nll": Formula(_surprise, _mean),
    "pearson": Formula(_moments, _pearson),
    "spearman": Formula(_answer_and_label, _spearman, heavy=True),
    "mse": Formula(_squared_error, _mean),
    "rmse": Formula(_squared_error, _root_mean),
    "mae": Formula(_absolute_error, _mean),
}
LANGUAGE_FORMULAS: dict[str, Formula] = {
    "perplexity": Formula(sums_of_rows, _perplexity),
    "token_nll": Formula(sums_of_rows, share(NATS, TOKENS)),
    "token_accuracy": Formula(sums_of_rows, share(RIGHT, TOKENS)),
    "token_ece": Formula(sums_of_rows, _token_calibration),
}
