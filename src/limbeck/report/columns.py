"""The table of arms: what each column holds. Page, model card and terminal choose from the same columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from limbeck.core.record import Arm, Record, Speed
from limbeck.report import numbers as n
from limbeck.report.gains import gain_of, gain_text, proven
from limbeck.report.summary import Spread, agreement, quality, seconds
from limbeck.report.units import beam_of, layers, meaning, throughput, timed, units, writing

BRIEF = ("quality", "agreement", "parameters", "bytes", "p50", "throughput")
COMPARED = ("shape", "quality", "gain", "proven", "agreement", "parameters", "bytes", "p50", "training")
# Of translators, in short and as the table of Kim and Rush (2016) has them.
WRITERS = ("quality", "bleu_beam", "p_best", "parameters", "bytes", "throughput")
PAPER = (*WRITERS, "beam_gain", "chrf", "perplexity", "perplexity_of_teacher", "p50")
COSTS = ("shape", "parameters", "bytes", "p50", "throughput")
_BESIDE_BLEU = {
    "bleu_beam": "BLEU beam",
    "beam_gain": "beam adds",
    "chrf": "chrF",
    "perplexity": "perplexity, gold",
    "perplexity_of_teacher": "perplexity, teacher’s",
    "p_best": "p(ŷ)",
}


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
    if all_write(records):
        return (*WRITERS, "shape", "gain", "proven") if compared else WRITERS
    return COMPARED if compared else BRIEF


def full(record: Record) -> tuple[str, ...]:
    """The columns of a record's own card and, of a comparison, of its page."""
    if not record.task.is_seq2seq:
        return brief([record])
    return (*PAPER, "shape", "gain", "proven") if record.kind == "compare" else PAPER


def halves(record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The full columns of a comparison of translators, too many for a page: what they write, and what that costs."""
    return tuple(key for key in full(record) if key not in COSTS), COSTS


def all_write(records: Sequence[Record]) -> bool:
    return all(record.task.is_seq2seq for record in records)


def columns(records: Sequence[Record], keys: Sequence[str] = ()) -> list[Column]:
    """The columns of these keys, or all, that hold at least one value. Translators have the paper's instead of all."""
    write = all_write(records)
    keys = keys or (PAPER if write else ())
    metrics = {record.metric for record in records}
    quality_title = n.metric_name(metrics.pop()) if len(metrics) == 1 else "quality"
    cell = _quality if quality_title != "quality" else _named_quality
    meant = {meaning(record.task, record.metric) for record in records}
    title = f"{quality_title} K=1" if write and quality_title == n.metric_name("bleu") else quality_title
    quality_column = Column("quality", title, cell, meant.pop() if len(meant) == 1 else "")
    shape = Column("shape", "shape", _shape, "layers and width")
    return [
        column
        for column in (shape, quality_column, *(_beside_bleu(records) if write else ()), *_others(records))
        if (not keys or column.key in keys)
        and any(column.cell(record, arm).value is not None for record in records for arm in record.arms)
    ]


def _cell(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell(n.NOTHING if value is None else write(value), value)


def _quality(record: Record, arm: Arm) -> Cell:
    return _scored(arm, record.metric)


def _scored(arm: Arm, metric: str) -> Cell:
    found = quality(arm, metric)
    return Cell(n.score_with_sd(metric, found.mean, found.sd), found.mean) if found else Cell(n.NOTHING, None)


def _beside_bleu(records: Sequence[Record]) -> list[Column]:
    """The paper's other figures; those of a beam name it, where it is one."""
    beam = beam_of(records)
    titles = _BESIDE_BLEU | ({"bleu_beam": f"BLEU K={beam}"} if beam else {})
    return [
        Column(metric, title, partial(_of_metric, metric=metric), meaning(records[0].task, metric))
        for metric, title in titles.items()
    ]


def _of_metric(record: Record, arm: Arm, metric: str) -> Cell:
    return _scored(arm, metric)


def _named_quality(record: Record, arm: Arm) -> Cell:
    cell = _quality(record, arm)
    return cell if cell.value is None else Cell(f"{cell.text} {n.metric_name(record.metric)}", cell.value)


def _agreement(record: Record, arm: Arm) -> Cell:
    metric = "pearson" if record.task.kind == "regress" else "agreement"
    return _cell(_mean(agreement(arm)), lambda value: n.score(metric, value))


def _shape(record: Record, arm: Arm) -> Cell:
    if record.kind != "compare" or arm.shape is None:
        return Cell(n.NOTHING, None)
    deep = layers(arm.shape).replace(" ", n.GAP)
    return Cell(f"{deep}{n.GAP}×{n.GAP}{arm.shape.hidden}", arm.shape.layers + arm.shape.decoder_layers)


def _gain(record: Record, arm: Arm) -> Cell:
    found = gain_of(record, arm)
    return Cell(gain_text(found), found.difference) if found else Cell(n.NOTHING, None)


def _proven(record: Record, arm: Arm) -> Cell:
    found = gain_of(record, arm)
    return Cell(proven(found), found.difference) if found else Cell(n.NOTHING, None)


def _mean(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def _others(records: Sequence[Record]) -> tuple[Column, ...]:
    one, answers = timed(records), {units(record).answer for record in records}
    one += f", {writing(records)}" if all_write(records) else ""
    answer = answers.pop() if len(answers) == 1 else "answer"
    return (
        Column("gain", "over no teacher", _gain, "than the same student trained without a teacher, and the interval"),
        Column("proven", "verdict", _proven, "an interval that holds 0 leaves it unclear"),
        Column("agreement", "agrees with teacher", _agreement, f"share of {answer}s with the teacher’s answer"),
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
