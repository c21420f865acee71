"""Labels: what their column holds (one class, several labels, or a number), and which output of a model each is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.task import Kind, TaskInfo
from limbeck.data.columns import Roles, may_hold_labels, no_label
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import NUMBER, Table, unboxed

Cell = str | int | float | tuple[Any, ...] | None  # None: the row has no label
NO_CLASS = -100  # the class id of an unlabelled row, which cross-entropy passes over
_TRUTH = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_GENERIC = re.compile(r"label_\d+", re.IGNORECASE)
_MANY = 1000  # more classes than this, most of them seen once or twice, are not classes


class Labelled(Protocol):
    @property
    def label(self) -> Cell: ...

    @property
    def where(self) -> str: ...


@dataclass(frozen=True)
class LabelEncoder:
    """Labels to ids: the task, and the id of every class name."""

    task: TaskInfo
    ids: dict[str, int]
    whole: bool  # names are whole numbers, so that 3, "3" and "3.0" are one class
    separator: str = "|"

    def encode(self, rows: Sequence[Labelled]) -> tuple[np.ndarray, np.ndarray]:
        """[n] class ids, [n, labels] 0 and 1, or [n] numbers; and [n] bool, which rows have a label."""
        has_label = np.array([row.label is not None for row in rows], dtype=bool)
        if self.task.kind == "classify":
            return self._classes(rows), has_label
        if self.task.kind == "regress":
            values = [0.0 if row.label is None else _value(row) for row in rows]
            return np.array(values, dtype=np.float32), has_label
        many = np.zeros((len(rows), len(self.ids)), dtype=np.float32)
        for index, row in enumerate(rows):
            for part in _parts(row.label, self.separator):
                place = index, self._id(part, row)
                if many[place]:
                    raise DataError(
                        f"{row.where}: the label '{part}' occurs twice in {row.label!r}",
                        "list each label once; for rows of 0 and 1, make one column per label and name them all "
                        "with --label-column a,b,c",
                    )
                many[place] = 1.0
        return many, has_label

    def _classes(self, rows: Sequence[Labelled]) -> np.ndarray:
        known: dict[Cell, int] = {None: NO_CLASS}
        for row in rows:
            if row.label not in known:
                known[row.label] = self._id(row.label, row)
        return np.array([known[row.label] for row in rows], dtype=np.int64)

    def _id(self, label: Any, row: Labelled) -> int:
        name = _name(label, self.whole)
        if name not in self.ids:
            raise DataError(
                f"{row.where}: the label '{name}' is not one of the {self.task}",
                "mend that row, add the class to the training rows, or list every class with --data.classes",
            )
        return self.ids[name]


def label_cells(table: Table, roles: Roles, rows: Sequence[int]) -> list[Cell]:
    """The label cells of these rows, stripped, with empty ones None; NaN is refused."""
    if len(roles.labels) > 1:
        return _flags(table, roles.labels, rows)
    name = roles.labels[0]
    values, names = table.columns[name], table.names.get(name, ())
    cells = [_clean(values[row], names) for row in rows]
    wrong = [position for position, cell in enumerate(cells) if _is_nan(cell)]
    if wrong:
        raise DataError(
            f"{table.where(rows[wrong[0]])}: the label in column '{name}' is {cells[wrong[0]]!r} "
            f"({len(wrong):,} such rows)",
            "write the label, leave the cell empty to keep the row unlabelled, or delete the row",
        )
    return cells


def label_encoder(
    labels: Sequence[Cell], settings: DataSettings, table: Table, roles: Roles, known: Sequence[str] = ()
) -> LabelEncoder:
    """The task and its classes, from the training rows; where none has a label, from the `known` ones of a teacher."""
    cells = [cell for cell in labels if cell is not None]
    listed = tuple(name.strip() for name in settings.classes.split(",") if name.strip())
    listed = listed or (() if cells else tuple(known))
    unnamed = not roles.labels and not settings.classes and may_hold_labels(table, roles, settings.label_column)
    if unnamed or (not cells and not listed and settings.task != "regress"):
        raise no_label(table, roles)
    kind = _kind(cells, settings)
    if kind != "multilabel" and any(isinstance(cell, tuple) for cell in cells):
        raise DataError(f"{table.source}: the labels are lists, and the task is {kind}", "pass --data.task multilabel")
    if kind == "regress":
        return LabelEncoder(TaskInfo(kind="regress"), {}, False)
    parts = [part for cell in cells for part in _parts(cell, settings.separator)] if kind == "multilabel" else cells
    values = list(dict.fromkeys(parts))
    whole = bool(values) and all(_is_whole(value) for value in values)
    seen = list(dict.fromkeys(_name(value, whole) for value in values))
    _refuse_free_text(kind, seen, parts, table, roles, whole)
    if kind == "classify" and cells and len(seen) < 2:
        raise DataError(
            f"{table.source}: every labelled training row is of the one class '{seen[0]}'",
            "add rows of another class, or choose another column with --label-column",
        )
    named = table.names.get(roles.labels[0], ()) if len(roles.labels) == 1 else roles.labels
    order = tuple(named) or tuple(sorted(seen, key=int) if whole else sorted(seen))
    labels, ids = _listed(listed, order, seen, table, whole) if listed else (order, _index(order))
    return LabelEncoder(TaskInfo(kind=kind, labels=labels), ids, whole, settings.separator)


def _kind(cells: Sequence[Cell], settings: DataSettings) -> Kind:
    if settings.task != "auto":
        return settings.task
    values = set(cells)
    if any(len(_parts(value, settings.separator)) > 1 or isinstance(value, tuple) for value in values):
        return "multilabel"
    numbers = [_number(value) for value in values]
    if any(number is None for number in numbers):
        return "classify"
    return "classify" if all(number == round(number) for number in numbers if number is not None) else "regress"


def _listed(
    listed: tuple[str, ...], order: tuple[str, ...], seen: Sequence[str], table: Table, whole: bool
) -> tuple[tuple[str, ...], dict[str, int]]:
    """In the order of --data.classes. Names for whole-number labels go to the numbers in rising order."""
    if len(set(listed)) < len(listed):
        raise DataError(f"--data.classes names a class twice ({', '.join(listed)})", "name each class once")
    unknown = [name for name in seen if name not in listed]
    if not unknown:
        return listed, _index(listed)
    if whole and len(order) == len(listed) and not any(_is_whole(name) for name in listed):
        return listed, _index(order)
    raise DataError(
        f"{table.source}: the label '{unknown[0]}' is not in --data.classes ({', '.join(listed)})",
        f"the labels found are {', '.join(order[:20])}: list every one of them",
    )


def _refuse_free_text(
    kind: Kind, seen: Sequence[str], parts: Sequence[Any], table: Table, roles: Roles, whole: bool
) -> None:
    if len(seen) > _MANY and 2 * len(seen) > len(parts):
        remedy = "pass --data.task regress if they are quantities" if whole else "choose the column with --label-column"
        raise DataError(
            f"{table.source}: column '{roles.labels[0]}' has {len(seen):,} different labels in {len(parts):,} rows, "
            f"too many to be {'classes' if kind == 'classify' else 'labels'}",
            remedy,
        )


def _flags(table: Table, names: Sequence[str], rows: Sequence[int]) -> list[Cell]:
    """Several columns of 0 and 1 as the names of those that hold 1."""
    cells: list[Cell] = []
    columns = [(name, table.columns[name]) for name in names]
    for row in rows:
        values = {name: _clean(column[row], ()) for name, column in columns}
        if all(value is None for value in values.values()):
            cells.append(None)
            continue
        for name, value in values.items():
            if str(value).lower() not in _TRUTH:
                raise DataError(
                    f"{table.where(row)}: column '{name}' holds {value!r} where 0 or 1 is needed",
                    "write 0 or 1 in every label column, or leave all of them empty to keep the row unlabelled",
                )
        cells.append(tuple(name for name, value in values.items() if _TRUTH[str(value).lower()]))
    return cells


def _clean(value: Any, names: tuple[str, ...]) -> Cell:
    if isinstance(value, str):
        return value.strip() or None
    if value is None:
        return None
    value = unboxed(value)
    if isinstance(value, (list, tuple)):
        return tuple(_clean(part, names) for part in value)
    if names and isinstance(value, int):
        if value == -1:  # how datasets writes a hidden label
            return None
        return names[value] if 0 <= value < len(names) else value
    return str(value) if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def _parts(cell: Cell, separator: str) -> tuple[Any, ...]:
    if isinstance(cell, str) and separator:
        return tuple(part.strip() for part in cell.split(separator) if part.strip())
    return cell if isinstance(cell, tuple) else () if cell is None else (cell,)


def _name(cell: Any, whole: bool) -> str:
    if not whole or not _is_whole(cell):
        return str(cell)
    return str(int(cell)) if isinstance(cell, int) or str(cell).lstrip("+-").isdigit() else str(int(float(cell)))


def _number(cell: Any) -> float | None:
    if isinstance(cell, (int, float)):
        return float(cell)
    return float(cell) if isinstance(cell, str) and NUMBER.fullmatch(cell) else None


def _is_whole(cell: Any) -> bool:
    number = _number(cell)
    return number is not None and math.isfinite(number) and number == round(number)


def _is_nan(cell: Any) -> bool:
    if isinstance(cell, tuple):
        return any(part is None or _is_nan(part) for part in cell)
    return cell.lower() == "nan" if isinstance(cell, str) else isinstance(cell, float) and not math.isfinite(cell)


def _value(row: Labelled) -> float:
    number = _number(row.label)
    if number is None:
        raise DataError(
            f"{row.where}: the label {row.label!r} is not a number, and the task is regression",
            "mend that row, choose another column with --label-column, or pass --data.task classify",
        )
    return number


def _index(names: Sequence[str]) -> dict[str, int]:
    return {name: position for position, name in enumerate(names)}


def match(task: TaskInfo, labels: Sequence[str], whose: str, ordered: bool) -> tuple[TaskInfo, list[int]]:
    """The task in the model's order, and the model's position of each class. Generic names keep the data's own."""
    if task.kind == "regress":
        if len(labels) != 1:
            raise MismatchError(
                f"the data holds numbers, but {whose} has {len(labels)} outputs ({_some(labels)})",
                "use a regression model, or pass --data.task classify",
            )
        return task, [0]
    if is_generic(labels):
        return _by_position(task, labels, whose, ordered)
    places = {label.strip().casefold(): place for place, label in enumerate(labels)}
    unknown = [name for name in task.labels if name.casefold() not in places]
    if unknown:
        same = all(map(str.isdecimal, task.labels)) and len(task.labels) == len(labels)
        rename = (
            f"name the data's numbers in rising order: --data.classes {','.join(labels)}"
            if same
            else ("write the data's labels as it does")
        )
        raise MismatchError(
            f"{whose} does not know the label{'s' * (len(unknown) > 1)} {_some(unknown)} of the data; "
            f"it knows {_some(labels)}",
            f"use a model trained on these labels; if the classes are the same under other names, {rename}",
        )
    return TaskInfo(kind=task.kind, labels=tuple(labels)), [places[name.casefold()] for name in task.labels]


