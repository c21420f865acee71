"""Kinds of chart: scatter, lines, bars, intervals, rows of dots, a grid. Pure functions from numbers to SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from limbeck.report import svg

TICK_ROOM = 90  # pixels for a tick of a horizontal axis
DOT_ROW, INTERVAL_ROW = 38.0, 60.0  # heights
FAR = 1.5  # times the range of the values
TALLER = 90.0  # pixels that a chart grows by until all names have a place


@dataclass(frozen=True)
class Axis:
    """What is measured along an axis, and how it is divided."""

    title: str
    log: bool = False
    least: float = 0.0  # the narrowest range
    ends: tuple[float, float] = (-math.inf, math.inf)  # beyond which there are no values

    def span(self, values: Sequence[float], share: float = 0.16) -> tuple[float, float]:
        low, high = svg.span(values, self.log, share, self.least)
        return max(low, self.ends[0]), min(high, self.ends[1])


@dataclass(frozen=True)
class Point:
    """A mean with its seeds. A thin line joins it with the point that has its `origin` as key."""

    x: float
    y: float
    tone: str
    label: str = ""
    tip: str = ""
    seeds: tuple[float, ...] = ()
    sd: float | None = None
    key: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Line:
    points: tuple[tuple[float, float], ...]
    tone: str
    faint: bool = False
    tip: str = ""
    ring: tuple[float, float] | None = None  # a point worth a mark of its own
    dots: bool = False  # whether all are
    band: tuple[tuple[float, float, float], ...] = ()  # x, lowest, highest: what the seeds cover


@dataclass(frozen=True)
class ReferenceLine:
    """A dashed line across the axis of values, with its name. Far from all values it would press them together: then
    an arrow at the edge points to it."""

    at: float
    label: str
    tone: str
    text: str = ""  # the value

    def is_near(self, values: Sequence[float]) -> bool:
        low, high = min(values), max(values)
        return low - FAR * (high - low) <= self.at <= high + FAR * (high - low)


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
    canvas: svg.Canvas, xs: tuple[float, float, bool], ys: tuple[float, float], x: str, y: Axis, whole: bool = False
) -> Axes:
    """The vertical axis is named above itself, where the name needs no turning."""
    up = svg.Scale(*ys, canvas.height - 42, 26, y.log)
    y_ticks = up.ticks(int(canvas.height / 48))
    left = max(svg.text_width(label) for _, label in y_ticks) + 10
    along = svg.Scale(xs[0], xs[1], left, canvas.width - 8, xs[2])
    parts = [svg.text(0, 11, y.title, kind="axis"), svg.text(along.end, canvas.height - 6, x, "end", "axis")]
    for tick, label in y_ticks:
        parts.append(svg.element("line", x1=along.start, x2=along.end, y1=up(tick), y2=up(tick), class_="grid"))
        parts.append(svg.text(left - 8, up(tick) + 4, label, "end"))
    for tick, label in along.ticks(max(2, int(canvas.width / TICK_ROOM)), whole):
        parts.append(svg.element("line", x1=along(tick), x2=along(tick), y1=up.start, y2=up.start + 4, class_="rule"))
        parts.append(svg.text(along(tick), up.start + 18, label, "middle"))
    parts.append(svg.element("line", x1=along.start, x2=along.end, y1=up.start, y2=up.start, class_="rule"))
    return Axes(along, up, tuple(parts))


def scatter(
    points: Sequence[Point],
    x: Axis,
    y: Axis,
    canvas: svg.Canvas,
    title: str,
    apart: bool = True,
    level: ReferenceLine | None = None,
    thin: Sequence[ReferenceLine] = (),
    edge: Sequence[Point] = (),
) -> Markup:
    """Every mean a marker with its name, every seed a faint dot beside it, one standard deviation up and down as a
    whisker; under them thin levels and the front. The chart grows until all names have a place."""
    heights = [height for p in points for height in (p.y, *p.seeds, p.y + (p.sd or 0), p.y - (p.sd or 0))]
    near = level is not None and level.is_near(heights)
    reach = [*heights, *(one.at for one in thin), *([level.at] if level and near else [])]
    plot = axes(canvas, svg.from_zero([p.x for p in points], x.log), y.span(reach), x.title, y)
    pixels = [plot.x(p.x) for p in points]
    xs = dodge(pixels, heights=[plot.y(p.y) for p in points] if x.log else ()) if apart else pixels
    under, over, marks, labels = [*_front(edge, plot), *_chains(points, xs, plot)], [], [], []
    for p, at in zip(points, xs, strict=True):
        middle, top, bottom = (plot.y(value) for value in (p.y, p.y + (p.sd or 0), p.y - (p.sd or 0)))
        if p.sd:
            path = f"M{at - 4:.1f} {top:.1f}h8M{at:.1f} {top:.1f}V{bottom:.1f}M{at - 4:.1f} {bottom:.1f}h8"
            under.append(svg.element("path", d=path, class_=f"whisker tone-{p.tone}"))
        under += [svg.element("circle", cx=at - 9, cy=plot.y(s), r=3, class_=f"seed tone-{p.tone}") for s in p.seeds]
        over.append(svg.mark(at, middle, p.tone, p.tip))
        marks.append(svg.Box(at - (13 if p.seeds else 7), min(top, middle - 7), at + 7, max(bottom, middle + 7)))
        if p.label:
            labels.append(svg.Label(at, middle, p.label, p.tone))
    drawn, taken = _level(level, plot, near) if level else ([], [])
    for one in thin:
        line, box = _thin(one, plot, [*marks, *taken])
        drawn, taken = [*drawn, *line], [*taken, box]
    placed = svg.place(labels, [*marks, *taken], plot.box)
    if {at.label.text for at in placed} < {label.text for label in labels} and canvas.height < 1.5 * canvas.width:
        taller = replace(canvas, height=canvas.height + TALLER)
        return scatter(points, x, y, taller, title, apart, level, thin, edge)
    return svg.picture([*plot.parts, *drawn, *under, *_leaders(placed), *over, *_names(placed)], canvas, title)


def front(points: Sequence[Point], higher: bool) -> list[Point]:
    """The points that none of the others beats or equals in both, by rising x."""
    best: list[Point] = []
    for p in sorted(points, key=lambda p: (p.x, -p.y if higher else p.y)):
        if not best or (p.y > best[-1].y if higher else p.y < best[-1].y):
            best.append(p)
    return best


def _front(edge: Sequence[Point], plot: Axes) -> Iterator[str]:
    """As a staircase: what lies on the far side of it is out of reach."""
    if len(edge) > 1:
        start, *rest = edge
        path = f"M{plot.x(start.x):.1f} {plot.y(start.y):.1f}"
        path += "".join(f"H{plot.x(p.x):.1f}V{plot.y(p.y):.1f}" for p in rest)
        yield svg.element("path", d=path, class_="front")


def _thin(level: ReferenceLine, plot: Axes, marks: Sequence[svg.Box]) -> tuple[list[str], svg.Box]:
    """A thin line with its name above it, at the first place from the right that no mark holds."""
    y, wide = plot.y(level.at), svg.text_width(level.label)
    places = [svg.Box(x - wide, y - svg.FONT, x, y - 1) for x in range(int(plot.x.end), int(plot.x.start + wide), -8)]
    free = next((box for box in places if not any(box.overlap(mark) for mark in marks)), places[0])
    line = svg.element("line", x1=plot.x.start, x2=plot.x.end, y1=y, y2=y, class_=f"share tone-{level.tone}")
    return [line, svg.text(free.right, y - 3, level.label, "end", "halo")], free


def _level(level: ReferenceLine, plot: Axes, near: bool) -> tuple[list[str], list[svg.Box]]:
    """The dashed line and its name, or an arrow at the edge; and the place that they take."""
    above = level.at > plot.y.high
    y = plot.y(level.at) if near else plot.y.end if above else plot.y.start
    lift = 16 if y < plot.y.end + 20 else -5
    words = " ".join(filter(None, ["" if near else "↑" if above else "↓", level.label, level.text]))
    words = svg.fitted(words, plot.x.end - plot.x.start - 8)
    start, width = plot.x.start + 4, svg.text_width(words)
    name = svg.text(start, y + lift, words, kind=f"name tone-{level.tone}")
    line = svg.element("line", x1=plot.x.start, x2=plot.x.end, y1=y, y2=y, class_=f"level tone-{level.tone}")
    return [line, name] if near else [name], [svg.Box(start, y + lift - svg.FONT, start + width, y + lift + 3)]


def _names(placed: Sequence[svg.Placed]) -> Iterator[str]:
    for at in placed:
        yield svg.text(at.x, at.y, at.label.text, at.anchor, f"name tone-{at.label.tone}")


def _leaders(placed: Sequence[svg.Placed]) -> Iterator[str]:
    """A line from each name that stands off to its mark."""
    for at in (at for at in placed if at.leader):
        x = min(max(at.label.x, at.box.left - 2), at.box.right - 2)  # where the name is nearest
        beside = not at.box.left <= x < at.box.right - 2
        y = at.y - 4 if beside else at.box.top if at.label.y < at.y else at.box.bottom
        kind = f"leader tone-{at.label.tone}"
        yield svg.element("line", x1=at.label.x, y1=at.label.y, x2=x, y2=y, class_=kind)


def dodge(pixels: Sequence[float], near: float = 10.0, heights: Sequence[float] = ()) -> list[float]:
    """Sets marks that share an x side by side, each `near` from the next, in the order of their values; where they have
    heights, only those that would cover each other."""
    groups: list[list[int]] = []
    for i in sorted(range(len(pixels)), key=lambda i: pixels[i]):
        last = groups[-1] if groups else []
        same = last and pixels[i] - pixels[last[0]] < near
        if same and (not heights or any(abs(heights[i] - heights[j]) < near for j in last)):
            last.append(i)
        else:
            groups.append([i])
    moved = list(pixels)
    for group in groups:
        centre = sum(pixels[i] for i in group) / len(group)
        for position, i in enumerate(group if len(group) > 1 else []):
            moved[i] = centre + near * (position - (len(group) - 1) / 2)
    return moved


def _chains(points: Sequence[Point], xs: Sequence[float], plot: Axes) -> Iterator[str]:
    places = {p.key: f"{x:.1f},{plot.y(p.y):.1f}" for p, x in zip(points, xs, strict=True)}
    for p in points:
        if p.origin in places:
            yield svg.element("polyline", points=f"{places[p.origin]} {places[p.key]}", class_="chain")


def line_chart(
    lines: Sequence[Line],
    level: ReferenceLine | None,
    x_title: str,
    y: Axis,
    canvas: svg.Canvas,
    title: str,
    ends: tuple[float, float] | None = None,
) -> Markup:
    """Lines over steps or epochs; means are strong, single seeds faint. `ends` are those of a scale that is shared."""
    xs = [x for line in lines for x, _ in line.points]
    heights = [height for line in lines for _, height in line.points] + ([level.at] if level else [])
    heights += [edge for line in lines for _, *edges in line.band for edge in edges]
    low, high = min(0.0, *xs), max(xs)
    plot = axes(canvas, (low, high if high > low else low + 1, False), ends or y.span(heights, 0.12), x_title, y, True)
    parts = list(plot.parts) + (_level(level, plot, near=True)[0] if level else [])
    for line in (line for line in lines if line.band):
        edge = [*((x, top) for x, _, top in line.band), *((x, low) for x, low, _ in reversed(line.band))]
        corners = " ".join(f"{plot.x(x):.1f},{plot.y(height):.1f}" for x, height in edge)
        parts.append(svg.element("polygon", points=corners, class_=f"band tone-{line.tone}"))
    for line in sorted(lines, key=lambda line: not line.faint):
        path = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in line.points)
        kind = f"{'faint' if line.faint else 'strong'} tone-{line.tone}"
        parts.append(svg.element("polyline", points=path, class_=f"line {kind}"))
        for x, height in line.points if line.dots else [line.ring] if line.ring else []:
            cx, cy = plot.x(x), plot.y(height)
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


def intervals(rows: Sequence[Interval], x: Axis, width: float, title: str) -> Markup:
    """Differences with their intervals, and the zero they must clear to mean something."""
    along = svg.Scale(*x.span([0.0, *(v for row in rows for v in (row.low, row.high))], 0.08), 4, width - 4)
    floor = INTERVAL_ROW * len(rows) + 2
    parts = list(_bottom_axis(along, x.title, 22.0, floor, width, zero="zero"))
    for i, row in enumerate(rows):
        y, half, tone = INTERVAL_ROW * i + 46, svg.text_width(row.text) / 2, f"tone-{row.tone}"
        middle, low, high = along(row.middle), along(row.low), along(row.high)
        tip = f"{row.label}\n{row.text}"
        parts.append(svg.text(0, y - 35, svg.fitted(row.label, width), kind="halo"))
        parts.append(svg.text(min(max(middle, half), width - half), y - 11, row.text, "middle", "value halo"))
        parts.append(svg.element("line", x1=low, x2=high, y1=y, y2=y, class_=f"interval {tone}"))
        parts.append(svg.element("circle", tip=tip, cx=middle, cy=y, r=5.0, class_=f"mark {tone}"))
    return svg.picture(parts, svg.Canvas(width, floor + 40), title)


def dots(rows: Sequence[Value], x: Axis, width: float, title: str, levels: Sequence[ReferenceLine] = ()) -> Markup:
    """Each model on a line of its own, in the order given, on one axis; levels are marked beside each of them."""
    reach = [v for row in rows for v in (*row.seeds, row.value - (row.sd or 0), row.value + (row.sd or 0))]
    levels = [level for level in levels if level.is_near(reach)]
    along = svg.Scale(*x.span([*reach, *(level.at for level in levels)]), 4, width - 4, x.log)
    floor = DOT_ROW * len(rows) + 4
    parts = list(_bottom_axis(along, x.title, 0.0, floor, width))
    for i, row in enumerate(rows):
        top, tone = DOT_ROW * i, f"tone-{row.tone}"
        y, room = top + 25, svg.text_width(row.text) + 12
        for at, of in ((along(level.at), level.tone) for level in levels):
            parts.append(svg.element("line", x1=at, x2=at, y1=y - 8, y2=y + 8, class_=f"level tone-{of}"))
        parts.append(svg.text(0, top + 12, svg.fitted(row.label, width - room), kind="halo"))
        parts.append(svg.text(width, top + 12, row.text, "end", "value halo"))
        if row.sd:
            left, right = along(row.value - row.sd), along(row.value + row.sd)
            parts.append(svg.element("line", x1=left, x2=right, y1=y, y2=y, class_=f"whisker {tone}"))
        if len(row.seeds) > 1:
            parts += [svg.element("circle", cx=along(seed), cy=y, r=3, class_=f"seed {tone}") for seed in row.seeds]
        parts.append(svg.mark(along(row.value), y, row.tone, f"{row.label}\n{row.text}", radius=4.5))
    return svg.picture(parts, svg.Canvas(width, floor + 40), title)


def _bottom_axis(x: svg.Scale, title: str, top: float, floor: float, width: float, zero: str = "grid") -> Iterator[str]:
    """The axis of rows: its lines run through all of them, from `top` to `floor`."""
    yield svg.text(x.end, floor + 36, title, "end", "axis")
    for tick, label in x.ticks(max(2, int(width / TICK_ROOM))):
        kind = "grid" if tick else zero
        yield svg.element("line", x1=x(tick), x2=x(tick), y1=top, y2=floor, class_=kind)
        yield svg.text(min(max(x(tick), 10), width - 10), floor + 16, label, "middle")


GRID_ROW = 30.0  # height of a row of a grid, where there are few
NAME_ROOM = 0.34  # of the width, for the names of rows


def grid(names: Sequence[str], counts: Sequence[Sequence[float]], canvas: svg.Canvas, title: str, unit: str) -> Markup:
    """Label against predicted label, each cell as dark as its share of the row, the right ones in the diagonal.

    Names stand at the rows; columns are in the same order, by name where those fit, else by number."""
    left = min(NAME_ROOM * canvas.width, max(map(svg.text_width, names)) + 34)
    cell = (canvas.width - left) / len(names)
    numbered = any(svg.text_width(name) > cell - 6 for name in names)
    row = max(svg.FONT + 1, min(GRID_ROW, cell))
    every = math.ceil(svg.text_width(str(len(names))) / cell)  # numbers that have room beside each other
    parts = [svg.text(left, 11, "predicted", kind="axis"), svg.text(0, 11, "label", kind="axis")]
    for i, (name, of_label) in enumerate(zip(names, counts, strict=True)):
        y, whole = 34 + row * i, sum(of_label)
        shown = svg.fitted(f"{i + 1} {name}" if numbered else name, left - 8)
        parts.append(svg.text(left - 8, y + row / 2 + 4, shown, "end"))
        if not numbered or i % every == 0:
            parts.append(svg.text(left + cell * (i + 0.5), 28, str(i + 1) if numbered else name, "middle"))
        parts += _cells(names, i, of_label, whole, (left, y, cell, row), unit)
    return svg.picture(parts, svg.Canvas(canvas.width, 36 + row * len(names)), title)


def _cells(
    names: Sequence[str],
    i: int,
    counts: Sequence[float],
    whole: float,
    at: tuple[float, float, float, float],
    unit: str,
) -> Iterator[str]:
    left, y, cell, row = at
    # One frame for a row: 50 labels would else have 2,500 empty cells to draw.
    yield svg.element("rect", x=left, y=y, width=cell * len(names), height=row - 1, class_="track")
    for j, count in enumerate(counts):
        if not count:
            continue
        share, tone = count / whole, "right" if i == j else "wrong"
        tip = f"{names[i]} → {names[j]}\n{count:,.0f} {unit}, {100 * share:.1f} % of the label"
        place: dict[str, object] = {"x": left + cell * j, "y": y, "width": max(1.0, cell - 1), "height": row - 1}
        deep = f"{0.12 + 0.88 * share:.2f}"
        yield svg.element("rect", "", tip, class_=f"mark cell tone-{tone}", fill_opacity=deep, **place)
        if svg.text_width(f"{count:,.0f}") < cell - 4 and row > svg.FONT + 4:
            kind = "count deep" if share > 0.55 else "count"
            yield svg.text(left + cell * (j + 0.5), y + row / 2 + 4, f"{count:,.0f}", "middle", kind)


@dataclass(frozen=True)
class Bubble:
    x: float
    y: float
    weight: float  # of all, for the area
    tip: str


def bubbles(
    series: Sequence[tuple[str, Sequence[Bubble]]], x_title: str, y: Axis, canvas: svg.Canvas, title: str
) -> Markup:
    """Lines of bubbles, as large as what they stand for, and the diagonal on which both axes are equal."""
    first = min((bubble.x for _, line in series for bubble in line), default=0.0)
    low = 10.0 * math.floor(max(0.0, first - 2) / 10)
    plot = axes(canvas, (low, 100.0, False), (0.0, 100.0), x_title, y)
    start, end = (plot.x(low), plot.y(low)), (plot.x(100), plot.y(100))
    diagonal = svg.element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_="zero")
    parts = [*plot.parts, diagonal]
    for tone, line in series:
        path = " ".join(f"{plot.x(at.x):.1f},{plot.y(at.y):.1f}" for at in line)
        parts.append(svg.element("polyline", points=path, class_=f"line faint tone-{tone}"))
        for at in line:
            size = 2.5 + 11 * math.sqrt(at.weight)
            kind = f"mark bubble tone-{tone}"
            parts.append(svg.element("circle", tip=at.tip, cx=plot.x(at.x), cy=plot.y(at.y), r=size, class_=kind))
    return svg.picture(parts, canvas, title)
