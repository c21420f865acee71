"""The span of a text that answers a question: the best over all windows in which the text is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Span:
    """The best answer that one window holds."""

    score: float  # logit of its start plus logit of its end
    start: int  # tokens
    end: int
    null: float  # the same sum for position 0, which says that there is no answer
    log_z: float = 0.0  # log of what the softmax divides by, of start plus end

    @property
    def probability(self) -> float:
        """softmax(start) × softmax(end) over the positions where an answer may lie."""
        return float(np.exp(self.score - self.log_z))

    @property
    def null_probability(self) -> float:
        return float(np.exp(self.null - self.log_z))


def best_spans(start: Array, end: Array, predicted: Array, longest: int, nullable: bool) -> list[Span]:
    """The best span of each window, from logits [windows, length]: start ≤ end, and `longest` tokens at most."""
    inside = predicted.astype(bool).copy()
    null = (start[:, 0] + end[:, 0]).astype(np.float64) if nullable else np.full(len(start), -np.inf)
    log_z = np.add(*(_log_sum(np.where(inside, logits, -np.inf)) for logits in (start, end)))
    inside[:, 0] &= not nullable
    start, end = (np.where(inside, logits, -np.inf).astype(np.float64) for logits in (start, end))
    windows, length = start.shape
    best = np.full((windows, length), -np.inf)  # of spans that start there
    size = np.zeros((windows, length), dtype=np.int64)
    for more in range(min(longest, length)):
        score = start[:, : length - more] + end[:, more:]
        better = score > best[:, : length - more]
        best[:, : length - more][better] = score[better]
        size[:, : length - more][better] = more
    places = best.argmax(axis=1)
    return [
        Span(float(best[row, place]), int(place), int(place + size[row, place]), float(null[row]), float(log_z[row]))
        for row, place in enumerate(places)
    ]


def chosen(spans: Sequence[Span], threshold: float) -> int:
    """Which window of a question holds its answer; -1 where none does.

    There is no answer where even the least null score of a window beats the best span's by more than `threshold`."""
    best = max(range(len(spans)), key=lambda window: spans[window].score)
    nothing = min(span.null for span in spans) - spans[best].score > threshold
    return -1 if nothing or spans[best].score == -np.inf else best


def confidence(spans: Sequence[Span], threshold: float) -> float:
    """The probability of what is chosen: a span, or none where the least null score decides."""
    window = chosen(spans, threshold) if spans else -1
    if window >= 0:
        return spans[window].probability
    return min(spans, key=lambda span: span.null).null_probability if spans else 0.0


def _log_sum(logits: Array) -> Array:
    """[windows] log Σ exp over positions, in float64."""
    wide = logits.astype(np.float64)
    highest = np.maximum(wide.max(axis=1, keepdims=True), np.finfo(np.float64).min)
    return np.asarray((highest + np.log(np.exp(wide - highest).sum(axis=1, keepdims=True)))[:, 0])
