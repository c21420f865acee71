"""The lanes of a comparison: every column, and beside each distinct student the same one without a teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from limbeck.recipes.cell import Cell
from limbeck.recipes.job import Start
from limbeck.recipes.phases import Plan
from limbeck.recipes.run import Run


class Learner(Protocol):
    """A student to be, of whatever task."""

    @property
    def run(self) -> Run: ...

    @property
    def start(self) -> Start: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def plain(self) -> bool:
        """Learns from what people wrote alone."""

    @property
    def made_up(self) -> int:
        """Rows that were made up for the teacher to answer."""

    @property
    def alike(self) -> tuple[str, ...]:
        """The same for learners with the same start and the same schedule."""

    def cells(self) -> list[Cell]: ...

    def cost(self, cell: Cell) -> float: ...


@dataclass(frozen=True)
class Lane:
    """One way of getting a model, seed by seed."""

    name: str
    student: Learner
    cells: tuple[Cell, ...]
    than: str = ""  # the lane of the same student without a teacher; "" where there is none, or this is it
    plain: bool = False  # learns from labels alone

    @property
    def epochs(self) -> float:
        return self.cells[0].plan.epochs

    @property
    def rows(self) -> int:
        return len(self.cells[0].train)

    @property
    def cost(self) -> float:
        return self.student.cost(self.cells[0])


def lanes(students: Mapping[str, Learner], called: Callable[[str], str] = "plain-{}".format) -> list[Lane]:
    """A column that learns from labels alone is the baseline of its student; others share one that is added.

    It is named after a column: the name is that of a folder, and must mean the same student when a run is resumed,
    also where other columns have come or gone."""
    plain: dict[tuple[str, ...], str] = {}
    for name, student in students.items():
        if student.plain:
            plain.setdefault(student.alike, name)
    field: list[Lane] = []
    for name, student in students.items():
        alike, by_arm = student.alike, _cells(student)
        if alike not in plain and "plain" in by_arm:
            plain[alike] = called(name)
            field.append(_lane(plain[alike], student, by_arm["plain"], plain=True))
        than = plain.get(alike, "")
        lane = _lane(name, student, by_arm["distilled"], plain=student.plain)
        field.append(replace(lane, than=than if than != name else ""))
    return field


def _lane(name: str, student: Learner, cells: list[Cell], plain: bool) -> Lane:
    named = (replace(cell, arm=name, title=f"{name}, seed {cell.seed}") for cell in cells)
    return Lane(name, student, tuple(named), plain=plain)


def _cells(student: Learner) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in student.cells():
        found.setdefault(cell.arm, []).append(cell)
    return found
