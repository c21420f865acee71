"""The lanes of a comparison: every column, and beside each distinct student the same one without a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from limbeck.recipes.cell import Cell
from limbeck.recipes.finetune import without_teacher
from limbeck.recipes.recipe import to_table
from limbeck.recipes.student import Student


@dataclass(frozen=True)
class Lane:
    """One way of getting a model, seed by seed."""

    name: str
    student: Student
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


def lanes(students: Mapping[str, Student]) -> list[Lane]:
    """A column that learns from labels alone is the baseline of its student; others share one that is added.

    It is named after a column: the name is that of a folder, and must mean the same student when a run is resumed,
    also where other columns have come or gone."""
    plain: dict[tuple[str, ...], str] = {}
    for name, student in students.items():
        if _is_plain(student):
            plain.setdefault(_alike(student), name)
    field: list[Lane] = []
    for name, student in students.items():
        alike, by_arm = _alike(student), _cells(student)
        if alike not in plain and "plain" in by_arm:
            plain[alike] = f"plain-{name}"
            field.append(_lane(plain[alike], student, by_arm["plain"], plain=True))
        than = plain.get(alike, "")
        lane = _lane(name, student, by_arm["distilled"], plain=_is_plain(student))
        field.append(replace(lane, than=than if than != name else ""))
    return field


def _lane(name: str, student: Student, cells: list[Cell], plain: bool) -> Lane:
    named = (replace(cell, name=f"{name}-seed{cell.seed}", title=f"{name}, seed {cell.seed}") for cell in cells)
    return Lane(name, student, tuple(named), plain=plain)


def _cells(student: Student) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in student.cells():
        found.setdefault(cell.name.split("-")[0], []).append(cell)
    return found


def _alike(student: Student) -> tuple[str, ...]:
    """Students with the same start and the same schedule."""
    run = student.ready.run
    return run.student.model_dump_json(), run.student_from, run.train.model_dump_json()


def _is_plain(student: Student) -> bool:
    plan, ready = student.plan, student.ready
    alone = len(plan.phases) == 1 and not len(ready.extra) and ready.labelled is not None
    return alone and to_table(plan.objective) == to_table(without_teacher(ready.task))
