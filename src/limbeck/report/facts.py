"""What a Record holds, as every report reads it: its models, their figures over seeds, what is counted and timed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Arm, Comparison, Record, SeedResult, Shape, SplitCard
from limbeck.core.task import Units
from limbeck.report import numbers as n

T = TypeVar("T")


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
    finite = tuple(value for value in values if n.known(value))
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


def models(record: Record) -> list[Arm]:
    """One for each row of a table: every arm, then every artifact in the shape of the arm that it comes from."""
    rows, origins = list(record.arms), {arm.name: arm for arm in record.arms}
    for artifact in record.artifacts:
        own = {key: getattr(artifact, key) for key in ("name", "title", "size", "speed")}
        runs = [SeedResult(seed=artifact.seed, quality=artifact.quality)]
        rows.append(origins[artifact.arm].model_copy(update={**own, "runs": runs}))
    return rows


def of_role(record: Record, *roles: str) -> Arm | None:
    return next((arm for arm in record.arms if arm.role in roles), None)


def teacher_of(record: Record) -> Arm | None:
    return of_role(record, "teacher")


def students_of(record: Record) -> list[Arm]:
    return [arm for arm in record.arms if arm.role == "student"]


def subject_of(record: Record) -> Arm | None:
    """The arm that the record is about: the student, of several the best; or the model trained or measured."""
    students = by_quality(record, students_of(record))
    return students[0] if students else of_role(record, "model", "baseline") or teacher_of(record)


def by_quality(record: Record, arms: Iterable[Arm]) -> list[Arm]:
    """The best first; those without a score last, all ties in their own order."""
    sign = -1 if primary(record).higher_is_better else 1

    def worth(arm: Arm) -> float:
        found = quality(arm, record.metric)
        return sign * found.mean if found else math.inf

    return sorted(arms, key=worth)


def is_pair(record: Record) -> bool:
    """Whether the record sets a model beside its teacher."""
    teacher = teacher_of(record)
    return teacher is not None and teacher is not subject_of(record)


def gain_of(record: Record, arm: Arm) -> Comparison | None:
    """What a teacher gave an arm over the same student without one; a run with one student says it in a sentence."""
    if record.kind != "compare":
        return None
    return next((c for c in record.comparisons if c.better == arm.name and c.metric == record.metric), None)


def baseline_of(record: Record, arm: Arm) -> Arm | None:
    than = next((c.than for c in record.comparisons if c.better == arm.name), "")
    return next((other for other in record.arms if other.name == than), None)


def units(record: Record) -> Units:
    """Of the task; the documents of a language model may be chats."""
    own = record.task.units
    return replace(own, source="chat", repeated="chat") if "messages" in record.data.columns else own


def in_blocks(record: Record) -> bool:
    """Running text, cut into blocks; a split then counts blocks and tokens."""
    return units(record).row == "block"


def all_decoded(records: Sequence[Record]) -> bool:
    return all(units(record).decoded for record in records)


def tested_rows(record: Record) -> int:
    split = _tested(record)
    if split is None:
        return 0
    return split.rows if in_blocks(record) else split.labelled or split.rows


def block_length(record: Record) -> int:
    """Tokens of a test block, on average; 0 where that is not known."""
    split = _tested(record)
    return round(split.labelled / split.rows) if in_blocks(record) and split and split.rows else 0


def _tested(record: Record) -> SplitCard | None:
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
    return f"block of about {n.plural(length, 'token')}" if length else unit


def timed_unit(records: Sequence[Record]) -> str:
    return in_common([units(record).input for record in records], "text")


def layers(shape: Shape) -> str:
    """3 layers, or 6+2 of an encoder and a decoder."""
    if not shape.decoder_layers:
        return n.plural(shape.layers, "layer")
    return f"{shape.layers}+{shape.decoder_layers} layers"


def shape_text(shape: Shape) -> str:
    heads = n.plural(shape.heads, "head")
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
        return n.NOTHING
    return ", ".join(map(_knob_text, value)) if isinstance(value, list | tuple) else str(value)
