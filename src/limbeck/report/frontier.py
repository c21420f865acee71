"""The frontier: size and latency against quality, every model, pass and export a mark.

On a page it is two charts under one legend; alone, for a README, one SVG file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from limbeck.core.errors import DataError
from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Record
from limbeck.report import chain, charts, plots, svg
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.charts import CANVASES, EXPORT, STEP, Figure, Legend

NAMED = 24  # marks of a chart that have room for names; of more, the best are named
SHARES = (0.97, 0.95)  # of the teacher's quality, drawn as thin lines
FRONT_FROM = 3  # marks from which a front tells more than they do
PANEL, GAP, MARGIN, ROW = svg.Canvas(480, 330), 40.0, 18.0, 20.0  # of the picture that stands alone
_ROLE_NAMES = {
    "teacher": "teacher",
    "student": "with a teacher",
    "baseline": "without a teacher",
    "other-2": "model",
    STEP: "after a pass",
    EXPORT: "exported",
}


def trade_offs(records: Sequence[Record]) -> list[Figure]:
    """Size against quality and beside it latency, all models of all records; for each kind of quality."""
    figures = []
    for kind in dict.fromkeys(map(_kind_of_quality, records)):
        same = [record for record in records if _kind_of_quality(record) == kind]
        metric = n.primary(same[0])
        shared = any(metric.name == record.metric and kind != _kind_of_quality(record) for record in records)
        name = f"{metric.title} ({kind[1]})" if shared else metric.title
        figures.append(_pair(same, name, len(records) == 1, CANVASES))
    return [figure for figure in figures if figure]


def picture(records: Sequence[Record]) -> str:
    """The frontier as one SVG file that any page can show: it brings its own paper, style and legend, for light and
    dark. Records of another kind of quality than the first are left out."""
    same = [record for record in records if _kind_of_quality(record) == _kind_of_quality(records[0])]
    figure = _pair(same, n.primary(same[0]).title, len(same) == 1, (PANEL,))
    if figure is None:
        raise DataError(
            "no two models have a score above the floor and a size or a latency", "give the records of other runs"
        )
    panels = [panel.wide for panel in (figure, *figure.beside)]
    width = 2 * MARGIN + len(panels) * PANEL.width + (len(panels) - 1) * GAP
    parts, x, y = [], MARGIN, MARGIN
    for mark, name in figure.legend:
        wide = 38 + svg.text_width(name)
        x, y = (MARGIN, y + ROW) if x + wide > width - MARGIN else (x, y)
        parts.append(svg.moved(str(mark) + svg.text(20, 12, name), x, y))
        x += wide
    parts += [svg.moved(str(drawn), MARGIN + i * (PANEL.width + GAP), y + 2 * ROW) for i, drawn in enumerate(panels)]
    tall = y + 2 * ROW + max(map(svg.height_of, panels)) + MARGIN
    return svg.alone(parts, svg.Canvas(width, tall), figure.title)


def _pair(same: Sequence[Record], name: str, single: bool, canvases: Sequence[svg.Canvas]) -> Figure | None:
    drawn = {cost: panel for cost in _costs(same) if (panel := _panel(cost, name, same, single, canvases))}
    if not drawn:
        return None
    first, *more = drawn.values()
    title = f"{n.opening(' and '.join(drawn).lower())} against {name}"
    timing = _timing(same) if "Latency" in drawn else ""
    return replace(first, title=title, caption=first.caption + timing, beside=tuple(more))


def _costs(records: Sequence[Record]) -> dict[str, str]:
    size = "megabytes in all" if m.counted_in_all(records) else "megabytes on disk"
    return {"Size": size, "Latency": f"milliseconds per {n.timed_unit(records)}, median"}


def _panel(cost: str, name: str, same: Sequence[Record], single: bool, canvases: Sequence[svg.Canvas]) -> Figure | None:
    """One chart, unless a single mark would show nothing that the table does not."""
    points = [point for i, record in enumerate(same) for point in _points(record, cost, same, f"{i}/", single)]
    if len(points) < 2:
        return None
    return _trade_off(f"{cost} against {name}", _costs(same)[cost], points, same, canvases)


def _kind_of_quality(record: Record) -> tuple[str, str]:
    """The perplexity of masked tokens and that of next tokens share a name and no scale."""
    return record.metric, record.task.tag if record.task.level != "text" else ""


def _timing(records: Sequence[Record]) -> str:
    if records[0].task.level != "vocabulary":
        return ""
    how = f", {n.decoding(records)}" if n.units(records[0]).decoded else ""
    return f" Timed: one {n.timed(records)}{how}."


def _points(record: Record, cost: str, same: Sequence[Record], prefix: str, single: bool) -> list[plots.Point]:
    """A point for each model. Beside other runs, colour tells the role and the name tells the run."""
    points, metric, tone, in_all = [], n.primary(record), charts.tones(record), m.counted_in_all(same)
    for arm in m.models(record):
        y, size = n.quality(arm, record.metric), m.bytes_of(arm, in_all)
        if y is None or (m.is_between(record, arm) and n.at_floor(record, arm)):  # not yet trained: nothing to trade
            continue
        if cost == "Size" and size:
            x, unit = size / 1e6, n.megabytes(size)
        elif cost == "Latency" and arm.speed:
            x, unit = arm.speed.p50_ms, n.milliseconds(arm.speed.p50_ms)
        else:
            continue
        drawn, tip = charts.scaled(metric, y), f"{arm.title}\n{n.score(metric, y.mean, y.sd)} · {unit}"
        point = plots.Point(x, drawn.mean, tone[arm.name], _name(record, arm), tip, sd=drawn.sd, key=prefix + arm.name)
        if origin := chain.made_from(record, arm):
            point = replace(point, origin=prefix + origin.name)
        if single and record.kind == "compare":
            point = replace(point, sd=None)
        elif single:
            point = replace(point, seeds=drawn.values if len(drawn.values) > 1 else ())
        else:
            point = _among_runs(record, arm, point, prefix)
        points.append(point)
    return points


def _among_runs(record: Record, arm: Arm, point: plots.Point, prefix: str) -> plots.Point:
    subject, teacher = m.subject_of(record), n.teacher_of(record)
    leads, taught = subject and arm.name == subject.name, teacher and arm.name == teacher.name
    made = m.artifact_of(record, arm)
    name = record.name if leads else "teacher" if taught and len(record.arms) > 1 else f"{record.name}: {point.label}"
    origin = prefix + teacher.name if leads and teacher and not taught and not made else point.origin
    tone = point.tone if made else "other-2" if arm.role == "model" else arm.role
    return replace(point, tone=tone, label=_short(name), tip=f"{record.name}: {point.tip}", origin=origin)


def _name(record: Record, arm: Arm) -> str:
    """Of an export without its arm, where only one has any."""
    made = m.artifact_of(record, arm)
    lone = made and not made.step and len({one.arm for one in record.artifacts}) == 1
    return f"{made.engine} {made.precision}" if made and lone else _short(arm.title)


def _short(name: str, longest: int = 28) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _named(points: Sequence[plots.Point], metric: Metric) -> list[plots.Point]:
    """Every mark with its name; where they are too many for that, the best of each size."""
    if len(points) <= NAMED:
        return list(points)
    pick = max if metric.higher_is_better else min
    best = {p.x: pick((q for q in points if q.x == p.x), key=lambda q: q.y) for p in points}
    return [p if p is best[p.x] else replace(p, label="") for p in points]


def _trade_off(
    title: str, x_title: str, points: Sequence[plots.Point], records: Sequence[Record], canvases: Sequence[svg.Canvas]
) -> Figure:
    metric = n.primary(records[0])
    alone = len(records) == 1 and records[0].kind != "compare"
    words = f"{title}. " + "; ".join(p.tip.replace("\n", " ") for p in points[:12])  # for those who cannot see it
    points = _named(points, metric)
    y = charts.axis_of(metric, n.in_common(map(charts.tested, records), ""), [p.y for p in points])
    x = plots.Axis(x_title, log=any(map(m.is_frontier, records)))
    floor, shares = n.in_common(map(charts.floor_level, records), None), _shares(records, points)
    front = plots.front(points, metric.higher_is_better) if len(points) >= FRONT_FROM else []
    draw = [plots.scatter(points, x, y, canvas, words, alone, floor, shares, front) for canvas in canvases]
    return Figure(title, _caption(metric, points, records, shares), draw[0], draw[-1], _legend(records, points, front))


def _caption(
    metric: Metric, points: Sequence[plots.Point], records: Sequence[Record], shares: Sequence[plots.ReferenceLine]
) -> str:
    several = len(records) == 1 and records[0].kind == "compare"
    caption = f"Better lies {'up' if metric.higher_is_better else 'down'} and to the left."
    caption += " Faint dots are single seeds." if any(p.seeds for p in points) else ""
    if several:
        caption += " Marks are means over seeds."
    else:
        caption += (
            " Whiskers are one standard deviation over seeds." if any(p.sd for p in points) else " One seed each."
        )
    if shares and (reference := m.reference_of(records[0])):
        whose = "the teacher’s" if reference.role == "teacher" else f"“{reference.title}”’s"
        line = "Thin lines" if len(shares) > 1 else "Thin line"
        caption += f" {line}: {n.listed([level.label for level in shares])} of {whose} {metric.title}."
    return caption + (" The best of each size is named, the others when pointed at." if len(points) > NAMED else "")


def _shares(records: Sequence[Record], points: Sequence[plots.Point]) -> list[plots.ReferenceLine]:
    """97 and 95 % of what the reference reaches, where all have the same one and more is better."""
    metric, heights = n.primary(records[0]), [p.y for p in points]
    of_all = [n.quality(arm, metric.name) for record in records if (arm := m.reference_of(record))]
    whole = n.in_common([round(found.mean, 9) for found in of_all if found], 0.0)
    if not metric.higher_is_better or whole <= 0 or not any(map(m.is_frontier, records)):
        return []
    levels = [plots.ReferenceLine(charts.factor(metric) * s * whole, n.percent(s, 0), "teacher") for s in SHARES]
    return [level for level in levels if level.is_near(heights)]


def _legend(records: Sequence[Record], points: Sequence[plots.Point], front: Sequence[object]) -> Legend:
    shown, lines = {p.tone for p in points}, []
    if any(p.origin for p in points):
        lines.append((svg.line_swatch("chain"), "made from"))
    if front:
        lines.append((svg.line_swatch("front"), "frontier: nothing is better in both"))
    entries = [(svg.swatch(tone), name) for tone, name in _ROLE_NAMES.items() if tone in shown]
    if len(records) == 1 and records[0].kind != "compare":
        start = m.reference_of(records[0])
        named = [arm for arm in m.models(records[0]) if n.quality(arm, records[0].metric)]
        named = [arm for arm in named if not m.artifact_of(records[0], arm) or (start and arm.name == start.name)]
        became = {STEP if one.step else EXPORT for one in records[0].artifacts}
        kinds = [(svg.swatch(tone), _ROLE_NAMES[tone]) for tone in (STEP, EXPORT) if tone in shown & became]
        entries = [*charts.legend_of(records[0], named), *kinds]
    return (*entries, *lines)
