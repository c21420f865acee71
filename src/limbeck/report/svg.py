"""SVG as text: elements, marks, scales from values to pixels, and names that cover neither each other nor a mark.

Colours are classes (`tone-student` …) that the page's style sheet gives for light and dark. A mark's `title` is its
tooltip.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup, escape

FONT = 12.0  # the page draws charts at their natural size, so this is what a person sees
NEAR = 60.0  # pixels within which a name is written only once
TINY = 1e-9  # what a computer makes of equal values
LINE = 15.0  # from one line of names to the next

_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))
_DIAMOND = ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0))
_SHAPES: dict[str, Sequence[tuple[float, float]]] = {
    "baseline": _SQUARE,
    "student": _DIAMOND,
    **dict.fromkeys(("right", "wrong"), _SQUARE),
    "floor": ((-1.5, -0.25), (1.5, -0.25), (1.5, 0.25), (-1.5, 0.25)),
    "other-1": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "other-2": _SQUARE,
    "other-3": _DIAMOND,
    "other-4": ((0, 1.2), (1.2, -1), (-1.2, -1)),
    "other-5": ((0, -1.3), (1.25, -0.4), (0.75, 1.1), (-0.75, 1.1), (-1.25, -0.4)),
    "other-6": ((-1.2, 0), (1, -1.2), (1, 1.2)),
}


@dataclass(frozen=True)
class Canvas:
    width: float
    height: float


def element(tag: str, body: str = "", tip: str = "", **attributes: object) -> str:
    """A trailing underscore keeps a name from being Python's: class_."""
    inside = (element("title", str(escape(tip))) if tip else "") + body
    given = "".join(f' {name.strip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>{inside}</{tag}>"


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(escape(str(value)))


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "tick") -> str:
    return element("text", str(escape(words)), x=x, y=y, text_anchor=anchor, class_=kind)


def picture(parts: Iterable[str], canvas: Canvas, title: str) -> Markup:
    """The drawing with its accessible name."""
    width, height = canvas.width, canvas.height
    box = f"0 0 {width:g} {height:g}"
    body = "".join(parts)
    return Markup(element("svg", body, title, viewBox=box, width=width, height=height, role="img", aria_label=title))


def mark(x: float, y: float, tone: str, tip: str = "", radius: float = 5.5) -> str:
    """The solid marker of a mean; each tone has a shape of its own, so that colour is not the only sign."""
    if tone == "teacher":
        return element("circle", tip=tip, cx=x, cy=y, r=radius, class_="mark tone-teacher")
    corners = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in _SHAPES[tone])
    return element("polygon", tip=tip, points=corners, class_=f"mark tone-{tone}")


