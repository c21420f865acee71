"""docs/truncated.md and its picture: how many words of a teacher to keep, and in which form, from one Record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from limbeck.core.card import card_of
from limbeck.core.metric import metric_of
from limbeck.core.record import Arm, Comparison, Record
from limbeck.core.task import TaskInfo
from limbeck.objectives import Truncated
from limbeck.report import figures as n
from limbeck.report import plots, svg
from limbeck.report.charts import axis_of
from limbeck.report.figures import Spread, fidelity, of_role, quality, seconds

TASK = TaskInfo(kind="mask-fill")
METRIC = metric_of(TASK, "perplexity")
FORMS = {"tail": ("tail bucket", "student"), "renorm": ("renormalised", "other-1")}  # name and tone
LEVELS = {"full": ("whole softmax", "other-2"), "none": ("no teacher", "baseline")}
PLOT, SIDE, GAP, MARGIN, LEGEND = svg.Canvas(470, 330), 290.0, 44.0, 16.0, 26.0
_KEPT = re.compile(r"(?P<form>tail|renorm)-(?P<k>\d+)")


def page(record: Record) -> str:
    text = card_of(Truncated()).text.split("\n\nHow large a k")[0]
    parts = [
        "# Truncated softmax",
        text,
        "The temperature, and every knob: [methods](methods.md#truncated).",
        "## How many words to keep",
        f"{_setting(record)} Mean ± one standard deviation over the seeds.",
        "![Perplexity, bytes and seconds by the number of words kept](truncated.svg)",
        "Faint dots are single seeds; dashes are the same student without a teacher, and with the whole softmax.",
        "\n".join(table(record)),
        "Perplexity, calibration error and agreement are about the hidden words of the test blocks. Bytes are those of "
        "the teacher's answers on disk, per token asked about; the whole softmax is too large to keep, so its teacher "
        "is asked at every step.",
        "## Compared",
        *_compared(record),
        "## How it was measured",
        "\n".join(f"- {note}" for note in (*record.notes, _machine(record))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _setting(record: Record) -> str:
    teacher, student = of_role(record, "teacher"), of_role(record, "student")
    shapes = [f"{arm.shape.layers} layers × {arm.shape.hidden}" for arm in (teacher, student) if arm and arm.shape]
    who = f"a teacher of {shapes[0]} and a student of {shapes[1]}" if len(shapes) > 1 else "one teacher, one student"
    split = record.data.splits.get("train")
    on = f" on {n.plural(split.rows, 'block')} of text" if split else ""
    return f"Masked words: {who}, trained{on}, {n.plural(len(record.seeds), 'seed')}."


def _compared(record: Record) -> Iterator[str]:
    for metric in dict.fromkeys(comparison.metric for comparison in record.comparisons):
        yield f"By {metric_of(TASK, metric).title}:"
        yield "\n".join(f"- {told(record, each)}" for each in record.comparisons if each.metric == metric)


def _machine(record: Record) -> str:
    machine = record.machine
    return f"made by `{record.command}` on {machine.processor}, {n.plural(machine.cores, 'core')}"


def told(record: Record, comparison: Comparison) -> str:
    """Its sentence, with titles for the names of arms."""
    sentence = comparison.sentence
    for arm in record.arms:
        sentence = sentence.replace(f"“{arm.name}”", f"“{arm.title}”")
    return sentence


def table(record: Record) -> Iterator[str]:
    columns: dict[str, Callable[[Arm], str]] = {
        "perplexity": lambda arm: _score(quality(arm, METRIC.name), METRIC.name),
        "calibration error": lambda arm: _score(quality(arm, "token_ece"), "token_ece"),
        "agrees with teacher": lambda arm: _score(fidelity(arm, "agreement"), "agreement"),
        "downstream accuracy": lambda arm: _score(quality(arm, "accuracy"), "accuracy"),
        "bytes per token": lambda arm: _or_nothing(bytes_of(record, arm)),
        "seconds of training": lambda arm: _or_nothing(seconds_of(record, arm)),
    }
    yield f"| model | {' | '.join(columns)} |"
    yield "|---" + "|---:" * len(columns) + "|"
    for arm in record.arms:
        yield f"| {arm.title} | {' | '.join(cell(arm) for cell in columns.values())} |"


def _score(found: Spread | None, metric: str) -> str:
    return n.score(metric_of(TASK, metric), found.mean, found.sd) if found else n.NOTHING


def _or_nothing(value: float | None) -> str:
    return n.figure(value) if value else n.NOTHING


def bytes_of(record: Record, arm: Arm) -> float | None:
    kept = _KEPT.fullmatch(arm.name)
    return record.figures.get(f"bytes_per_token_{kept['k']}") if kept else None


def seconds_of(record: Record, arm: Arm) -> float | None:
    """Of an epoch where that was timed, else of the whole training."""
    found = seconds(arm)
    return record.figures.get(f"seconds_per_epoch_{arm.name}", found.mean if found else None)


def picture(record: Record) -> str:
    """One file that any page can show: it brings its own paper and style, for light and dark."""
    kept_bytes, took = bytes_bars(record), seconds_bars(record)
    panels = [(MARGIN, MARGIN, str(curve(record))), (MARGIN + PLOT.width + GAP, MARGIN, kept_bytes)]
    panels.append((MARGIN + PLOT.width + GAP, MARGIN + svg.height_of(kept_bytes) + 22, took))
    tall = max(y + svg.height_of(drawn) for _, y, drawn in panels) + MARGIN
    size = svg.Canvas(2 * MARGIN + PLOT.width + GAP + SIDE, tall)
    title = "The number of words kept against perplexity, bytes on disk and seconds of training"
    return svg.alone([svg.moved(drawn, x, y) for x, y, drawn in panels if drawn], size, title)


def curve(record: Record) -> str:
    """k against perplexity: a line for each form, a level for what keeps nothing and for what keeps all."""
    points = list(_points(record))
    levels = [(name, tone, found.mean) for name, tone, found in _levels(record)]
    heights = [y for p in points for y in (*p.seeds, p.y - (p.sd or 0), p.y + (p.sd or 0))] + [y for *_, y in levels]
    axis = axis_of(METRIC, "test", heights)
    widest = 1.1 * max(p.x for p in points)
    plot = plots.axes(PLOT, (0.0, widest, False), axis.span(heights), "words kept, k", axis, whole=True)
    parts = [*plot.parts, *_kept_ticks(points, plot)]
    for _, tone, y in levels:
        at = plot.y(y)
        parts.append(svg.element("line", x1=plot.x.start, x2=plot.x.end, y1=at, y2=at, class_=f"level tone-{tone}"))
    for tone in dict.fromkeys(p.tone for p in points):
        parts += _line([p for p in points if p.tone == tone], plot, aside=5.0 if tone == FORMS["renorm"][1] else -5.0)
    drawn = svg.element("g", "".join(parts), transform=f"translate(0 {LEGEND:g})")
    size = svg.Canvas(PLOT.width, PLOT.height + LEGEND)
    spoken = "; ".join([*(p.tip for p in points), *(f"{name}: {n.score(METRIC, y)}" for name, _, y in levels)])
    return svg.picture([*_legend(points, levels), drawn], size, f"Perplexity by the number of words kept. {spoken}")


def _kept_ticks(points: Sequence[plots.Point], plot: plots.Axes) -> Iterator[str]:
    """The values of k themselves, which round ticks miss."""
    for k in sorted({p.x for p in points}):
        x, floor = plot.x(k), plot.y.start
        yield svg.element("line", x1=x, x2=x, y1=floor, y2=floor + 4, class_="rule")
        yield svg.text(x, floor + 18, f"{k:g}", "middle", "value")


def _points(record: Record) -> Iterator[plots.Point]:
    for arm in record.arms:
        kept, found = _KEPT.fullmatch(arm.name), quality(arm, METRIC.name)
        if kept and found:
            name, tone = FORMS[kept["form"]]
            tip = f"{name}, k = {kept['k']}: {_score(found, METRIC.name)}"
            yield plots.Point(float(kept["k"]), found.mean, tone, name, tip, found.values, found.sd)


def _levels(record: Record) -> Iterator[tuple[str, str, Spread]]:
    for arm in record.arms:
        if arm.name in LEVELS and (found := quality(arm, METRIC.name)):
            yield (*LEVELS[arm.name], found)


def _line(points: Sequence[plots.Point], plot: plots.Axes, aside: float) -> Iterator[str]:
    """Marks of two forms at one k stand side by side, so that their whiskers can be told apart."""
    points = sorted(points, key=lambda p: p.x)
    path = " ".join(f"{plot.x(p.x) + aside:.1f},{plot.y(p.y):.1f}" for p in points)
    yield svg.element("polyline", points=path, class_=f"line strong tone-{points[0].tone}")
    for p in points:
        x, sd = plot.x(p.x) + aside, p.sd or 0.0
        if sd:
            ends = f"M{x:.1f} {plot.y(p.y - sd):.1f}V{plot.y(p.y + sd):.1f}"
            yield svg.element("path", d=ends, class_=f"whisker tone-{p.tone}")
        for seed in p.seeds if len(p.seeds) > 1 else ():
            yield svg.element("circle", cx=x + 2 * aside, cy=plot.y(seed), r=3, class_=f"seed tone-{p.tone}")
        yield svg.mark(x, plot.y(p.y), p.tone, p.tip)


def _legend(points: Sequence[plots.Point], levels: Sequence[tuple[str, str, float]]) -> Iterator[str]:
    """In a row: marks are named beside themselves only where values leave room, and these may not."""
    marks = [(name, svg.mark(8.0, 8.0, tone, radius=4.2)) for tone, name in {p.tone: p.label for p in points}.items()]
    dashes = [
        (name, svg.element("line", x1=0, x2=16, y1=8, y2=8, class_=f"level tone-{tone}")) for name, tone, _ in levels
    ]
    x = 0.0
    for name, drawn in (*marks, *dashes):
        yield svg.element("g", drawn + svg.text(22, 12, name), transform=f"translate({x:g} 0)")
        x += 22 + svg.text_width(name) + 14


def bytes_bars(record: Record) -> str:
    found = {int(kept["k"]): bytes_of(record, arm) for arm in record.arms if (kept := _KEPT.fullmatch(arm.name))}
    bars = [plots.Value(f"k = {k}", value, n.figure(value), "teacher") for k, value in sorted(found.items()) if value]
    return _bars("bytes per token on disk", bars)


def seconds_bars(record: Record) -> str:
    bars = [
        plots.Value(arm.title, value, n.figure(value), _tone(arm))
        for arm in record.arms
        if arm.role != "teacher" and (value := seconds_of(record, arm))
    ]
    return _bars("seconds of training", bars)


def _tone(arm: Arm) -> str:
    kept = _KEPT.fullmatch(arm.name)
    return FORMS[kept["form"]][1] if kept else LEVELS.get(arm.name, ("", "teacher"))[1]


def _bars(name: str, bars: Sequence[plots.Value]) -> str:
    return str(plots.bars([(name, bars)], max(bar.value for bar in bars), SIDE, name)) if bars else ""
