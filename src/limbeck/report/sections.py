"""What the page says about one Record, ready to be set: tiles, tables, disagreements, data, knobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Arm, Disagreement, Record
from limbeck.core.task import Units
from limbeck.report import bar_charts, charts, svg
from limbeck.report import numbers as n
from limbeck.report.columns import Cell, Column, columns, full, halves
from limbeck.report.curve_panels import curve_panels
from limbeck.report.gains import baseline_of, failure_text, gain_sentences, together
from limbeck.report.models import models, primary
from limbeck.report.summary import agreement, divergence, quality, spread, subject_of, teacher_of
from limbeck.report.units import units
from limbeck.report.writers import Example, examples, sentences

SHOWN_DISAGREEMENTS = 120
_ORDER = ("teacher", "student", "neither", "unknown")
_NOT_IN_PAPER = ("p95", "peak", "training", "seeds")  # other tasks have them in the table of models
LONG_TEXT = 320  # characters; a longer text is folded

__all__ = ["arm_rows", "columns", "section"]


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    note: str
    bar: float | None = None  # share of the teacher's, at most 1


@dataclass(frozen=True)
class Row:
    record: Record
    arm: Arm
    mark: Markup
    cells: list[Cell]
    lead: bool  # the student that the record is about


@dataclass(frozen=True)
class ClassRow:
    label: str
    rows: int
    scores: list[str]
    gap: float | None  # student − teacher


@dataclass(frozen=True)
class Judged:
    """A disagreement, and who was right."""

    row: Disagreement
    right: str
    who: str
    folded: bool


@dataclass(frozen=True)
class Section:
    record: Record
    anchor: str
    units: Units
    metric: Metric  # the primary one
    tiles: list[Tile]
    standing: charts.Figure | None
    differences: charts.Figure | None
    trade_offs: list[charts.Figure]
    closeness: charts.Figure | None
    calibration: charts.Figure | None
    learning: list[charts.Figure]
    terms: list[Markup]
    curve_panels: list[Markup]  # a panel for each arm, where one chart would hold too many
    failed: list[str]
    gains: list[str]  # every comparison in words, where there are several
    sentences: list[str]  # the table of translators in words
    columns: list[Column]
    rows: list[Row]
    costs: list[Column]  # a second table, where one would be too wide
    cost_rows: list[Row]
    metrics: list[tuple[str, str, list[str]]]  # name, meaning, a cell for each arm
    figures: list[tuple[str, str]]
    class_arms: list[Arm]
    classes: list[ClassRow]
    disagreements: list[Judged]
    disagreement_groups: list[tuple[str, str, int]]  # class, words, rows
    examples: list[Example]
    knobs: list[tuple[str, str]]
    links: dict[str, str]


def section(record: Record, anchor: str) -> Section:
    crowded = record.kind == "compare"
    arms = [arm for arm in (_chosen(record) if crowded else record.arms) if any(run.per_class for run in arm.runs)]
    uneven = len({len(arm.runs) for arm in record.arms if arm.role != "teacher"}) > 1
    decoded = record.task.units.decoded
    more = ["seeds"] if uneven and not decoded else []
    keys, costs = halves(record) if crowded and decoded else (full(record), ())
    shown = columns([record], (*keys, *more) if crowded else ())
    beside = columns([record], costs) if costs else []
    judged = [_judged(row, record) for row in record.disagreements[:SHOWN_DISAGREEMENTS]]
    groups = Counter((one.right, one.who) for one in sorted(judged, key=lambda one: _ORDER.index(one.right)))
    return Section(
        record=record,
        anchor=anchor,
        units=units(record),
        metric=primary(record),
        tiles=list(_tiles(record)),
        standing=bar_charts.standing(record),
        differences=bar_charts.differences(record),
        trade_offs=charts.trade_offs([record]),
        closeness=bar_charts.closeness(record),
        calibration=bar_charts.calibration(record),
        learning=[] if crowded else [figure for figure in (charts.learning(record), charts.loss(record)) if figure],
        terms=[] if crowded else charts.loss_terms(record),
        curve_panels=curve_panels(record) if crowded else [],
        failed=[failure_text(record, failure) for failure in record.failed],
        gains=[*gain_sentences(record), *filter(None, [together(record)])] if crowded else [],
        sentences=sentences(record),
        columns=shown,
        rows=arm_rows([record], shown),
        costs=beside,
        cost_rows=arm_rows([record], beside) if beside else [],
        metrics=_metrics(record),
        figures=[_figure(name, value) for name, value in record.figures.items()],
        class_arms=arms,
        classes=_classes(record, arms),
        disagreements=judged,
        disagreement_groups=[(right, who, rows) for (right, who), rows in groups.items()],
        examples=examples(record),
        knobs=list(flat(record.knobs)),
        links={c.text: url for c in record.citations if (url := _link(c.bibtex))},
    )


def _chosen(record: Record) -> list[Arm]:
    """Of many arms the teacher, the best student, and that one without a teacher."""
    subject = subject_of(record)
    plain = baseline_of(record, subject) if subject else None
    return [arm for arm in record.arms if arm in (teacher_of(record), plain, subject)]


def arm_rows(records: Sequence[Record], shown: Sequence[Column] = ()) -> list[Row]:
    shown = shown or columns(records)
    rows = []
    for record in records:
        tone, subject = charts.tones(record), subject_of(record)
        for arm in models(record):
            cells = [column.cell(record, arm) for column in shown]
            lead = arm is subject and arm.role == "student"
            rows.append(Row(record, arm, svg.swatch(tone[arm.name]), cells, lead))
    return rows


def _tiles(record: Record) -> Iterator[Tile]:
    """Quality, latency, size, agreement; each beside the teacher's where there is one."""
    subject, teacher = subject_of(record), teacher_of(record)
    if subject is None:
        return
    other, metric = teacher if teacher is not subject else None, primary(record)
    mine, theirs = quality(subject, record.metric), quality(other, record.metric) if other else None
    if mine:
        value = n.score_with_sd(metric, mine.mean, mine.sd)
        note = f"teacher {n.score(metric, theirs.mean)}" if theirs else n.plural(len(subject.runs), "seed")
        share = theirs and theirs.mean > 0 and metric.higher_is_better
        yield Tile(metric.title, value, note, _bar(mine.mean, theirs.mean) if theirs and share else None)
    if subject.speed:
        value, ours = n.milliseconds(subject.speed.p50_ms), subject.speed.p50_ms
        before = other.speed.p50_ms if other and other.speed else None
        note = f"teacher {n.milliseconds(before)}" if before else f"p95 {n.milliseconds(subject.speed.p95_ms)}"
        yield Tile(f"per {record.task.units.input}, median", value, note, _bar(ours, before) if before else None)
    if subject.size:
        bytes_, whole = subject.size.bytes_on_disk, other.size.bytes_on_disk if other and other.size else None
        note = f"teacher {n.megabytes(whole)}" if whole else f"{n.millions(subject.size.parameters)} parameters"
        yield Tile("on disk", n.megabytes(bytes_), note, _bar(bytes_, whole) if whole else None)
    agree = agreement(subject)
    if agree and subject is not teacher:
        metric = metric_of(record.task, "agreement")
        yield Tile(metric.title, n.score(metric, agree.mean), metric.meaning, agree.mean)
    if "cache_bytes_per_token" in record.figures:
        kept = record.figures.get("cache_bytes")
        note = f"a token; {n.megabytes(kept)} on disk" if kept is not None else "a token"
        yield Tile("teacher’s outputs", f"{n.figure(record.figures['cache_bytes_per_token'])}{n.GAP}bytes", note)


