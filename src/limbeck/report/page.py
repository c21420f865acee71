"""One self-contained HTML page for one Record or many. It asks nothing of the network, and reads without its script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from limbeck.core.errors import DataError
from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Disagreement, Record, Sample
from limbeck.core.task import Units
from limbeck.report import answers, chain, charts, curves, frontier, levels, summary
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.heatmap import HeatMap, heatmap_of
from limbeck.report.published import PublishedTable, table_of
from limbeck.report.svg import swatch
from limbeck.report.table import FLOOR, Cell, Column, cells_of, columns, full, halves, on_page, table_rows
from limbeck.report.warnings import ReportWarning, warnings

SHOWN_DISAGREEMENTS = 120
LONG_TEXT = 320  # characters; a longer text is folded
_ORDER = ("teacher", "student", "neither", "unknown")
_APART = {"teacher": "what students are measured against", FLOOR: "needs no model"}
_NOT_IN_PAPER = ("p95", "peak", "training", "seeds")  # other tasks have them in the table of models
# A word, a sign, or a character of a script that puts no space between words; then the space after it.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SIGNS = re.escape('.,;:!?…()[]{}"“”„«»¿¡،؛؟。、，！？：；（）「」')
_WORDS = re.compile(rf"([{_UNSPACED}]|[{_SIGNS}]|[^\s{_UNSPACED}{_SIGNS}]+)(\s*)")

Marked = list[tuple[str, bool]]  # pieces of a text, and whether the reference lacks them there


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    note: str
    bar: float | None = None  # share of the teacher's, at most 1


@dataclass(frozen=True)
class ModelRow:
    record: Record
    arm: Arm
    mark: Markup
    cells: list[tuple[Cell, int]]  # and how many columns it spans
    kind: str  # lead: the student that the record is about; floor
    details: list[str]  # of a pass or an export: what it says of itself and what it counted


@dataclass(frozen=True)
class ModelTable:
    columns: list[Column]
    rows: list[ModelRow]


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

    def mark(self, side: str) -> str:
        return "" if self.right == "unknown" else "hit" if self.right == side else "miss"


@dataclass(frozen=True)
class Section:
    """What the page says about one Record, ready to be set."""

    record: Record
    anchor: str
    task: str
    units: Units
    metric: Metric  # the primary one
    headline: str
    conclusion: str
    tiles: list[Tile]
    warnings: list[ReportWarning]
    heatmaps: list[HeatMap]
    published: PublishedTable | None  # of a paper's experiment, run again
    standing: charts.Figure | None
    differences: charts.Figure | None
    trade_offs: list[charts.Figure]
    closeness: charts.Figure | None
    lengths: charts.Figure | None
    calibration: charts.Figure | None
    confusions: list[charts.Figure]
    learning: list[charts.Figure]
    terms: list[Markup]
    curve_panels: list[Markup]  # a panel for each arm, where one chart would hold too many
    gains: list[str]  # every comparison in words, where there are several
    gaps: list[str]  # the table of translators in words
    models: ModelTable
    costs: ModelTable | None  # a second table, where one would be too wide
    speed: str  # how it was measured
    metrics: list[tuple[str, str, list[str]]]  # name, meaning, a cell for each arm
    figures: list[tuple[str, str]]
    class_arms: list[Arm]
    classes: list[ClassRow]
    disagreements: list[Judged]
    disagreement_groups: list[tuple[str, str, int]]  # class, words, rows
    examples: list[tuple[Sample, list[tuple[str, Marked]]]]  # with the texts of the models, by their titles
    knobs: list[tuple[str, str]]
    links: dict[str, str]


def page(records: Sequence[Record]) -> str:
    """The page: a single run in full, or all runs on shared charts and a section for each."""
    if not records:
        raise DataError("a report needs at least one record", "give the folder of a finished run, or its record.json")
    records = told_apart(records)
    runs = [section(record, f"run-{i}-{_anchor(record.name)}") for i, record in enumerate(records, 1)]
    many = len(runs) > 1
    style, script = _read("style.css"), _read("page.js")
    style += _read("writers.css") if any(run.units.decoded for run in runs) else ""
    style += _read("heatmap.css") if any(run.heatmaps for run in runs) else ""
    return _template("page.html.j2").render(
        runs=runs,
        many=many,
        title=f"{len(runs)} runs" if many else records[0].name,
        style=Markup(style),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        figures=frontier.trade_offs(records) if many else [],
        models=_model_table(records) if many else None,
    )


def head(record: Record) -> str:
    """The head of the page as a fragment for a notebook: sentence, warnings, table and one chart, with a style of its
    own that touches nothing else."""
    figures = [charts.standing(record), *frontier.trade_offs([record]), curves.learning(record)]
    # What holds for the page and its body holds here for the fragment.
    style = re.sub(r"(?m)^(:root|html|body)\b", ":scope", _read("style.css"))
    return _template("head.html.j2").render(
        headline=summary.headline(record),
        conclusion=summary.conclusion(record),
        warnings=ranked(record),
        table=_model_table([record], full(record)),
        figure=next(filter(None, figures), None),
        style=Markup(style),
    )


@cache
def _template(name: str) -> Template:
    """Compiled once: of a short run that takes a fifth of the time."""
    environment = Environment(
        loader=PackageLoader("limbeck.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(n=n, shape_text=n.shape_text, long_text=LONG_TEXT)
    return environment.get_template(name)


def _read(name: str) -> str:
    return files("limbeck.report").joinpath(name).read_text("utf-8")


def _anchor(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def told_apart(records: Sequence[Record]) -> list[Record]:
    """Runs of one name get numbers: a run is known by its name in charts and tables."""
    names = Counter(record.name for record in records)
    seen: Counter[str] = Counter()
    apart = []
    for record in records:
        seen[record.name] += 1
        alone = names[record.name] == 1
        apart.append(record if alone else record.but(name=f"{record.name} {seen[record.name]}"))
    return apart


def section(record: Record, anchor: str) -> Section:
    crowded, unit, small = record.kind == "compare", n.units(record), m.is_frontier(record)
    chosen = _chosen(record) if crowded else record.arms
    arms = [arm for arm in chosen if any(run.per_class for run in arm.runs)]
    keys, costs = halves(record) if crowded and unit.decoded else (on_page(record), ())
    uneven = len({len(arm.runs) for arm in record.arms if arm.role != "teacher"}) > 1
    more = ("seeds",) if uneven and not unit.decoded else ()
    judged = [_judged(row, unit.judged) for row in record.disagreements[:SHOWN_DISAGREEMENTS]]
    groups = Counter((one.right, one.who) for one in sorted(judged, key=lambda one: _ORDER.index(one.right)))
    titles = {arm.name: arm.title for arm in record.arms}
    return Section(
        record=record,
        anchor=anchor,
        task=record.task.description,
        units=unit,
        metric=n.primary(record),
        headline=summary.headline(record),
        conclusion=summary.conclusion(record),
        tiles=list(_tiles(record)),
        warnings=ranked(record),
        heatmaps=[heatmap_of(matrix) for matrix in record.matrices],
        published=table_of(record),
        standing=charts.standing(record),
        differences=charts.differences(record),
        trade_offs=[*levels.charts_of(record), *frontier.trade_offs([record])],
        closeness=answers.closeness(record),
        lengths=charts.lengths(record),
        calibration=answers.calibration(record, chosen),
        confusions=answers.confusions(record, chosen),
        learning=[] if crowded else [figure for figure in (curves.learning(record), curves.loss(record)) if figure],
        terms=[] if crowded else curves.loss_terms(record),
        curve_panels=curves.curve_panels(record) if crowded else [],
        gains=summary.gain_sentences(record) if crowded else [],
        gaps=summary.gap_sentences(record),
        models=_model_table([record], (*keys, *more) if crowded or small else ()),
        costs=_model_table([record], costs) if costs else None,
        speed=summary.speed_conditions(record),
        metrics=_metrics(record),
        figures=[_named_figure(name, value) for name, value in record.figures.items()],
        class_arms=arms,
        classes=_classes(record, arms),
        disagreements=judged,
        disagreement_groups=[(right, who, rows) for (right, who), rows in groups.items()],
        examples=[(sample, _written(sample, titles)) for sample in record.samples],
        knobs=list(n.flat(record.knobs)),
        links={c.text: url for c in record.citations if (url := _link(c.bibtex))},
    )


def _chosen(record: Record) -> list[Arm]:
    """Of many arms the teacher, the best student, and that one without a teacher."""
    subject = m.subject_of(record)
    plain = n.baseline_of(record, subject) if subject else None
    return [arm for arm in record.arms if arm in (n.teacher_of(record), plain, subject)]


def ranked(record: Record) -> list[ReportWarning]:
    """Everything to know before believing the headline, the most serious first."""
    known = warnings(record)
    texts = {one.text for one in known}
    return [*known, *(ReportWarning(text, serious=False) for text in summary.caveats(record) if text not in texts)]


def _model_table(records: Sequence[Record], keys: Sequence[str] = ()) -> ModelTable:
    shown, rows = columns(records, keys), []
    for record in records:
        swatches, final = {FLOOR: swatch("floor"), **charts.swatches(record)}, m.final_of(record)
        for arm in table_rows(record):
            lead = final is not None and arm.name == final.name and arm.role == "student"
            kind = FLOOR if arm.name == FLOOR else "lead" if lead else ""
            cells = [(cell, 1) for cell in cells_of(record, arm, shown)]
            if len(records) == 1:  # a table of many runs sorts, cell by cell
                cells = _spanning([cell for cell, _ in cells], _APART.get(kind or arm.role, ""))
            rows.append(ModelRow(record, arm, swatches[arm.name], cells, kind, chain.details(record, arm)))
    return ModelTable(shown, rows)


def _spanning(cells: Sequence[Cell], instead: str) -> list[tuple[Cell, int]]:
    """Blank cells beside each other as one, and the first of these says why it is blank."""
    runs = [(blank, list(group)) for blank, group in groupby(cells, key=lambda cell: not cell.text)]
    merged: list[tuple[Cell, int]] = []
    for blank, group in runs:
        if blank and len(group) > 1:
            merged.append((Cell(instead), len(group)))
            instead = ""
        else:
            merged += [(cell, 1) for cell in group]
    return merged


def _tiles(record: Record) -> Iterator[Tile]:
    """Quality, latency, size, agreement; each beside the teacher's or that of the start, where there is one."""
    subject, teacher = m.final_of(record), m.reference_of(record)
    if subject is None:
        return
    other, metric = teacher if teacher is not subject else None, n.primary(record)
    before = {"compress": "before", "bench": "the first"}.get(record.kind, "teacher")
    mine, theirs = n.quality(subject, record.metric), n.quality(other, record.metric) if other else None
    if mine:
        value = n.score(metric, mine.mean, mine.sd)
        note = f"{before} {n.score(metric, theirs.mean)}" if theirs else n.plural(len(subject.runs), "seed")
        share = _share(mine.mean, theirs.mean) if theirs and metric.higher_is_better else None
        yield Tile(metric.title, value, note, share)
    if speed := subject.speed:
        slow = other.speed.p50_ms if other and other.speed else 0.0
        note = f"{before} {n.milliseconds(slow)}" if slow else f"p95 {n.milliseconds(speed.p95_ms)}"
        name = f"per {n.units(record).input}, median"
        yield Tile(name, n.milliseconds(speed.p50_ms), note, _share(speed.p50_ms, slow))
    in_all = m.counted_in_all([record])
    if size := subject.size:
        small, whole = m.bytes_of(subject, in_all), m.bytes_of(other, in_all)
        note = f"{before} {n.megabytes(whole)}" if whole else f"{n.millions(size.parameters)} parameters"
        yield Tile("in all" if in_all else "on disk", n.megabytes(small), note, _share(small, whole))
    trained = m.subject_of(record)
    agree = n.fidelity(trained, "agreement") if trained else None
    if agree and subject is not teacher:
        metric = n.metric_named(record, "agreement")
        yield Tile(metric.title, n.score(metric, agree.mean), metric.meaning, agree.mean)
    if (per_token := record.figures.get("cache_bytes_per_token")) is not None:
        cached = record.figures.get("cache_bytes")
        note = f"a token; {n.megabytes(cached)} on disk" if cached is not None else "a token"
        yield Tile("teacher’s outputs", f"{n.figure(per_token)}{n.GAP}bytes", note)


