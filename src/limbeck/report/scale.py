"""From values to pixels: scales, round ticks, and ranges with air around what they hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps a value to a pixel, straight or by its logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        # A whisker may reach below zero, where there are no logarithms: it ends with the axis.
        low, high, at = (math.log(max(v, self.low)) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else nice_ticks(self.low, self.high, count)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers inside [low, high]: steps of 1, 2, 2.5 or 5 times a power of ten, about `count` of them."""
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [nice * 10.0**power for power in powers for nice in (1, 2, 5)]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as tell them apart, the same for all."""
    for digits in range(7):
        if all(abs(round(tick, digits) - tick) < 1e-9 * max(1.0, abs(tick)) for tick in ticks):
            break
    return [f"{tick:,.{digits}f}".replace("-", "\u2212") for tick in ticks]


def padded(values: Iterable[float], share: float = 0.12, least: float = 1e-6) -> tuple[float, float]:
    """A range that holds the values with air around them, also when there is only one."""
    values = list(values)
    low, high = min(values), max(values)
    air = max((high - low) * share, abs(high) * 0.02 if high == low else 0.0, least)
    return low - air, high + air


def span(values: Iterable[float], log: bool = False) -> tuple[float, float]:
    """The same, or on a logarithmic scale with air that multiplies; what is not positive has no place there."""
    if not log:
        return padded(values, 0.16)
    positive = [value for value in values if value > 0]
    return min(positive) / 1.25, max(positive) * 1.25


def from_zero(values: Iterable[float]) -> tuple[float, float, bool]:
    """Low, high and whether to use logarithms: lengths compare truly from zero, unless they differ 20-fold."""
    values = [value for value in values if value > 0] or [1.0]
    if max(values) > 20 * min(values):
        return min(values) / 1.6, max(values) * 1.6, True
    return 0.0, max(values) * 1.12, False
