"""The charts of a Record: models beside each other on the test split, and latency by length.

Each is drawn twice, for a desk and for a phone, so that its letters keep their size. `frontier`, `curves` and `answers`
have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Record
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report import plots
from limbeck.report.figures import Spread
from limbeck.report.svg import Canvas, swatch

WIDE, NARROW = Canvas(480, 300), Canvas(310, 260)
CANVASES = (WIDE, NARROW)  # a figure is drawn on both, and the page shows the one that fits
OTHERS = ("other-1", "other-2", "other-3", "other-4", "other-5", "other-6")
STEP, EXPORT = "other-5", "other-1"  # tones of what became of a model
MANY = 5  # arms from which a list in order reads better than a cloud of marks

Legend = tuple[tuple[Markup, str], ...]


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    wide: Markup
    narrow: Markup
    legend: Legend = ()
    beside: tuple[Figure, ...] = ()  # drawn next to it, under the same title, legend and caption


def figure_of(title: str, caption: str, pictures: Sequence[Markup], legend: Legend = ()) -> Figure:
    """The pictures are those on CANVASES."""
    wide, narrow = pictures
    return Figure(title, caption.strip(), wide, narrow, legend)


def tones(record: Record) -> dict[str, str]:
    """A colour and shape for each arm: that of its role, or a spare one when the role has one already. What became of
    an arm has that of a pass or of an export."""
    roles: dict[str, str] = {arm.name: "student" if arm.role == "model" else arm.role for arm in record.arms}
    became = {m.row_name(one): STEP if one.step else EXPORT for one in record.artifacts}
    if (start := m.reference_of(record)) and m.is_frontier(record):
        (became if start.name in became else roles)[start.name] = "teacher"
    if record.kind == "compare":  # more arms than colours: the role is shown, and names tell the arms apart
        return roles | became
    chosen: dict[str, str] = {}
    for name, role in roles.items():
        taken = {*chosen.values(), *became.values()}
        spare = [tone for tone in OTHERS if tone not in taken] or [OTHERS[-1]]
        chosen[name] = role if role not in chosen.values() else spare[0]
    return chosen | became


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


def floor_level(record: Record) -> plots.ReferenceLine | None:
    """What needs no model, on the axis of the primary metric."""
    value, metric = record.floor.quality.get(record.metric) if record.floor else None, n.primary(record)
    if record.floor is None or not n.known(value):
        return None
    return plots.ReferenceLine(factor(metric) * value, record.floor.title, "floor", n.score(metric, value))


def wide_range(metric: Metric, values: Sequence[float]) -> bool:
    """Whether an axis needs logarithms: a perplexity may begin a thousand times higher than it ends."""
    return metric.unit == "perplexity" and bool(values) and max(values) > 5 * min(values) > 0


def factor(metric: Metric) -> int:
    """Shares are drawn in per cent."""
    return 100 if metric.unit == "share" else 1


def scaled(metric: Metric, figure: Spread) -> Spread:
    return Spread(tuple(factor(metric) * value for value in figure.values))


def standing(record: Record) -> Figure | None:
    """The models in order of their quality, where there are many; texts without labels give none."""
    metric, teacher, tone = n.primary(record), n.teacher_of(record), tones(record)
    scored = [
        (arm, figure) for arm in n.by_quality(record, m.models(record)) if (figure := n.quality(arm, metric.name))
    ]
    many = len(scored) - len(m.artifacts(record)) >= MANY  # what became of an arm has its place in the frontier
    if not scored or not (many or record.kind == "compare"):
        return None
    rows = []
    for arm, figure in scored:
        score, drawn = n.score(metric, figure.mean, figure.sd), scaled(metric, figure)
        rows.append(plots.Value(arm.title, drawn.mean, score, tone[arm.name], drawn.values, drawn.sd))
    level = next((row.value for row, (arm, _) in zip(rows, scored, strict=True) if arm is teacher), None)
    title = n.opening(f"{metric.title} of every model")
    words = f"{title}, the best first: " + ", ".join(f"{row.label} {row.text}" for row in rows)
    axis, floor = axis_of(metric, tested(record), [row.value for row in rows]), floor_level(record)
    levels = [plots.ReferenceLine(level, "teacher", "teacher")] if level is not None else []
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


def lengths(record: Record) -> Figure | None:
    """Latency by the length of the text, of models timed side by side."""
    tone, rows = tones(record), [arm for arm in record.arms if arm.speed and len(arm.speed.by_length) > 1]
    if not rows or record.kind != "bench":
        return None
    lines = [
        plots.Line(tuple((at.tokens, at.p50_ms) for at in arm.speed.by_length), tone[arm.name], dots=True)
        for arm in rows
        if arm.speed
    ]
    axis = plots.Axis("milliseconds, median", log=True)
    told = (f"{arm.title}: {n.milliseconds(arm.speed.by_length[-1].p50_ms)}" for arm in rows if arm.speed)
    words = f"Latency by length. At the longest, {'; '.join(told)}"
    drawn = [plots.line_chart(lines, None, "tokens", axis, canvas, words) for canvas in CANVASES]
    caption = f"One {n.timed_unit([record])} at a time, of as many tokens."
    return figure_of("Latency by length", caption, drawn, legend_of(record, rows))
