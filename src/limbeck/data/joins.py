"""New texts by joining two training rows, for a student that must answer longer texts than it is taught with.

SST-2's training rows are phrases of 9 words, its test sentences have 19: a student that imitates its teacher on phrases
alone has never seen what the teacher does with two clauses. A join is one row, a space, and another; the teacher says
what it means, so it needs no label. Of pairs both sides are joined, text with text and second text with second text.

For each row and copy a length is drawn from those to be answered (dev's; their texts are not looked at), and the
partner is one of the training rows that fill it up best. A row that is as long already has no join in that draw; so
where training texts are as long as dev's, few are made. Without lengths to follow, any row may be the partner.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from limbeck.data.settings import AugmentSettings
from limbeck.data.words import Row, chance_of

PARTED = 1.5  # times as long: worth a note


def length(row: Row) -> int:
    """In characters, which every language has."""
    return len(row[0]) + len(row[1])


def lengths_of(rows: Iterable[Row]) -> list[int]:
    return sorted(map(length, rows))


def part_lengths(train: Sequence[Row], test: Sequence[Row]) -> str:
    """A note where the texts of test are far longer or shorter than those of train, else nothing."""
    if not train or not test:
        return ""
    ours, theirs = (median(len(" ".join(row).split()) for row in rows) for rows in (train, test))
    if max(ours, theirs) < PARTED * min(ours, theirs):
        return ""
    remedy = "; --augment.kind joins, as in --preset small, adds longer ones for the teacher to label"
    remedy = remedy if theirs > ours else ""
    return f"A text of test has {theirs:g} words, one of train {ours:g} (medians){remedy}."


class Joiner:
    """Joins of a row with one of `rows`, as long as one of `lengths`."""

    def __init__(self, rows: Iterable[Row], settings: AugmentSettings, lengths: Sequence[int] = ()) -> None:
        self.rows = sorted(rows, key=lambda row: (length(row), row))  # their order must not show
        self.sizes = [length(row) for row in self.rows]
        self.lengths = sorted(lengths)
        self.settings = settings

    def copies(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            chance = chance_of(row, self.settings.seed)
            for _ in range(self.settings.copies_or(1)):
                target, place = chance.random(), chance.random()
                first, last = self._partners(length(row), target)
                other = self.rows[first + int(place * (last - first))] if last > first else row
                if other != row:
                    yield (f"{row[0]} {other[0]}", f"{row[1]} {other[1]}" if row[1] else "")

    def _partners(self, size: int, target: float) -> tuple[int, int]:
        """Which of the sorted rows fill up a row to the length that a number in [0, 1) falls on."""
        if not self.lengths:
            return 0, len(self.rows)
        wanted = self.lengths[int(target * len(self.lengths))] - size
        if wanted <= 0:
            return 0, 0
        near = min(bisect_left(self.sizes, wanted), len(self.sizes) - 1)  # the nearest that is not shorter
        slack = max(2, wanted // 10)
        first, last = bisect_left(self.sizes, wanted - slack), bisect_right(self.sizes, wanted + slack)
        return (first, last) if last > first else (near, near + 1)
