"""Matrices on the page: a table whose cells are coloured, so that it reads without colour and scrolls on a phone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from limbeck.core.matrix import Matrix
from limbeck.report import figures as n

BLANK = "A blank cell was not measured."


@dataclass(frozen=True)
class HeatCell:
    text: str  # "" where nothing was measured
    spread: str = ""
    tone: str = ""  # up, down or level, of a difference
    heat: float = 0.0  # from 0 to 1: how strong the colour is


@dataclass(frozen=True)
class HeatMap:
    title: str
    corner: str
    columns: list[str]
    rows: list[tuple[str, list[HeatCell], str]]  # name, cells, what stands at the end
    end_title: str
    caption: str
    diverging: bool


def heatmap_of(matrix: Matrix) -> HeatMap:
    known = [abs(value) for row in matrix.values for value in row if value is not None]
    strongest = max(known, default=0.0)
    spreads = matrix.spreads or [[None] * len(matrix.columns) for _ in matrix.rows]
    ends = matrix.ends or [""] * len(matrix.rows)
    rows = [
        (name, [_cell(matrix, *pair, strongest) for pair in zip(values, apart, strict=True)], end)
        for name, values, apart, end in zip(matrix.rows, matrix.values, spreads, ends, strict=True)
    ]
    said = [matrix.caption, "" if matrix.is_whole else BLANK]
    title = f"{matrix.title}, {matrix.unit}" if matrix.unit else matrix.title
    return HeatMap(
        title, matrix.row_title, matrix.columns, rows, matrix.end_title, " ".join(filter(None, said)), matrix.diverging
    )


def _cell(matrix: Matrix, value: float | None, spread: float | None, strongest: float) -> HeatCell:
    if value is None:
        return HeatCell("")
    apart = f"± {spread:.{matrix.digits}f}" if spread is not None else ""
    if not matrix.diverging:
        return HeatCell(f"{value:.{matrix.digits}f}".replace("-", n.MINUS), apart)
    text = f"{value:+.{matrix.digits}f}"
    level = float(text) == 0
    # The root keeps small differences visible beside one that is very large.
    heat = math.sqrt(abs(value) / strongest) if strongest and not level else 0.0
    tone = "level" if level else "up" if value > 0 else "down"
    return HeatCell(text.lstrip("+-") if level else text.replace("-", n.MINUS), apart, tone, heat)
