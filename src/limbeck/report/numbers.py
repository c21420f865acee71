"""Numbers as a person reads them. One place, so that page, model card and terminal say the same."""

from __future__ import annotations

import math
from typing import TypeGuard

from limbeck.core.metric import Metric

GAP = "\u00a0"  # between a number and its unit, where a line must not break
MINUS = "\u2212"
NOTHING = "–"


def opening(words: str) -> str:
    """With the first letter of a sentence, and names such as BLEU left whole."""
    return words[:1].upper() + words[1:]


def known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def percent(value: float | None, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}{GAP}%" if known(value) else NOTHING


def share_of(mine: float, theirs: float) -> str:
    """Of the teacher's score. Downwards: who is below the teacher never keeps 100 %."""
    return percent(math.floor(1000 * mine / theirs) / 1000)


def score(metric: Metric, mean: float | None, sd: float | None = None) -> str:
    """81.5 ± 0.4 %, 0.815 ± 0.004 or 12.34 ± 0.05; without a deviation where one run cannot have one."""
    if not known(mean):
        return NOTHING
    if metric.unit == "share":
        return percent(mean) if sd is None else f"{100 * mean:.1f} ± {100 * sd:.1f}{GAP}%"
    digits = decimals(metric, mean)
    return _minus(f"{mean:,.{digits}f}" + (f" ± {sd:,.{digits}f}" if sd is not None else ""))


def decimals(metric: Metric, value: float = 0.0) -> int:
    """Three of a correlation or an error, one of BLEU, and as many of a difference between two; of a perplexity as many
    as leave it four digits, 12.34 or 1,234."""
    if metric.unit == "perplexity" and value > 0:
        return min(3, max(0, 3 - math.floor(math.log10(float(f"{value:.3e}")))))
    return 1 if metric.unit == "hundred" else 3


def difference(metric: Metric, value: float) -> str:
    """A signed difference; shares differ by points, so that 1 % of 80 % cannot be meant."""
    if metric.unit == "perplexity":
        return ("+" if value > 0 else "") + figure(value)
    return points(value) if metric.unit == "share" else _minus(f"{value:+.{decimals(metric)}f}")


def points(share: float) -> str:
    """A signed difference of shares."""
    return _minus(f"{100 * share:+.1f}{GAP}points")


def count(value: float) -> str:
    return f"{value:,.0f}"


def plural(value: int, one: str) -> str:
    return f"{count(value)} {one if value == 1 else one + 's'}"


def millions(value: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{figure(value / size)}{GAP}{unit}"
    return count(value)


def megabytes(value: float) -> str:
    return f"{figure(value / 1e6)}{GAP}MB"


def milliseconds(value: float) -> str:
    return f"{figure(value)}{GAP}ms"


def figure(value: float) -> str:
    """Three digits that count: 0.0123, 4.56, 45.6, 4,560."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return _minus(f"{value:,.{digits}f}")


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{figure(seconds)}{GAP}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{GAP}h {minutes:02d}{GAP}min" if hours else f"{minutes}{GAP}min {rest:02d}{GAP}s"


def ratio_text(mine: float, other: float) -> str:
    """How much higher or lower a positive quantity is than another: 12 % higher than, 3.4 times."""
    if mine >= 2 * other:
        return ratio(mine / other)
    share = 100 * abs(mine / other - 1)
    much = f"{share:.0f}" if share >= 9.95 else f"{share:.1f}" if share >= 0.05 else "under 0.1"
    return f"{much}{GAP}% {'higher' if mine > other else 'lower'} than"


def ratio(value: float) -> str:
    """Of a cost: 52 % of, or 1.3 times."""
    if value < 0.995:
        return f"{100 * value:.0f}{GAP}% of"
    return f"{value:.1f} times" if value < 10 else f"{value:,.0f} times"


def _minus(text: str) -> str:
    return text.replace("-", MINUS)