def _share(mine: float, whole: float) -> float | None:
    return max(0.0, min(1.0, mine / whole)) if whole > 0 else None


def _named_figure(name: str, value: float) -> tuple[str, str]:
    """What else was measured; figures that runs know by a name of code get one that people read."""
    if name == "cache_bytes":
        return "teacher’s outputs on disk", n.megabytes(value)
    return ("teacher’s outputs, bytes per token" if name == "cache_bytes_per_token" else name), n.figure(value)


def _metrics(record: Record) -> list[tuple[str, str, list[str]]]:
    """Every metric for every model, the primary one first, the distance from the teacher last."""
    rows = table_rows(record)
    names = dict.fromkeys([record.metric, *(name for arm in rows for run in arm.runs for name in run.quality)])
    table = []
    for metric in (n.metric_named(record, name) for name in names):
        scores = [n.quality(arm, metric.name) for arm in rows]
        if any(scores):
            cells = [n.score(metric, s.mean, s.sd) if s else n.NOTHING for s in scores]
            table.append((metric.title, metric.meaning, cells))
    apart, metric = [n.fidelity(arm, "divergence") for arm in rows], n.metric_named(record, "divergence")
    if any(apart):
        table.append((metric.title, metric.meaning, [n.figure(s.mean) if s else n.NOTHING for s in apart]))
    elsewhere = n.units(record).decoded or (m.is_frontier(record) and record.kind != "bench")
    for column in columns([record], _NOT_IN_PAPER) if elsewhere else []:
        table.append((column.title, "", [cells_of(record, arm, [column])[0].text for arm in rows]))
    return table