def is_generic(labels: Sequence[str]) -> bool:
    """Whether a model calls its outputs LABEL_0, LABEL_1, …"""
    return all(map(_GENERIC.fullmatch, labels))


def permutation(names: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """The position of each name among labels that are the same in any order; None where they are others."""
    wanted, there = ([name.strip().casefold() for name in some] for some in (names, labels))
    if wanted == there:
        return list(range(len(there)))
    same = len(set(there)) == len(there) == len(wanted) and set(there) == set(wanted)
    return [there.index(name) for name in wanted] if same else None


def _by_position(task: TaskInfo, labels: Sequence[str], whose: str, ordered: bool) -> tuple[TaskInfo, list[int]]:
    """LABEL_0, LABEL_1, … carry no meaning: integers count as positions, names only in an order that a flag gives."""
    if len(task.labels) != len(labels):
        raise MismatchError(
            f"the data has {len(task.labels)} classes ({_some(task.labels)}), "
            f"but {whose} has {len(labels)} ({_some(labels)})",
            "use a model trained on these labels, or list all of its classes in its order with --data.classes",
        )
    if ordered or task.labels in (tuple(labels), tuple(map(str, range(len(labels))))):
        return task, list(range(len(labels)))
    raise MismatchError(
        f"{whose} calls its classes {_some(labels)}, so it is unknown which of them is '{task.labels[0]}'",
        f"list the classes in the model's order: --data.classes {','.join(task.labels)}",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
