"""The charts of a Record: what was traded for what, and models beside each other on the test split.

Each is drawn twice, for a desk and for a phone, so that its letters keep their size. `curves` and `answers` have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Record
from limbeck.report import figures as n
from limbeck.report import plots
from limbeck.report.figures import Spread
from limbeck.report.svg import Canvas, swatch

WIDE, NARROW = Canvas(480, 300), Canvas(310, 260)
CANVASES = (WIDE, NARROW)  # a figure is drawn on both, and the page shows the one that fits
OTHERS = ("other-1", "other-2", "other-3", "other-4", "other-5", "other-6")
_ROLE_NAMES = {
    "teacher": "teacher",
    "student": "with a teacher",
    "baseline": "without a teacher",
    "other-1": "model",
}
MANY = 5  # arms from which a list in order reads better than a cloud of marks
NAMED = 24  # marks of a chart that have room for names; of more, the best are named

Legend = tuple[tuple[Markup, str], ...]


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    wide: Markup
    narrow: Markup
    legend: Legend = ()


def figure_of(title: str, caption: str, pictures: Sequence[Markup], legend: Legend = ()) -> Figure:
    """The pictures are those on CANVASES."""
    wide, narrow = pictures
    return Figure(title, caption.strip(), wide, narrow, legend)


def tones(record: Record) -> dict[str, str]:
    """A colour and shape for each arm: that of its role, or a spare one when the role has one already."""
    roles: dict[str, str] = {arm.name: "student" if arm.role == "model" else arm.role for arm in n.models(record)}
    if record.kind == "compare":  # more arms than colours: the role is shown, and names tell the arms apart
        return roles
    chosen: dict[str, str] = {}
    for name, role in roles.items():
        spare = [tone for tone in OTHERS if tone not in chosen.values()] or [OTHERS[-1]]
        chosen[name] = role if role not in chosen.values() else spare[0]
    return chosen


def swatches(record: Record) -> dict[str, Markup]:
    return {name: swatch(tone) for name, tone in tones(record).items()}


def legend_of(record: Record, arms: Sequence[Arm]) -> Legend:
    marks = swatches(record)
    return tuple((marks[arm.name], arm.title) for arm in arms)


def axis_of(metric: Metric, split: str, values: Sequence[float] = ()) -> plots.Axis:
    """The axis of a metric on one split: dev and test figures never share one."""
    title = f"{split} {metric.title}".strip() + (", %" if metric.unit == "share" else "")
    ends = {"share": (0.0, 100.0), "hundred": (0.0, 100.0)}.get(metric.unit)
    return plots.Axis(
        title if metric.higher_is_better else f"{title}, lower is better",
        log=wide_range(metric, values),
        least=1.0 if ends else 0.0,
        **({"ends": ends} if ends else {}),
    )


def tested(record: Record) -> str:
    """What the split is called on which models were scored; a file that a person names has no such name."""
    return "" if record.kind in ("eval", "bench") else "test"


def floor_level(record: Record) -> plots.Level | None:
    """What needs no model, on the axis of the primary metric."""
    value, metric = record.floor.quality.get(record.metric) if record.floor else None, n.primary(record)
    if record.floor is None or not n.known(value):
        return None
    return plots.Level(factor(metric) * value, record.floor.title, "floor", n.score(metric, value))


def wide_range(metric: Metric, values: Sequence[float]) -> bool:
    """Whether an axis needs logarithms: a perplexity may begin a thousand times higher than it ends."""
    return metric.unit == "perplexity" and bool(values) and max(values) > 5 * min(values) > 0


def factor(metric: Metric) -> int:
    """Shares are drawn in per cent."""
    return 100 if metric.unit == "share" else 1


def scaled(metric: Metric, figure: Spread) -> Spread:
    return Spread(tuple(factor(metric) * value for value in figure.values))


# What was traded for what.


def trade_offs(records: Sequence[Record]) -> list[Figure]:
    """Size against quality and latency against quality, all models of all records; a pair for each kind of quality."""
    figures = []
    for kind in dict.fromkeys(map(_kind_of_quality, records)):
        same = [record for record in records if _kind_of_quality(record) == kind]
        metric = n.primary(same[0])
        shared = any(metric.name == record.metric and kind != _kind_of_quality(record) for record in records)
        name = f"{metric.title} ({kind[1]})" if shared else metric.title
        for cost, x_title in (
            ("Size", "megabytes on disk"),
            ("Latency", f"milliseconds per {n.timed_unit(same)}, median"),
        ):
            points = [point for record in same for point in _points(record, cost, alone=len(records) == 1)]
            if len(points) > 1:  # a single one shows nothing that the table does not
                timing = _timing(same) if cost == "Latency" else ""
                figures.append(_trade_off(f"{cost} against {name}", x_title, metric, points, same, timing))
    return figures


def _kind_of_quality(record: Record) -> tuple[str, str]:
    """The perplexity of masked tokens and that of next tokens share a name and no scale."""
    return record.metric, record.task.tag if record.task.level != "text" else ""


def _timing(records: Sequence[Record]) -> str:
    if records[0].task.level != "vocabulary":
        return ""
    how = f", {n.decoding(records)}" if n.units(records[0]).decoded else ""
    return f" Timed: one {n.timed(records)}{how}."


def _points(record: Record, cost: str, alone: bool) -> list[plots.Point]:
    """A point for each model. Beside other runs, colour tells the role and the name tells the run."""
    points, metric, tone, subject = [], n.primary(record), tones(record), n.subject_of(record)
    for arm in n.models(record):
        y = n.quality(arm, record.metric)
        if y is None:
            continue
        if cost == "Size" and arm.size:
            x, unit = arm.size.bytes_on_disk / 1e6, n.megabytes(arm.size.bytes_on_disk)
        elif cost == "Latency" and arm.speed:
            x, unit = arm.speed.p50_ms, n.milliseconds(arm.speed.p50_ms)
        else:
            continue
        drawn, tip = scaled(metric, y), f"{arm.title}\n{n.score(metric, y.mean, y.sd)} · {unit}"
        point = plots.Point(x, drawn.mean, tone[arm.name], _short(arm.title), tip, sd=drawn.sd)
        if alone and record.kind == "compare":
            point = replace(point, sd=None)
        elif alone:
            point = replace(point, seeds=drawn.values if len(drawn.values) > 1 else ())
        else:
            role = "other-1" if arm.role == "model" else arm.role
            other = arm.role != "teacher" and arm is not subject
            name = f"{record.name}: {arm.title}" if other else record.name
            if arm.role == "teacher" and len(record.arms) > 1:
                name = "teacher"
            chain = record.name if arm is subject or arm is n.teacher_of(record) else ""
            point = replace(point, tone=role, label=_short(name), tip=f"{record.name}: {tip}", chain=chain)
        points.append(point)
    return points


def _named(points: Sequence[plots.Point], metric: Metric) -> list[plots.Point]:
    """Every mark with its name; where they are too many for that, the best of each size."""
    if len(points) <= NAMED:
        return list(points)
    pick = max if metric.higher_is_better else min
    best = {p.x: pick((q for q in points if q.x == p.x), key=lambda q: q.y) for p in points}
    return [p if p is best[p.x] else replace(p, label="") for p in points]


def _short(name: str, longest: int = 28) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _trade_off(
    title: str, x_title: str, metric: Metric, points: Sequence[plots.Point], records: Sequence[Record], timing: str
) -> Figure:
    single = len(records) == 1 and not any(p.chain for p in points)
    alone = single and records[0].kind != "compare"
    words = f"{title}. " + "; ".join(p.tip.replace("\n", " ") for p in points[:12])  # for those who cannot see it
    points = _named(points, metric)
    axis, floors = axis_of(metric, _common_split(records), [p.y for p in points]), list(map(floor_level, records))
    level = n.in_common(floors, None)
    caption = f"Better lies {'up' if metric.higher_is_better else 'down'} and to the left. "
    caption += "Faint dots are single seeds. " if any(p.seeds for p in points) else ""
    if alone or not single:
        caption += "Whiskers are one standard deviation over seeds." if any(p.sd for p in points) else "One seed each."
    else:
        caption += "Marks are means over seeds."
    caption += " The best of each size is named, the others when pointed at." if len(points) > NAMED else ""
    shown = {p.tone for p in points}
    legend = tuple((swatch(tone), name) for tone, name in _ROLE_NAMES.items() if tone in shown)
    if alone:
        legend = legend_of(records[0], [arm for arm in n.models(records[0]) if n.quality(arm, metric.name)])
    return figure_of(
        title,
        caption + timing,
        [plots.scatter(points, x_title, axis, canvas, words, alone, level) for canvas in CANVASES],
        legend,
    )


def _common_split(records: Sequence[Record]) -> str:
    return n.in_common(map(tested, records), "")


# Arms beside each other.


def standing(record: Record) -> Figure | None:
    """The models in order of their quality, where there are many; texts without labels give none."""
    metric, teacher, tone = n.primary(record), n.teacher_of(record), tones(record)
    scored = [
        (arm, figure) for arm in n.by_quality(record, n.models(record)) if (figure := n.quality(arm, metric.name))
    ]
    if not scored or (len(scored) < MANY and record.kind != "compare"):
        return None
    rows = []
    for arm, figure in scored:
        score, drawn = n.score(metric, figure.mean, figure.sd), scaled(metric, figure)
        rows.append(plots.Value(arm.title, drawn.mean, score, tone[arm.name], drawn.values, drawn.sd))
    level = next((row.value for row, (arm, _) in zip(rows, scored, strict=True) if arm is teacher), None)
    title = n.opening(f"{metric.title} of every model")
    words = f"{title}, the best first: " + ", ".join(f"{row.label} {row.text}" for row in rows)
    axis, floor = axis_of(metric, tested(record), [row.value for row in rows]), floor_level(record)
    levels = [plots.Level(level, "teacher", "teacher")] if level is not None else []
    caption = "The best first. "
    caption += "Faint dots are single seeds. " if any(len(row.seeds) > 1 for row in rows) else "One seed each. "
    caption += "The dashes are the teacher. " if levels else ""
    if floor:
        near = floor.is_near([row.value for row in rows])
        caption += f"{'Grey dashes' if near else 'Beyond the axis'}: {floor.label}, {floor.text}."
        levels.append(floor)
    return figure_of(title, caption, [plots.dots(rows, axis, canvas.width, words, levels) for canvas in CANVASES])


def differences(record: Record) -> Figure | None:
    """The comparisons, each with its interval; one that holds zero proves nothing."""
    titles, tone = {arm.name: arm.title for arm in record.arms}, tones(record)
    in_order = sorted(record.comparisons, key=lambda c: [*titles, c.better].index(c.better))  # as in the table
    if not in_order:
        return None
    first, rows = in_order[0], []
    metric = n.metric_named(record, first.metric)
    for c in (c for c in in_order if c.metric == first.metric):
        # The title of a comparison says against whom.
        than = "" if record.kind == "compare" else f" − {titles.get(c.than, c.than)}"
        middle, low, high = (factor(metric) * value for value in (c.difference, c.low, c.high))
        text = n.difference(metric, c.difference)
        name = titles.get(c.better, c.better) + than
        rows.append(plots.Interval(name, middle, low, high, text, tone.get(c.better, "student")))
    x_title = f"points of {tested(record)} {metric.title}" if metric.unit == "share" else metric.title
    axis = plots.Axis(x_title, least=1.0 if metric.unit in ("share", "hundred") else 0.01)
    listed = "; ".join(f"{row.label}: {row.text}, from {row.low:.2f} to {row.high:.2f}" for row in rows)
    words = f"Paired differences. {listed}"
    over = n.plural(first.rows, f"test {n.units(record).row}")
    caption = (
        f"Paired difference on {over}, {n.plural(first.seeds, 'seed')}, "
        f"with its {100 * first.confidence:.4g}{n.GAP}% interval. An interval that holds 0 proves nothing."
    )
    if not metric.higher_is_better:
        caption += f" Lower {metric.title} is better: left of 0, the first one wins."
    titles_of_kinds = {"distill": "Did distillation help?", "compare": "Gain over no teacher"}
    title = titles_of_kinds.get(record.kind, "Paired differences")
    return figure_of(title, caption, [plots.intervals(rows, axis, canvas.width, words) for canvas in CANVASES])
