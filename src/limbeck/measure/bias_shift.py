"""One number added to the logits of some classes: the bias that a model needs for classes it was never shown.

    ŷ(b) = argmax_c ( z_c + b·[c in classes] )        b* = argmin_b of the errors

A row changes its answer once, where b passes t = max of the others − max of the classes. So the errors are a staircase
in b with a step at each t, and all of it is known from one sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class BiasShift:
    by: float
    errors: int


def shifted(logits: NDArray[np.floating], classes: Sequence[int], by: float) -> NDArray[np.floating]:
    """[n, classes]"""
    moved = np.array(logits, dtype=np.float64)
    moved[:, list(classes)] += by
    return moved


def errors_of(logits: NDArray[np.floating], labels: NDArray[np.integer]) -> int:
    return int((np.argmax(logits, axis=1) != labels).sum())


def best_shift(logits: NDArray[np.floating], labels: NDArray[np.integer], classes: Sequence[int]) -> BiasShift:
    """The shift with the fewest errors: of several the smallest, between two steps of the staircase their middle."""
    inside = np.isin(np.arange(logits.shape[1]), list(classes))
    if not len(logits) or inside.all() or not inside.any():
        return BiasShift(0.0, errors_of(logits, labels))
    values = np.asarray(logits, dtype=np.float64)
    group, others = (np.where(chosen, values, -np.inf) for chosen in (inside, ~inside))
    step = others.max(axis=1) - group.max(axis=1)  # [n]: above it, the answer is one of the classes
    wrong_above, wrong_below = (np.argmax(part, axis=1) != labels for part in (group, others))
    order = np.argsort(step)
    steps = step[order]
    change = wrong_above[order].astype(np.int64) - wrong_below[order].astype(np.int64)
    errors = int(wrong_below.sum()) + np.concatenate(
        [[0], np.cumsum(change)]
    )  # [n + 1]: below all steps, then behind each
    middles = np.concatenate([[steps[0] - 1.0], (steps[:-1] + steps[1:]) / 2, [steps[-1] + 1.0]])
    real = np.concatenate([[True], steps[:-1] < steps[1:], [True]])  # between equal steps there is no place
    found = [BiasShift(float(by), int(count)) for by, count in zip(middles[real], errors[real], strict=True)]
    return min([BiasShift(0.0, errors_of(values, labels)), *found], key=lambda one: (one.errors, abs(one.by)))
