"""The figures of a Record, as every report reads them: scores over seeds, what is counted and timed.

And how a person reads a number: one place, so that page, model card and terminal say the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Arm, Comparison, Record, Shape, SplitCard
from limbeck.core.task import Units

T = TypeVar("T")
GAP = "\u00a0"  # between a number and its unit, where a line must not break
MINUS = "\u2212"
NOTHING = "–"


@dataclass(frozen=True)
class Spread:
    """One figure over the seeds of an arm."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def spread(values: Collection[float | None]) -> Spread | None:
    """The figure over the seeds that have it; None when none has."""
    finite = tuple(value for value in values if known(value))
    return Spread(finite) if finite else None


def quality(arm: Arm, metric: str) -> Spread | None:
    return spread([run.quality.get(metric) for run in arm.runs])


def fidelity(arm: Arm, name: str) -> Spread | None:
    """A field of Fidelity: agreement, divergence, accuracy_teacher_right, …"""
    return spread([getattr(run.fidelity, name) for run in arm.runs if run.fidelity])


def seconds(arm: Arm) -> Spread | None:
    return spread([run.seconds or None for run in arm.runs])


def primary(record: Record) -> Metric:
    return metric_of(record.task, record.metric)


def metric_named(record: Record, name: str) -> Metric:
    return metric_of(record.task, name)


def floor_words(record: Record, short: bool = False) -> str:
    """The floor inside a sentence; `short` without the class, tag or number."""
    title = record.floor.title if record.floor else ""
    title = title.split(" (")[0] if short else title
    return title if title.startswith(("no ", "each ")) else f"the {title}"


def floor_score(record: Record) -> float | None:
    return record.floor.quality.get(record.metric) if record.floor else None


def is_constant(arm: Arm) -> bool:
    """Whether it answers the same for every row, with every seed."""
    return bool(arm.runs) and all(run.constant for run in arm.runs)


def at_floor(record: Record, arm: Arm) -> bool:
    """Whether a model is no better than the floor, as far as reports show digits, or answers the same throughout."""
    if is_constant(arm):
        return True
    floor, mine, metric = floor_score(record), quality(arm, record.metric), primary(record)
    if floor is None or mine is None:
        return False
    better = mine.mean > floor if metric.higher_is_better else mine.mean < floor
    return not better or score(metric, mine.mean) == score(metric, floor)


def of_role(record: Record, *roles: str) -> Arm | None:
    return next((arm for arm in record.arms if arm.role in roles), None)


def teacher_of(record: Record) -> Arm | None:
    return of_role(record, "teacher")


def students_of(record: Record) -> list[Arm]:
    return [arm for arm in record.arms if arm.role == "student"]


def by_quality(record: Record, arms: Iterable[Arm]) -> list[Arm]:
    """The best first; those without a score last, all ties in their own order."""
    sign = -1 if primary(record).higher_is_better else 1

    def worth(arm: Arm) -> float:
        found = quality(arm, record.metric)
        return sign * found.mean if found else math.inf

    return sorted(arms, key=worth)


def gain_of(record: Record, arm: Arm) -> Comparison | None:
    """What a teacher gave an arm over the same student without one; a run with one student says it in a sentence."""
    if record.kind != "compare":
        return None
    return next((c for c in record.comparisons if c.better == arm.name and c.metric == record.metric), None)


def baseline_of(record: Record, arm: Arm) -> Arm | None:
    than = next((c.than for c in record.comparisons if c.better == arm.name), "")
    return next((other for other in record.arms if other.name == than), None)


def units(record: Record) -> Units:
    """Of the task; the documents of a language model may be chats, and two texts that are read together are a pair."""
    own, columns = record.task.units, record.data.columns
    if "pair" in columns and record.task.level == "text":
        return replace(own, input="pair", repeated="pair")
    return replace(own, source="chat", repeated="chat") if "messages" in columns else own


