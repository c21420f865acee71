"""One line for each of many models: its name, its mean, its seeds, its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limbeck.report.labels import fitted, text_width
from limbeck.report.scale import Scale, span, tick_texts
from limbeck.report.svg import FONT, Size, element, mark, picture, text

TALL = 38.0  # of a line


@dataclass(frozen=True)
class Row:
    label: str
    value: float
    text: str
    tone: str
    seeds: tuple[float, ...] = ()
    sd: float | None = None


def dots(
    rows: Sequence[Row], x_title: str, width: float, title: str, level: float | None = None, log: bool = False
) -> Markup:
    """Rows in the order given, on one axis; `level` is marked beside each of them."""
    low, high = span(
        [v for row in rows for v in (*row.seeds, row.value - (row.sd or 0), row.value + (row.sd or 0))], log
    )
    x = Scale(low, high, 4, width - 4, log)
    floor = TALL * len(rows) + 4
    ticks = x.ticks(max(2, int(width / 90)))
    parts = [text(x.end, floor + 36, x_title, "end", "axis")]
    for tick, label in zip(ticks, tick_texts(ticks), strict=True):
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=0.0, y2=floor, class_="grid"))
        parts.append(text(min(max(x(tick), 10), width - 10), floor + 16, label, "middle"))
    for i, row in enumerate(rows):
        if level is not None:
            top, at = TALL * i, x(level)
            parts.append(element("line", x1=at, x2=at, y1=top + 17, y2=top + 33, class_="level tone-teacher"))
        parts += _row(row, x, TALL * i, width)
    return picture(parts, Size(width, floor + 40), title)


def _row(row: Row, x: Scale, top: float, width: float) -> list[str]:
    y, room = top + 25, text_width(row.text, FONT) + 12
    parts = [
        text(0, top + 12, fitted(row.label, width - room), kind="halo"),
        text(width, top + 12, row.text, "end", "value halo"),
    ]
    if row.sd:
        left, right = x(row.value - row.sd), x(row.value + row.sd)
        parts.append(element("line", x1=left, x2=right, y1=y, y2=y, class_=f"whisker tone-{row.tone}"))
    if len(row.seeds) > 1:
        parts += [element("circle", cx=x(seed), cy=y, r=3, class_=f"seed tone-{row.tone}") for seed in row.seeds]
    return [*parts, mark(x(row.value), y, row.tone, f"{row.label}\n{row.text}", radius=4.5)]