def swatch(tone: str) -> Markup:
    """A marker for a legend."""
    drawn = mark(7.0, 7.0, tone, radius=4.2)
    return Markup(element("svg", drawn, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true", class_="swatch"))


def line_swatch(kind: str) -> Markup:
    drawn = element("line", x1=0, x2=16, y1=7, y2=7, class_=kind)
    return Markup(element("svg", drawn, viewBox="0 0 16 14", width=16, height=14, aria_hidden="true", class_="swatch"))


def moved(drawn: str, x: float, y: float) -> str:
    return element("g", drawn, transform=f"translate({x:g} {y:g})")


def height_of(drawn: str) -> float:
    found = re.search(r'<svg viewBox="0 0 [\d.]+ ([\d.]+)"', drawn)
    return float(found[1]) if found else 0.0


def alone(parts: Iterable[str], canvas: Canvas, title: str) -> str:
    """One file that any page can show: it brings its own paper and style, for light and dark."""
    paper = element("rect", width="100%", height="100%", rx=6, style="fill: var(--paper)")
    drawn = str(picture([element("style", _style()), paper, *parts], canvas, title))
    return drawn.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + "\n"


def _style() -> str:
    """What the report's style sheet says of charts. An image takes light and dark from a media query only."""
    sheet = files("limbeck.report").joinpath("style.css").read_text("utf-8")
    root, charts = sheet.split("}")[0], next(part for part in sheet.split("\n\n") if part.startswith("svg text"))
    variables = "\n".join(line.strip() for line in root.splitlines() if line.strip().startswith("--"))
    light, dark = (re.sub(r"light-dark\((.+), (.+)\);", side, variables) for side in (r"\1;", r"\2;"))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{charts}\n"


def text_width(words: str) -> float:
    """A safe estimate: a wide (CJK) character takes an em, others little more than half of one."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.58 for c in words) * FONT


def name_width(words: str) -> float:
    """In the heavier letters of names, with air at the end."""
    return 1.1 * text_width(words) + 4


def fitted(words: str, width: float) -> str:
    """The words, cut with an ellipsis where they would run out of the drawing."""
    if text_width(words) <= width:
        return words
    while words and text_width(words + "…") > width:
        words = words[:-1]
    return words.rstrip() + "…"


@dataclass(frozen=True)
class Scale:
    """Maps a value to a pixel, straight or by its logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        # A whisker may reach below zero, where there are no logarithms: it ends with the axis.
        low, high, at = (math.log(max(v, self.low)) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int, whole: bool = False) -> list[tuple[float, str]]:
        """Round values and their texts, about `count` of them; only whole numbers if asked."""
        by_decades = log_ticks(self.low, self.high) if self.log else []
        if len(by_decades) > 1:
            return [(tick, f"{tick:,.10g}") for tick in by_decades if not whole or tick == int(tick)]  # 0.5, 1, 20
        ticks = nice_ticks(self.low, self.high, count)  # also of a logarithmic scale from 2.1 to 4.6
        ticks = [tick for tick in ticks if not whole or tick == int(tick)]
        return list(zip(ticks, tick_texts(ticks), strict=True))


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers inside [low, high]: steps of 1, 2, 2.5 or 5 times a power of ten, about `count` of them."""
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [nice * 10.0**power for power in powers for nice in (1, 2, 5)]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as tell them apart, the same for all."""
    for digits in range(7):
        if all(abs(round(tick, digits) - tick) < 1e-9 * max(1.0, abs(tick)) for tick in ticks):
            break
    return [f"{tick:,.{digits}f}".replace("-", "\u2212") for tick in ticks]


def padded(values: Sequence[float], share: float = 0.12, least: float = 0.0) -> tuple[float, float]:
    """A range that holds the values with air around them. Equal values have one too, as wide as `least` or as a
    hundredth of them: narrower ones would be divided by ticks that all read the same."""
    low, high = min(values), max(values)
    least = least or 0.01 * max(abs(low), abs(high))
    least = least if least > TINY else 1.0
    air = max((high - low) * share, (least - (high - low)) / 2)
    return low - air, high + air


def span(values: Sequence[float], log: bool = False, share: float = 0.16, least: float = 0.0) -> tuple[float, float]:
    """The same, or on a logarithmic scale with air that multiplies; what is not positive has no place there."""
    if not log:
        return padded(values, share, least)
    positive = [value for value in values if value > 0]
    return min(positive) / 1.25, max(positive) * 1.25


def from_zero(values: Sequence[float], log: bool = False) -> tuple[float, float, bool]:
    """Low, high and whether to use logarithms: lengths compare truly from zero, unless they differ 20-fold."""
    positive = [value for value in values if value > 0] or [1.0]
    if log or max(positive) > 20 * min(positive):
        return min(positive) / 1.6, max(positive) * 1.6, True
    return 0.0, max(positive) * 1.12, False


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0

    def gap(self, other: Box) -> float:
        wide = max(self.left - other.right, other.left - self.right, 0.0)
        high = max(self.top - other.bottom, other.top - self.bottom, 0.0)
        return math.hypot(wide, high)

    def holds(self, other: Box) -> bool:
        within = self.left <= other.left and other.right <= self.right
        return within and self.top <= other.top and other.bottom <= self.bottom


@dataclass(frozen=True)
class Label:
    """A name that belongs to the mark at x, y."""

    x: float
    y: float
    text: str
    tone: str = ""


@dataclass(frozen=True)
class Placed:
    label: Label
    x: float
    y: float  # the baseline
    anchor: str
    box: Box
    leader: bool = False  # whether a thin line must lead to the mark


def place(labels: Sequence[Label], marks: Sequence[Box], bounds: Box) -> list[Placed]:
    """Puts each label in the first free place around its mark, or in the nearest free one with a line that leads to it.
    One that finds none is left out."""
    placed: list[Placed] = []
    for label in labels:
        if any(done.label.text == label.text and abs(done.label.x - label.x) < NEAR for done in placed):
            continue
        blocked = [*marks, *(done.box for done in placed)]
        free = (
            candidate
            for look in (_around, _beside, _anywhere)
            for candidate in look(label, bounds)
            if bounds.holds(candidate.box)
            and not any(candidate.box.overlap(box) for box in blocked)
            and (candidate.leader or _is_nearest(candidate, marks))
        )
        placed += [candidate] if (candidate := next(free, None)) else []
    return placed


def _is_nearest(candidate: Placed, marks: Sequence[Box]) -> bool:
    """Whether a reader would give the label to its own mark."""
    at = Box(candidate.label.x, candidate.label.y, candidate.label.x, candidate.label.y)
    own = min((candidate.box.gap(mark) for mark in marks if mark.holds(at)), default=0.0)
    return all(candidate.box.gap(mark) > own for mark in marks if not mark.holds(at))


def _around(label: Label, bounds: Box) -> list[Placed]:
    """Right, left, above, below; then the corners, a little further off. Above and below may slide along the edge."""
    wide = name_width(label.text)
    corners = [
        (side * 11.0, lift, "start" if side > 0 else "end") for lift in (-9.0, 17.0, -22.0, 30.0) for side in (1, -1)
    ]
    spots = [
        *((13.0, 4.0, "start"), (-13.0, 4.0, "end"), (-18.0, 4.0, "end")),
        *((0.0, -14.0, "middle"), (0.0, 24.0, "middle")),
        *corners,
        *((0.0, -28.0, "middle"), (0.0, 38.0, "middle")),
    ]
    placed = []
    for dx, dy, anchor in spots:
        x, y = label.x + dx, label.y + dy
        if anchor == "middle":
            x = min(max(x, bounds.left + wide / 2 + 1), bounds.right - wide / 2 - 1)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        placed.append(Placed(label, x, y, anchor, Box(left, y - FONT + 1, left + wide, y + 3)))
    return placed


def _beside(label: Label, bounds: Box) -> list[Placed]:
    """Lines of text left and right of the mark, as names in a column, the nearest first."""
    columns = [(side * apart, 0.0 if side > 0 else 1.0) for apart in (22.0, 40.0, 70.0, 110.0) for side in (1, -1)]
    wide = name_width(label.text)
    placed = _in_lines(label, bounds, [label.x + apart - share * wide for apart, share in columns])
    return sorted(placed, key=lambda at: 1.5 * abs(at.y - 4 - label.y) + _aside(at))


def _anywhere(label: Label, bounds: Box) -> list[Placed]:
    """Every place of a grid, the nearest first."""
    room = bounds.right - bounds.left - name_width(label.text)
    placed = _in_lines(label, bounds, [bounds.left + LINE * column for column in range(1 + max(0, int(room / LINE)))])
    return sorted(placed, key=lambda at: at.box.gap(Box(label.x, label.y, label.x, label.y)))


def _in_lines(label: Label, bounds: Box, lefts: Sequence[float]) -> list[Placed]:
    lines = [bounds.top + LINE * (row + 1) - 3 for row in range(int((bounds.bottom - bounds.top) / LINE))]
    wide = name_width(label.text)

    def place(left: float, y: float) -> Placed:
        """A name left of its mark ends at its right edge, however wide the font is, so that the leader meets it."""
        x, anchor = (left + wide, "end") if left + wide <= label.x else (left, "start")
        return Placed(label, x, y, anchor, Box(left, y - FONT + 1, left + wide, y + 3), leader=True)

    return [place(left, y) for y in lines for left in lefts]


def _aside(at: Placed) -> float:
    return max(at.box.left - at.label.x, at.label.x - at.box.right)