def in_blocks(record: Record) -> bool:
    """Running text, cut into blocks; a split then counts blocks and tokens."""
    return units(record).row == "block"


def all_decoded(records: Sequence[Record]) -> bool:
    return all(units(record).decoded for record in records)


def tested_rows(record: Record) -> int:
    split = tested_split(record)
    if split is None:
        return 0
    return split.rows if in_blocks(record) else split.labelled or split.rows


def block_length(record: Record) -> int:
    """Tokens of a test block, on average; 0 where that is not known."""
    split = tested_split(record)
    return round(split.labelled / split.rows) if in_blocks(record) and split and split.rows else 0


def tested_split(record: Record) -> SplitCard | None:
    return record.data.splits.get("test") or record.data.splits.get("dev")


def in_common(values: Iterable[T], otherwise: T) -> T:
    """The value, where there is only one."""
    different = set(values)
    return different.pop() if len(different) == 1 else otherwise


def beam_of(records: Sequence[Record]) -> int:
    """The beam with which all of these were tested; 0 where it is not known or not one."""
    return in_common([int((record.knobs.get("translate") or {}).get("test_beam", 0)) for record in records], 0)


def decoding(records: Sequence[Record]) -> str:
    """How the timed text comes about, where it is decoded."""
    beam = beam_of(records)
    return f"decoded with a beam of {beam}" if beam > 1 else "decoded greedily" if beam else "decoded token by token"


def timed(records: Sequence[Record]) -> str:
    """What one measurement of speed takes in: a sentence, a question with its text, or a block and how long it is."""
    unit = timed_unit(records)
    length = in_common([block_length(record) for record in records], 0) if unit == "block" else 0
    return f"block of about {plural(length, 'token')}" if length else unit


def timed_unit(records: Sequence[Record]) -> str:
    return in_common([units(record).input for record in records], "text")


def layers(shape: Shape) -> str:
    """3 layers, or 6+2 of an encoder and a decoder."""
    if not shape.decoder_layers:
        return plural(shape.layers, "layer")
    return f"{shape.layers}+{shape.decoder_layers} layers"


def shape_text(shape: Shape) -> str:
    if shape.text:
        return shape.text
    heads = plural(shape.heads, "head")
    return f"{layers(shape)} × {shape.hidden}, {heads}, feed-forward {shape.feed_forward}"


def flat(knobs: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The knobs under the dotted names that flags use."""
    for name, value in knobs.items():
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _knob_text(value)


def _knob_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == "" or value == [] or value == {}:
        return NOTHING
    return ", ".join(map(_knob_text, value)) if isinstance(value, list | tuple) else str(value)


# Numbers as text


def listed(items: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def article(name: str) -> str:
    return "an " if name[0] in "aeiouF" else "a "


def opening(words: str) -> str:
    """With the first letter of a sentence, and names such as BLEU left whole."""
    return words[:1].upper() + words[1:]


def known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def percent(value: float | None, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}{GAP}%" if known(value) else NOTHING


def share_of(mine: float, theirs: float) -> str:
    """Of the teacher's score. Downwards: who is below the teacher never keeps 100 %."""
    return percent(math.floor(round(1000 * mine / theirs, 6)) / 1000)


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


def change_text(record: Record, change: Comparison) -> str:
    """+1.2 (−0.1 to +2.5): points of a share, or the metric's own unit. An end keeps its sign when it rounds to 0."""
    metric = metric_named(record, change.metric)
    factor, digits = (100, 1) if metric.unit == "share" else (1, decimals(metric))
    middle, low, high = (f"{factor * value:+.{digits}f}" for value in (change.difference, change.low, change.high))
    return f"{middle} ({low}{GAP}to{GAP}{high})".replace("-", MINUS)


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


def times(value: float) -> str:
    """Of a gain: 17.9×, 120×. Downwards: who says 15× has 15×."""
    return f"{math.floor(round(10 * value, 6)) / 10:.1f}×" if value < 99.95 else f"{math.floor(value):,}×"


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
