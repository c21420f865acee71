"""Kinds of chart: scatter, lines, bars, intervals, rows of dots. Pure functions from numbers to SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limbeck.report import svg

TICK_ROOM = 90  # pixels for a tick of a horizontal axis
DOT_ROW, INTERVAL_ROW = 38.0, 60.0  # heights


@dataclass(frozen=True)
class Point:
    """A mean with its seeds. `chain` joins points that belong together by a thin line."""

    x: float
    y: float
    tone: str
    label: str = ""
    tip: str = ""
    seeds: tuple[float, ...] = ()
    sd: float | None = None
    chain: str = ""


@dataclass(frozen=True)
class Line:
    points: tuple[tuple[float, float], ...]
    tone: str
    faint: bool = False
    tip: str = ""
    ring: tuple[float, float] | None = None  # a point worth a mark of its own


@dataclass(frozen=True)
class Level:
    """A horizontal dashed line with its name."""

    y: float
    label: str
    tone: str


@dataclass(frozen=True)
class Value:
    """A figure beside its name: a bar, or a dot with its seeds and their spread."""

    label: str
    value: float
    text: str
    tone: str
    seeds: tuple[float, ...] = ()
    sd: float | None = None


@dataclass(frozen=True)
class Interval:
    label: str
    middle: float
    low: float
    high: float
    text: str
    tone: str


@dataclass(frozen=True)
class Axes:
    """The plotting area and its two scales."""

    x: svg.Scale
    y: svg.Scale
    parts: tuple[str, ...]

    @property
    def box(self) -> svg.Box:
        return svg.Box(self.x.start, self.y.end, self.x.end, self.y.start)


def axes(
    canvas: svg.Canvas,
    xs: tuple[float, float, bool],
    ys: tuple[float, float],
    x_title: str,
    y_title: str,
    whole: bool = False,
    log: bool = False,
) -> Axes:
    """The vertical axis is named above itself, where the name needs no turning."""
    y = svg.Scale(*ys, canvas.height - 42, 26, log)
    y_ticks = y.ticks(int(canvas.height / 48))
    left = max(svg.text_width(label) for _, label in y_ticks) + 10
    x = svg.Scale(xs[0], xs[1], left, canvas.width - 8, xs[2])
    parts = [svg.text(0, 11, y_title, kind="axis"), svg.text(x.end, canvas.height - 6, x_title, "end", "axis")]
    for tick, label in y_ticks:
        parts.append(svg.element("line", x1=x.start, x2=x.end, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(svg.text(left - 8, y(tick) + 4, label, "end"))
    for tick, label in x.ticks(max(2, int(canvas.width / TICK_ROOM)), whole):
        parts.append(svg.element("line", x1=x(tick), x2=x(tick), y1=y.start, y2=y.start + 4, class_="rule"))
        parts.append(svg.text(x(tick), y.start + 18, label, "middle"))
    parts.append(svg.element("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="rule"))
    return Axes(x, y, tuple(parts))


def scatter(
    points: Sequence[Point],
    x_title: str,
    y_title: str,
    canvas: svg.Canvas,
    title: str,
    apart: bool = True,
    log: bool = False,
) -> Markup:
    """Every mean a marker, every seed a faint dot beside it, one standard deviation up and down as a whisker."""
    heights = [y for p in points for y in (p.y, *p.seeds, p.y + (p.sd or 0), p.y - (p.sd or 0))]
    plot = axes(canvas, svg.from_zero([p.x for p in points]), svg.span(heights, log), x_title, y_title, log=log)
    pixels = [plot.x(p.x) for p in points]
    xs = dodge(pixels) if apart else pixels
    under, over, marks, labels = list(_chains(points, xs, plot)), [], [], []
    for p, x in zip(points, xs, strict=True):
        y, top, bottom = (plot.y(value) for value in (p.y, p.y + (p.sd or 0), p.y - (p.sd or 0)))
        if p.sd:
            path = f"M{x - 4:.1f} {top:.1f}h8M{x:.1f} {top:.1f}V{bottom:.1f}M{x - 4:.1f} {bottom:.1f}h8"
            under.append(svg.element("path", d=path, class_=f"whisker tone-{p.tone}"))
        under += [svg.element("circle", cx=x - 9, cy=plot.y(s), r=3, class_=f"seed tone-{p.tone}") for s in p.seeds]
        over.append(svg.mark(x, y, p.tone, p.tip))
        marks.append(svg.Box(x - (13 if p.seeds else 7), min(top, y - 7), x + 7, max(bottom, y + 7)))
        if p.label:
            labels.append(svg.Label(x, y, p.label, p.tone))
    names = [
        svg.text(at.x, at.y, at.label.text, at.anchor, f"name tone-{at.label.tone}")
        for at in svg.place(labels, marks, plot.box)
    ]
    return svg.picture([*plot.parts, *under, *over, *names], canvas, title)


def dodge(pixels: Sequence[float], near: float = 10.0) -> list[float]:
    """Sets marks that share an x side by side, each `near` from the next, in the order of their values."""
    groups: list[list[int]] = []
    for i in sorted(range(len(pixels)), key=lambda i: pixels[i]):
        if groups and pixels[i] - pixels[groups[-1][0]] < near:
            groups[-1].append(i)
        else:
            groups.append([i])
    moved = list(pixels)
    for group in groups:
        centre = sum(pixels[i] for i in group) / len(group)
        for position, i in enumerate(group if len(group) > 1 else []):
            moved[i] = centre + near * (position - (len(group) - 1) / 2)
    return moved


def _chains(points: Sequence[Point], xs: Sequence[float], plot: Axes) -> Iterator[str]:
    for chain in dict.fromkeys(p.chain for p in points if p.chain):
        path = [f"{x:.1f},{plot.y(p.y):.1f}" for p, x in zip(points, xs, strict=True) if p.chain == chain]
        if len(path) > 1:
            yield svg.element("polyline", points=" ".join(path), class_="chain")


def line_chart(
    lines: Sequence[Line],
    levels: Sequence[Level],
    x_title: str,
    y_title: str,
    canvas: svg.Canvas,
    title: str,
    log: bool = False,
    ends: tuple[float, float] | None = None,
) -> Markup:
    """Lines over steps or epochs; means are strong, single seeds faint. `ends` are those of a scale that is shared."""
    xs = [x for line in lines for x, _ in line.points]
    heights = [y for line in lines for _, y in line.points] + [level.y for level in levels]
    low, high = min(0.0, *xs), max(xs)
    ends = ends or svg.span(heights, log, 0.12)
    plot = axes(canvas, (low, high if high > low else low + 1, False), ends, x_title, y_title, True, log)
    parts = list(plot.parts)
    for level in levels:
        y = plot.y(level.y)
        parts.append(svg.element("line", x1=plot.x.start, x2=plot.x.end, y1=y, y2=y, class_=f"level tone-{level.tone}"))
        parts.append(svg.text(plot.x.start + 4, y - 6, level.label, kind=f"name tone-{level.tone}"))
    for line in sorted(lines, key=lambda line: not line.faint):
        path = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in line.points)
        kind = f"{'faint' if line.faint else 'strong'} tone-{line.tone}"
        parts.append(svg.element("polyline", points=path, class_=f"line {kind}"))
        if line.ring:
            cx, cy = plot.x(line.ring[0]), plot.y(line.ring[1])
            parts.append(svg.element("circle", tip=line.tip, cx=cx, cy=cy, r=3.5, class_=f"mark ring tone-{line.tone}"))
    return svg.picture(parts, canvas, title)


def bars(groups: Sequence[tuple[str, Sequence[Value]]], top: float, width: float, title: str) -> Markup:
    """Horizontal bars in named groups; each bar carries its name above and its value at its end."""
    parts: list[str] = []
    room = max(svg.text_width(bar.text) for _, group in groups for bar in group) + 8
    y = 0.0
    for name, group in groups:
        if name:
            parts.append(svg.text(0, y + 12, svg.fitted(name, width), kind="axis"))
            y += 22
        for bar in group:
            length = max(1.0, (width - room) * bar.value / top)
            parts.append(svg.text(0, y + 11, svg.fitted(bar.label, width)))
            parts.append(svg.element("rect", x=0, y=y + 17, width=width - room, height=8, rx=1, class_="track"))
            parts.append(
                svg.element("rect", x=0, y=y + 17, width=length, height=8, rx=1, class_=f"bar tone-{bar.tone}")
            )
            parts.append(svg.text(width, y + 25, bar.text, "end", "value"))
            y += 36
        y += 10
    return svg.picture(parts, svg.Canvas(width, y - 10), title)


def intervals(rows: Sequence[Interval], x_title: str, width: float, title: str) -> Markup:
    """Differences with their intervals, and the zero they must clear to mean something."""
    x = svg.Scale(*svg.padded([0.0, *(v for row in rows for v in (row.low, row.high))], 0.08), 4, width - 4)
    floor = INTERVAL_ROW * len(rows) + 2
    parts = list(_bottom_axis(x, x_title, 22.0, floor, width, zero="zero"))
    for i, row in enumerate(rows):
        y, half = INTERVAL_ROW * i + 46, svg.text_width(row.text) / 2
        tip = f"{row.label}\n{row.text}"
        parts.append(svg.text(0, y - 35, svg.fitted(row.label, width), kind="halo"))
        parts.append(svg.text(min(max(x(row.middle), half), width - half), y - 11, row.text, "middle", "value halo"))
        parts.append(svg.element("line", x1=x(row.low), x2=x(row.high), y1=y, y2=y, class_=f"interval tone-{row.tone}"))
        parts.append(svg.element("circle", tip=tip, cx=x(row.middle), cy=y, r=5.0, class_=f"mark tone-{row.tone}"))
    return svg.picture(parts, svg.Canvas(width, floor + 40), title)


def dots(
    rows: Sequence[Value], x_title: str, width: float, title: str, level: float | None = None, log: bool = False
) -> Markup:
    """Each model on a line of its own, in the order given, on one axis; `level` is marked beside each of them."""
    reach = [v for row in rows for v in (*row.seeds, row.value - (row.sd or 0), row.value + (row.sd or 0))]
    x = svg.Scale(*svg.span(reach, log), 4, width - 4, log)
    floor = DOT_ROW * len(rows) + 4
    parts = list(_bottom_axis(x, x_title, 0.0, floor, width))
    for i, row in enumerate(rows):
        top, tone = DOT_ROW * i, f"tone-{row.tone}"
        y, room = top + 25, svg.text_width(row.text) + 12
        if level is not None:
            parts.append(svg.element("line", x1=x(level), x2=x(level), y1=y - 8, y2=y + 8, class_="level tone-teacher"))
        parts.append(svg.text(0, top + 12, svg.fitted(row.label, width - room), kind="halo"))
        parts.append(svg.text(width, top + 12, row.text, "end", "value halo"))
        if row.sd:
            left, right = x(row.value - row.sd), x(row.value + row.sd)
            parts.append(svg.element("line", x1=left, x2=right, y1=y, y2=y, class_=f"whisker {tone}"))
        if len(row.seeds) > 1:
            parts += [svg.element("circle", cx=x(seed), cy=y, r=3, class_=f"seed {tone}") for seed in row.seeds]
        parts.append(svg.mark(x(row.value), y, row.tone, f"{row.label}\n{row.text}", radius=4.5))
    return svg.picture(parts, svg.Canvas(width, floor + 40), title)


def _bottom_axis(x: svg.Scale, title: str, top: float, floor: float, width: float, zero: str = "grid") -> Iterator[str]:
    """The axis of rows: its lines run through all of them, from `top` to `floor`."""
    yield svg.text(x.end, floor + 36, title, "end", "axis")
    for tick, label in x.ticks(max(2, int(width / TICK_ROOM))):
        kind = "grid" if tick else zero
        yield svg.element("line", x1=x(tick), x2=x(tick), y1=top, y2=floor, class_=kind)
        yield svg.text(min(max(x(tick), 10), width - 10), floor + 16, label, "middle")