def _classes(record: Record, arms: Sequence[Arm]) -> list[ClassRow]:
    subject, teacher = m.subject_of(record), n.teacher_of(record)
    rows = {score.label: score.rows for arm in arms for run in arm.runs for score in run.per_class}
    table = []
    for label, count in rows.items():
        scores = {arm.name: [s.f1 for run in arm.runs for s in run.per_class if s.label == label] for arm in arms}
        f1 = {name: figure.mean if (figure := n.spread(values)) else None for name, values in scores.items()}
        mine = f1.get(subject.name) if subject else None
        theirs = f1.get(teacher.name) if teacher and teacher is not subject else None
        gap = mine - theirs if mine is not None and theirs is not None else None
        table.append(ClassRow(label, count, [n.percent(value) for value in f1.values()], gap))
    return table


def _judged(row: Disagreement, judged: str) -> Judged:
    right = _who_is_right(row, judged)
    who = f"{right} {judged}" if right else "no label"
    return Judged(row, right or "unknown", who, len(row.text) + len(row.pair) > LONG_TEXT)


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


def _written(sample: Sample, titles: dict[str, str]) -> list[tuple[str, Marked]]:
    return [(titles.get(arm, arm), marked(text, sample.reference)) for arm, text in sample.written.items()]


def marked(text: str, reference: str) -> Marked:
    """The text in pieces, those that differ from the reference marked; without a reference, whole."""
    if not reference:
        return [(text, False)]
    spaced, wanted = _WORDS.findall(text), [word for word, _ in _WORDS.findall(reference)]
    # autojunk would take frequent words of a long text for noise.
    matcher = SequenceMatcher(None, [word for word, _ in spaced], wanted, autojunk=False)
    pieces = []
    for what, start, end, _, _ in matcher.get_opcodes():
        if start < end:
            piece = "".join(map("".join, spaced[start:end]))
            words = piece.rstrip()
            pieces += [(words, what != "equal"), (piece[len(words) :], False)]
    return pieces


def _link(bibtex: str) -> str:
    found = re.search(r"url\s*=\s*[{\"](https?://[^}\"\s]+)", bibtex)
    return found[1] if found else ""
