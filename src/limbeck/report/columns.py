"""The table of models: what each column holds. Page, model card and terminal choose from the same columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from limbeck.core.metric import Metric, metric_of, metrics_of
from limbeck.core.record import Arm, Record, Speed
from limbeck.report import numbers as n
from limbeck.report.gains import gain_of, gain_text, verdict
from limbeck.report.models import models, primary
from limbeck.report.summary import Spread, agreement, quality, seconds
from limbeck.report.units import beam_of, decoding, layers, throughput, timed

BRIEF = ("quality", "agreement", "parameters", "bytes", "p50", "throughput")
COMPARED = ("shape", "quality", "gain", "verdict", "agreement", "parameters", "bytes", "p50", "training")
# Models whose predictions are decoded texts: in short, and as the table of Kim and Rush (2016) has them.
DECODED = ("quality", "bleu_beam", "p_best", "parameters", "bytes", "throughput")
PAPER = (
    *("quality", "bleu_beam", "beam_gain", "chrf", "perplexity", "perplexity_of_teacher", "p_best", "agreement"),
    *("parameters", "bytes", "p50", "throughput"),
)
COSTS = ("shape", "parameters", "bytes", "p50", "throughput")


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None  # what sorting compares


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    cell: Callable[[Record, Arm], Cell]
    hint: str = ""


def brief(records: Sequence[Record]) -> tuple[str, ...]:
    """The columns that a README or a terminal has room for."""
    compared = len(records) == 1 and records[0].kind == "compare"
    if all_decoded(records):
        return (*DECODED, "shape", "gain", "verdict") if compared else DECODED
    return COMPARED if compared else BRIEF


def full(record: Record) -> tuple[str, ...]:
    """The columns of a record's own card and, of a comparison, of its page."""
    if not record.task.units.decoded:
        return brief([record])
    return (*PAPER, "shape", "gain", "verdict") if record.kind == "compare" else PAPER


def halves(record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The full columns of a comparison of translators, too many for a page: their quality, and their costs."""
    return tuple(key for key in full(record) if key not in COSTS), COSTS


def all_decoded(records: Sequence[Record]) -> bool:
    return all(record.task.units.decoded for record in records)


def columns(records: Sequence[Record], keys: Sequence[str] = ()) -> list[Column]:
    """The columns of these keys, or all, that hold at least one value. Translators have the paper's instead of all."""
    decoded = all_decoded(records)
    keys = keys or (PAPER if decoded else ())
    shape = Column("shape", "shape", _shape, "layers and width")
    beside = _beside_primary(records) if decoded else ()
    return [
        column
        for column in (shape, _quality_column(records), *beside, *_others(records))
        if (not keys or column.key in keys)
        and any(column.cell(record, model).value is not None for record in records for model in models(record))
    ]


def _quality_column(records: Sequence[Record]) -> Column:
    """The primary metric; where it is not the same for all, each cell names its own."""
    titles, meanings = ({getattr(primary(record), part) for record in records} for part in ("title", "meaning"))
    meaning = meanings.pop() if len(meanings) == 1 else ""
    if len(titles) > 1:
        return Column("quality", "quality", _named_quality, meaning)
    title = titles.pop()
    greedy = all_decoded(records) and title == "BLEU"
    return Column("quality", f"{title} K=1" if greedy else title, _quality, meaning)


def _cell(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell(n.NOTHING if value is None else write(value), value)


def _quality(record: Record, arm: Arm) -> Cell:
    return _scored(arm, primary(record))


def _scored(arm: Arm, metric: Metric) -> Cell:
    found = quality(arm, metric.name)
    return Cell(n.score_with_sd(metric, found.mean, found.sd), found.mean) if found else Cell(n.NOTHING, None)


def _beside_primary(records: Sequence[Record]) -> list[Column]:
    """The metrics with a column of their own, in the paper's order; BLEU of a beam names its width, where it is one."""
    beam = beam_of(records)
    titles = {"bleu_beam": f"BLEU K={beam}"} if beam else {}
    known = metrics_of(records[0].task)
    return [
        Column(key, titles.get(key, known[key].column), partial(_of_metric, metric=known[key]), known[key].meaning)
        for key in PAPER
        if key in known
    ]


def _of_metric(record: Record, arm: Arm, metric: Metric) -> Cell:
    return _scored(arm, metric)


def _named_quality(record: Record, arm: Arm) -> Cell:
    cell = _quality(record, arm)
    return cell if cell.value is None else Cell(f"{cell.text} {primary(record).title}", cell.value)


def _agreement(record: Record, arm: Arm) -> Cell:
    return _cell(_mean(agreement(arm)), partial(n.score, metric_of(record.task, "agreement")))


def _shape(record: Record, arm: Arm) -> Cell:
    if record.kind != "compare" or arm.shape is None:
        return Cell(n.NOTHING, None)
    deep = layers(arm.shape).replace(" ", n.GAP)
    return Cell(f"{deep}{n.GAP}×{n.GAP}{arm.shape.hidden}", arm.shape.layers + arm.shape.decoder_layers)


def _gain(record: Record, arm: Arm) -> Cell:
    found = gain_of(record, arm)
    return Cell(gain_text(record, found), found.difference) if found else Cell(n.NOTHING, None)


def _verdict(record: Record, arm: Arm) -> Cell:
    found = gain_of(record, arm)
    return Cell(verdict(record, found), found.difference) if found else Cell(n.NOTHING, None)


def _mean(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def _others(records: Sequence[Record]) -> tuple[Column, ...]:
    one = timed(records) + (f", {decoding(records)}" if all_decoded(records) else "")
    agreements = {metric_of(record.task, "agreement").meaning for record in records}
    agree = agreements.pop() if len(agreements) == 1 else "share of predictions that are the teacher’s"
    return (
        Column("gain", "over no teacher", _gain, "than the same student trained without a teacher, and the interval"),
        Column("verdict", "verdict", _verdict, "an interval that holds 0 leaves it unclear"),
        Column("agreement", "agrees with teacher", _agreement, agree),
        Column("parameters", "parameters", lambda _, arm: _cell(arm.size.parameters if arm.size else None, n.millions)),
        Column("bytes", "on disk", lambda _, arm: _cell(arm.size.bytes_on_disk if arm.size else None, n.megabytes)),
        _speed("p50", "p50", lambda speed: speed.p50_ms, n.milliseconds, f"for one {one}, median"),
        _speed("p95", "p95", lambda speed: speed.p95_ms, n.milliseconds, f"for one {one}, 95 of 100 take no longer"),
        _speed(
            "throughput",
            throughput(records),
            lambda speed: speed.sentences_per_second,
            n.figure,
            f"each a {one}, in batches",
        ),
        _speed("peak", "peak memory", lambda speed: speed.peak_bytes, n.megabytes, "of the whole process"),
        Column("training", "training", lambda _, arm: _cell(_mean(seconds(arm)), n.duration), "of one seed"),
        Column("seeds", "seeds", lambda _, arm: _cell(len(arm.runs) or None, n.count)),
    )


def _speed(key: str, title: str, value: Callable[[Speed], float], write: Callable[[float], str], hint: str) -> Column:
    return Column(key, title, lambda _, arm: _cell(value(arm.speed) if arm.speed else None, write), hint)
