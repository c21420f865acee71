"""Which of a paper's findings appear in our figures: each a difference, and whether chance could have made it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from limbeck.core.record import Comparison


@dataclass(frozen=True)
class Difference:
    """Of two means, with its 95 % interval; one seed has none."""

    mean: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def words(self) -> str:
        if math.isinf(self.low):
            return "of one seed"
        if self.low > 0 or self.high < 0:
            return "beyond chance"
        return "within chance"


@dataclass(frozen=True)
class Claim:
    """A finding of the paper as a difference that it says is above 0, here in `unit`."""

    words: str
    difference: Difference | None  # None: not measured
    unit: str = "points"
    digits: int = 1

    @property
    def holds(self) -> bool:
        return self.difference is not None and self.difference.mean > 0

    def __str__(self) -> str:
        if self.difference is None:
            return self.words
        found = f"{self.difference.mean:+,.{self.digits}f}".replace("-", "−")
        return f"{self.words} ({f'{found} {self.unit}'.strip()}, {self.difference.words})"


def over_seeds(ours: Sequence[float], theirs: Sequence[float]) -> Difference | None:
    """Ours − theirs, paired by seed, with Student's interval over the seeds."""
    pairs = [a - b for a, b in zip(ours, theirs, strict=False)]
    if not pairs:
        return None
    mean = statistics.fmean(pairs)
    if len(pairs) < 2:
        return Difference(mean)
    from scipy.stats import t

    half = float(t.ppf(0.975, len(pairs) - 1)) * statistics.stdev(pairs) / math.sqrt(len(pairs))
    return Difference(mean, mean - half, mean + half)


def compared(comparisons: Sequence[Comparison], better: str, than: str, factor: float = 100.0) -> Difference | None:
    """A difference that was tested over rows and seeds."""
    found = next((one for one in comparisons if (one.better, one.than) == (better, than)), None)
    return Difference(factor * found.difference, factor * found.low, factor * found.high) if found else None


def sentence(claims: Sequence[Claim]) -> str:
    """One sentence: what appears, what does not, what was not measured."""
    groups = {
        "appears here": [str(one) for one in claims if one.holds],
        "does not appear": [str(one) for one in claims if one.difference is not None and not one.holds],
        "was not measured": [str(one) for one in claims if one.difference is None],
    }
    told = [
        f"{len(found)} {_plural(words, len(found))}: {', '.join(found)}" for words, found in groups.items() if found
    ]
    return f"Of the paper's {len(claims)} finding{'s' * (len(claims) != 1)} {'; '.join(told)}."


def _plural(words: str, count: int) -> str:
    if count == 1:
        return words
    return {"appears here": "appear here", "does not appear": "do not appear", "was not measured": "were not measured"}[
        words
    ]