def _bar(mine: float, whole: float) -> float:
    return max(0.0, min(1.0, mine / whole))


def _figure(name: str, value: float) -> tuple[str, str]:
    """What else was measured; figures that runs know by a name of code get one that people read."""
    if name == "cache_bytes":
        return "teacher’s outputs on disk", n.megabytes(value)
    return ("teacher’s outputs, bytes per token" if name == "cache_bytes_per_token" else name), n.figure(value)


def _metrics(record: Record) -> list[tuple[str, str, list[str]]]:
    """Every metric for every model, the primary one first, the distance from the teacher last."""
    rows = models(record)
    names = dict.fromkeys([record.metric, *(name for arm in rows for run in arm.runs for name in run.quality)])
    table = []
    for metric in (metric_of(record.task, name) for name in names):
        found = [quality(arm, metric.name) for arm in rows]
        if any(found):
            cells = [n.score_with_sd(metric, s.mean, s.sd) if s else n.NOTHING for s in found]
            table.append((metric.title, metric.meaning, cells))
    apart, metric = [divergence(arm) for arm in rows], metric_of(record.task, "divergence")
    if any(apart):
        table.append((metric.title, metric.meaning, [n.figure(s.mean) if s else n.NOTHING for s in apart]))
    for column in columns([record], _NOT_IN_PAPER) if record.task.units.decoded else []:
        table.append((column.title, "", [column.cell(record, arm).text for arm in rows]))
    return table


def _classes(record: Record, arms: Sequence[Arm]) -> list[ClassRow]:
    subject, teacher = subject_of(record), teacher_of(record)
    rows = {score.label: score.rows for arm in arms for run in arm.runs for score in run.per_class}
    table = []
    for label, count in rows.items():
        f1 = {arm.name: spread(arm, lambda run, at=label: _f1(run.per_class, at)) for arm in arms}  # type: ignore[misc]
        mine = f1.get(subject.name) if subject else None
        theirs = f1.get(teacher.name) if teacher and teacher is not subject else None
        scores = [n.percent(found.mean if found else None) for found in f1.values()]
        table.append(ClassRow(label, count, scores, mine.mean - theirs.mean if mine and theirs else None))
    return table


def _f1(scores: Sequence[Any], label: str) -> float | None:
    return next((score.f1 for score in scores if score.label == label), None)


def _judged(row: Disagreement, record: Record) -> Judged:
    right, judged = _who_is_right(row, record.task.units.judged), record.task.units.judged
    who = {"teacher": f"teacher {judged}", "student": f"student {judged}", "neither": f"neither {judged}"}
    return Judged(row, right or "unknown", who.get(right, "no label"), len(row.text) + len(row.pair) > LONG_TEXT)


def _who_is_right(row: Disagreement, judged: str) -> str:
    if row.right or not row.label:
        return row.right
    if judged == "right":
        return {row.teacher: "teacher", row.student: "student"}.get(row.label, "neither")
    try:
        gold, teacher, student = float(row.label), float(row.teacher), float(row.student)
    except ValueError:
        return ""
    return "teacher" if abs(teacher - gold) < abs(student - gold) else "student"


def flat(knobs: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The knobs under the dotted names that flags use."""
    for name, value in knobs.items():
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _written(value)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == "" or value == [] or value == {}:
        return n.NOTHING
    return ", ".join(map(_written, value)) if isinstance(value, list | tuple) else str(value)


def _link(bibtex: str) -> str:
    found = re.search(r"url\s*=\s*[{\"](https?://[^}\"\s]+)", bibtex)
    return found[1] if found else ""
