"""Where names go on a chart so that they cover neither each other nor a mark."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

FONT = 12.0
NEAR = 60.0  # pixels within which the same name is not said twice


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0

    def gap(self, other: Box) -> float:
        wide = max(self.left - other.right, other.left - self.right, 0.0)
        high = max(self.top - other.bottom, other.top - self.bottom, 0.0)
        return math.hypot(wide, high)

    def holds(self, other: Box) -> bool:
        within = self.left <= other.left and other.right <= self.right
        return within and self.top <= other.top and other.bottom <= self.bottom


@dataclass(frozen=True)
class Label:
    """A name that belongs to the mark at x, y."""

    x: float
    y: float
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Placed:
    label: Label
    x: float
    y: float  # the baseline
    anchor: str
    box: Box


def text_width(words: str, font: float = FONT) -> float:
    """A safe estimate: a wide (CJK) character takes an em, others little more than half of one."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in words) * font


def fitted(words: str, width: float) -> str:
    """The words, cut with an ellipsis where they would run out of the drawing."""
    if text_width(words) <= width:
        return words
    while words and text_width(words + "…") > width:
        words = words[:-1]
    return words.rstrip() + "…"


def place(labels: Sequence[Label], marks: Sequence[Box], bounds: Box) -> list[Placed]:
    """Puts each label in the first free place around its mark; one that finds none is left to its tooltip."""
    placed: list[Placed] = []
    for label in labels:
        if any(done.label.text == label.text and abs(done.label.x - label.x) < NEAR for done in placed):
            continue
        blocked = [*marks, *(done.box for done in placed)]
        free = (
            candidate
            for candidate in _around(label, bounds)
            if bounds.holds(candidate.box)
            and not any(candidate.box.overlap(box) for box in blocked)
            and _is_nearest(candidate, marks)
        )
        placed += [found] if (found := next(free, None)) else []
    return placed


def _is_nearest(candidate: Placed, marks: Sequence[Box]) -> bool:
    """Whether a reader would give the label to its own mark."""
    at = Box(candidate.label.x, candidate.label.y, candidate.label.x, candidate.label.y)
    own = min((candidate.box.gap(mark) for mark in marks if mark.holds(at)), default=0.0)
    return all(candidate.box.gap(mark) > own for mark in marks if not mark.holds(at))


def _around(label: Label, bounds: Box) -> list[Placed]:
    """Right, left, above, below; then the corners, a little further off. Above and below may slide along the edge."""
    wide, high = text_width(label.text), FONT
    spots = [
        (13.0, 4.0, "start"),
        (-13.0, 4.0, "end"),
        (-18.0, 4.0, "end"),
        (0.0, -14.0, "middle"),
        (0.0, 24.0, "middle"),
        *((side * 11.0, lift, "start" if side > 0 else "end") for lift in (-9.0, 17.0) for side in (1, -1)),
        *((side * 11.0, lift, "start" if side > 0 else "end") for lift in (-22.0, 30.0) for side in (1, -1)),
        (0.0, -28.0, "middle"),
        (0.0, 38.0, "middle"),
    ]
    found = []
    for dx, dy, anchor in spots:
        x, y = label.x + dx, label.y + dy
        if anchor == "middle":
            x = min(max(x, bounds.left + wide / 2 + 1), bounds.right - wide / 2 - 1)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        found.append(Placed(label, x, y, anchor, Box(left, y - high + 1, left + wide, y + 3)))
    return found
