"""Small charts as SVG text: axes, points, lines, bars, intervals. Pure functions of numbers.

Colours are classes (`tone-student` …) that the page's style sheet gives for light and dark. A mark's `title` is its
tooltip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from limbeck.report.labels import Box, Label, fitted, place, text_width
from limbeck.report.scale import Scale, from_zero, log_ticks, nice_ticks, padded, span, tick_texts

FONT = 12.0  # the page draws charts at their natural size, so this is what a person sees


@dataclass(frozen=True)
class Size:
    width: float
    height: float


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
class Bar:
    label: str
    value: float
    text: str
    tone: str


@dataclass(frozen=True)
class Interval:
    label: str
    middle: float
    low: float
    high: float
    text: str
    tone: str


def element(tag: str, body: str = "", **attributes: object) -> str:
    given = "".join(f' {name.strip("_").replace("_", "-")}="{_text(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>{body}</{tag}>"


def _text(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(escape(str(value)))


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "tick") -> str:
    return element("text", str(escape(words)), x=x, y=y, text_anchor=anchor, class_=kind)


def picture(parts: Iterable[str], size: Size, title: str) -> Markup:
    """The drawing with its accessible name."""
    body = element("title", str(escape(title))) + "".join(parts)
    box = f"0 0 {size.width:g} {size.height:g}"
    return Markup(element("svg", body, viewBox=box, width=size.width, height=size.height, role="img", aria_label=title))


_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))
_DIAMOND = ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0))
_SHAPES: dict[str, Sequence[tuple[float, float]]] = {
    "baseline": _SQUARE,
    "student": _DIAMOND,
    "other-1": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "other-2": _SQUARE,
    "other-3": _DIAMOND,
    "other-4": ((0, 1.2), (1.2, -1), (-1.2, -1)),
    "other-5": ((0, -1.3), (1.25, -0.4), (0.75, 1.1), (-0.75, 1.1), (-1.25, -0.4)),
    "other-6": ((-1.2, 0), (1, -1.2), (1, 1.2)),
}


def mark(x: float, y: float, tone: str, tip: str = "", radius: float = 5.5) -> str:
    """The solid marker of a mean; each tone has a shape of its own, so that colour is not the only sign."""
    title = element("title", str(escape(tip))) if tip else ""
    name = f"mark tone-{tone}"
    if tone == "teacher":
        return element("circle", title, cx=x, cy=y, r=radius, class_=name)
    corners = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in _SHAPES[tone])
    return element("polygon", title, points=corners, class_=name)


def swatch(tone: str) -> Markup:
    """A marker for a legend."""
    drawn = mark(7.0, 7.0, tone, radius=4.2)
    return Markup(element("svg", drawn, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true", class_="swatch"))


@dataclass(frozen=True)
class Frame:
    """The plotting area and its two scales."""

    x: Scale
    y: Scale
    parts: tuple[str, ...]

    @property
    def box(self) -> Box:
        return Box(self.x.start, self.y.end, self.x.end, self.y.start)


def frame(
    size: Size,
    xs: tuple[float, float, bool],
    ys: tuple[float, float],
    x_title: str,
    y_title: str,
    whole: bool = False,
    log: bool = False,
) -> Frame:
    """Axes: the vertical one is named above itself, where the name needs no turning."""
    y_ticks = log_ticks(*ys) if log else nice_ticks(*ys, int(size.height / 48))
    y_texts = tick_texts(y_ticks)
    left = max(text_width(label, FONT) for label in y_texts) + 10
    x = Scale(xs[0], xs[1], left, size.width - 8, xs[2])
    y = Scale(ys[0], ys[1], size.height - 42, 26, log)
    parts = [text(0, 11, y_title, kind="axis"), text(x.end, size.height - 6, x_title, "end", "axis")]
    for tick, label in zip(y_ticks, y_texts, strict=True):
        parts.append(element("line", x1=x.start, x2=x.end, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(text(left - 8, y(tick) + 4, label, "end"))
    x_ticks = x.ticks(max(2, int(size.width / 90)))
    if whole:
        x_ticks = [tick for tick in x_ticks if tick == int(tick)]
    for tick, label in zip(x_ticks, tick_texts(x_ticks), strict=True):
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=y.start, y2=y.start + 4, class_="rule"))
        parts.append(text(x(tick), y.start + 18, label, "middle"))
    parts.append(element("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="rule"))
    return Frame(x, y, tuple(parts))


def dodge(pixels: Sequence[float], near: float = 10.0) -> list[float]:
    """Sets marks that share an x side by side, each `near` from the next, in the order of their values."""
    order = sorted(range(len(pixels)), key=lambda i: pixels[i])
    groups: list[list[int]] = []
    for i in order:
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


def scatter(
    points: Sequence[Point],
    x_title: str,
    y_title: str,
    size: Size,
    title: str,
    apart: bool = True,
    log: bool = False,
) -> Markup:
    """Every mean a marker, every seed a faint dot beside it, one standard deviation up and down as a whisker."""
    heights = [y for p in points for y in (p.y, *p.seeds, p.y + (p.sd or 0), p.y - (p.sd or 0))]
    plot = frame(size, from_zero(p.x for p in points), span(heights, log), x_title, y_title, log=log)
    pixels = [plot.x(p.x) for p in points]
    xs = dodge(pixels) if apart else pixels
    under, over, taken, labels = _chains(points, xs, plot), [], [], []
    for p, x in zip(points, xs, strict=True):
        y = plot.y(p.y)
        top, bottom = plot.y(p.y + (p.sd or 0)), plot.y(p.y - (p.sd or 0))
        if p.sd:
            under.append(element("path", d=_whisker(x, top, bottom), class_=f"whisker tone-{p.tone}"))
        under += [element("circle", cx=x - 9, cy=plot.y(s), r=3, class_=f"seed tone-{p.tone}") for s in p.seeds]
        over.append(mark(x, y, p.tone, p.tip))
        taken.append(Box(x - (13 if p.seeds else 7), min(top, y - 7), x + 7, max(bottom, y + 7)))
        if p.label:
            labels.append(Label(x, y, p.label, p.tone))
    drawn = [
        text(at.x, at.y, at.label.text, at.anchor, f"name tone-{at.label.tone}")
        for at in place(labels, taken, plot.box)
    ]
    return picture([*plot.parts, *under, *over, *drawn], size, title)


def _whisker(x: float, top: float, bottom: float) -> str:
    return f"M{x - 4:.1f} {top:.1f}h8M{x:.1f} {top:.1f}V{bottom:.1f}M{x - 4:.1f} {bottom:.1f}h8"


def _chains(points: Sequence[Point], xs: Sequence[float], plot: Frame) -> list[str]:
    chains: dict[str, list[str]] = {}
    for p, x in zip(points, xs, strict=True):
        if p.chain:
            chains.setdefault(p.chain, []).append(f"{x:.1f},{plot.y(p.y):.1f}")
    return [element("polyline", points=" ".join(path), class_="chain") for path in chains.values() if len(path) > 1]


def line_chart(
    lines: Sequence[Line],
    levels: Sequence[Level],
    x_title: str,
    y_title: str,
    size: Size,
    title: str,
    whole: bool = False,
    log: bool = False,
    ends: tuple[float, float] | None = None,
) -> Markup:
    """Lines over steps or epochs; means are strong, single seeds faint. `ends` are those of a scale that is shared."""
    xs = [x for line in lines for x, _ in line.points]
    heights = [y for line in lines for _, y in line.points] + [level.y for level in levels]
    low, high = min(0.0, *xs), max(xs)
    ends = ends or (span(heights, log) if log else padded(heights))
    plot = frame(size, (low, high if high > low else low + 1, False), ends, x_title, y_title, whole, log)
    parts = list(plot.parts)
    for level in levels:
        y = plot.y(level.y)
        parts.append(element("line", x1=plot.x.start, x2=plot.x.end, y1=y, y2=y, class_=f"level tone-{level.tone}"))
        parts.append(text(plot.x.start + 4, y - 6, level.label, kind=f"name tone-{level.tone}"))
    for line in sorted(lines, key=lambda line: not line.faint):
        path = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in line.points)
        kind = f"{'faint' if line.faint else 'strong'} tone-{line.tone}"
        parts.append(element("polyline", points=path, class_=f"line {kind}"))
        if line.ring:
            x, y = line.ring
            tip = element("title", str(escape(line.tip))) if line.tip else ""
            parts.append(
                element("circle", tip, cx=plot.x(x), cy=plot.y(y), r=3.5, class_=f"mark ring tone-{line.tone}")
            )
    return picture(parts, size, title)


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], top: float, width: float, title: str) -> Markup:
    """Horizontal bars in named groups; each bar carries its name above and its value at its end."""
    parts: list[str] = []
    room = max(text_width(bar.text, FONT) for _, group in groups for bar in group) + 8
    y = 0.0
    for name, group in groups:
        if name:
            parts.append(text(0, y + 12, fitted(name, width), kind="axis"))
            y += 22
        for bar in group:
            length = max(1.0, (width - room) * bar.value / top)
            parts.append(text(0, y + 11, fitted(bar.label, width)))
            parts.append(element("rect", x=0, y=y + 17, width=width - room, height=8, rx=1, class_="track"))
            parts.append(element("rect", x=0, y=y + 17, width=length, height=8, rx=1, class_=f"bar tone-{bar.tone}"))
            parts.append(text(width, y + 25, bar.text, "end", "value"))
            y += 36
        y += 10
    return picture(parts, Size(width, y - 10), title)


def intervals(rows: Sequence[Interval], x_title: str, width: float, title: str) -> Markup:
    """Differences with their intervals, and the zero they must clear to mean something."""
    low, high = padded([0.0, *(v for row in rows for v in (row.low, row.high))], 0.08)
    tall = 60.0
    size = Size(width, tall * len(rows) + 42)
    x = Scale(low, high, 4, width - 4)
    ticks = nice_ticks(low, high, max(2, int(width / 90)))
    floor = size.height - 40
    parts = [text(x.end, size.height - 4, x_title, "end", "axis")]
    for tick, label in zip(ticks, tick_texts(ticks), strict=True):
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=22.0, y2=floor, class_="zero" if tick == 0 else "grid"))
        parts.append(text(min(max(x(tick), 10), width - 10), floor + 16, label, "middle"))
    for i, row in enumerate(rows):
        y = tall * i + 46
        tip = element("title", str(escape(f"{row.label}\n{row.text}")))
        half = text_width(row.text, FONT) / 2
        parts.append(text(0, y - 35, fitted(row.label, width), kind="halo"))
        parts.append(text(min(max(x(row.middle), half), width - half), y - 11, row.text, "middle", "value halo"))
        parts.append(element("line", x1=x(row.low), x2=x(row.high), y1=y, y2=y, class_=f"interval tone-{row.tone}"))
        parts.append(element("circle", tip, cx=x(row.middle), cy=y, r=5.0, class_=f"mark tone-{row.tone}"))
    return picture(parts, size, title)
