"""A table of numbers with named rows and columns, such as what tickets of some tasks are worth on others."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from limbeck.core.knob import Frozen


class Matrix(Frozen):
    """Values by row and column; None is not measured. The report draws one with `diverging` as a heat map around 0."""

    title: str
    rows: list[str]
    columns: list[str]
    values: list[list[float | None]]  # a list for each row
    spreads: list[list[float | None]] = []  # standard deviations over seeds, in the same order; empty: none
    row_title: str = ""  # what rows are: "source"
    ends: list[str] = []  # a last cell for each row, such as a count
    end_title: str = ""
    unit: str = ""
    digits: int = 1
    diverging: bool = False  # differences: above 0 and below are told apart by colour
    caption: str = ""

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        for numbers in (self.values, self.spreads or self.values):
            if [len(row) for row in numbers] != [len(self.columns)] * len(self.rows):
                raise ValueError(f"a matrix of {len(self.rows)} rows and {len(self.columns)} columns")
        if self.ends and len(self.ends) != len(self.rows):
            raise ValueError(f"{len(self.rows)} ends, one for each row")
        return self

    @property
    def is_whole(self) -> bool:
        return all(value is not None for row in self.values for value in row)


def count_not_below(values: list[float | None], own: int | None) -> str:
    """Of a row of differences: how many are at least 0, but for its own column; "" where one is missing."""
    others = [value for place, value in enumerate(values) if place != own]
    found = [value for value in others if value is not None]
    return str(sum(value >= 0 for value in found)) if len(found) == len(others) else ""
