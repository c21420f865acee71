"""A teacher's answers that stand beside the texts, in columns of the user's own file; read as logits.

    probabilities    t = log p                   one per class, in several columns or one list
    one class        t = log((1 − ε)·[k = y] + ε/K)    ε is --data.teacher-smoothing
    several labels   t = log p − log(1 − p)      a probability for each; of a label that is only named 1 − ε/2, else ε/2
    a number         t = the number

So every logit is finite, and a divergence is at any temperature: probabilities below 1e-6 count as 1e-6. They may sum
to 1 ± 1e-3 (of many classes ± 5e-4 each, the rounding of three decimals), and are divided by their sum.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, Protocol

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.fingerprint import digest
from limbeck.core.task import TaskInfo
from limbeck.data.columns import Roles, may_hold_labels, no_label
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import NUMBER, Table, is_missing, unboxed
from limbeck.data.text.labels import Cell, LabelEncoder, label_encoder, permutation

LEAST = 1e-6  # a smaller probability counts as this
ROUNDING = 1e-3  # how far the sum of two probabilities may be from 1; of more classes half of it for each
_SEPARATOR = "_-.:/ "
_LISTED = 8  # unknown names that an error lists


class Answered(Protocol):
    @property
    def answer(self) -> Any: ...

    @property
    def where(self) -> str: ...


@dataclass(frozen=True)
class Answers:
    """Of a teacher, by uid."""

    column: str  # as a person named it
    uids: np.ndarray  # [n] int64
    logits: np.ndarray  # [n, outputs] float64; NaN where there is no answer

    @property
    def answered(self) -> np.ndarray:
        """[n] bool."""
        return np.isfinite(self.logits).all(axis=1)

    @property
    def fingerprint(self) -> str:
        order = np.argsort(self.uids)
        return digest([self.uids[order], self.logits[order]])


def answer_cells(table: Table, names: Sequence[str], rows: Sequence[int]) -> list[Any]:
    """What the teacher's columns hold in these rows: a text, a number, a tuple, a dictionary, or None."""
    if len(names) == 1:
        values, classes = table.columns[names[0]], table.names.get(names[0], ())
        return [_cell(values[row], classes) for row in rows]
    found: list[Any] = []
    for row in rows:
        cells = [_cell(table.columns[name][row]) for name in names]
        empty = [name for name, cell in zip(names, cells, strict=True) if cell is None]
        if empty and len(empty) < len(names):
            raise DataError(
                f"{table.where(row)}: the teacher's column '{empty[0]}' is empty, and '{_other(names, empty)}' is not",
                "fill all of the columns of --teacher-column in a row, or none",
            )
        found.append(None if empty else tuple(cells))
    return found


def encoder_of(
    labels: Sequence[Cell],
    answers: Sequence[Any],
    settings: DataSettings,
    table: Table,
    roles: Roles,
    known: Sequence[str] = (),
) -> LabelEncoder:
    """The task and its classes by the labels; where no row has one, by the teacher's answers."""
    if not roles.teacher or any(label is not None for label in labels):
        return label_encoder(labels, settings, table, roles, known)
    if not roles.labels and not settings.classes and may_hold_labels(table, roles, settings.label_column):
        raise no_label(table, roles)
    if len(roles.teacher) > 1:
        kind = "classify" if settings.task == "auto" else settings.task
        return label_encoder([], settings.but(task=kind), table, roles, class_names(roles.teacher))
    given = [answer for answer in answers if answer is not None]
    if not given:
        raise DataError(
            f"{table.source}: no row has a label, nor an answer in the teacher's column '{roles.teacher[0]}'",
            "choose another column with --teacher-column",
        )
    if len({str(answer) for answer in given}) == 1:
        raise DataError(
            f"{table.source}: the teacher answers every row with {_shown(given[0])}, and no row has a label",
            "choose another column with --teacher-column",
        )
    named = [_names(answer) for answer in given]
    if all(map(_is_soft, given)):
        classes = list(dict.fromkeys(name for names in named for name in names))
        if not classes and not settings.classes:
            raise _no_order(table.source, roles.teacher[0])
        kind = "classify" if settings.task == "auto" else settings.task
        return label_encoder([], settings.but(task=kind), table, roles, sorted(classes))
    return label_encoder(given, settings, table, replace(roles, labels=roles.teacher), known)


@dataclass(frozen=True)
class AnswerEncoder:
    """A teacher's answers as logits, in the order of the task's classes."""

    labels: LabelEncoder
    columns: Sequence[str]
    smoothing: float
    ordered: bool  # a person, the file's schema or the names themselves say in which order classes stand

    @classmethod
    def of(cls, labels: LabelEncoder, settings: DataSettings, table: Table, roles: Roles) -> AnswerEncoder:
        named = len(roles.labels) > 1 or any(table.names.get(name) for name in (*roles.labels, *roles.teacher))
        ordered = bool(settings.classes) or named or all(map(str.isdecimal, labels.task.labels))
        return cls(labels, roles.teacher, settings.teacher_smoothing, ordered)

    def encode(self, rows: Sequence[Answered]) -> np.ndarray:
        """[n, outputs] float64; NaN where there is no answer."""
        self._check_names(rows)
        found = np.full((len(rows), self.task.outputs), np.nan)
        for number, row in enumerate(rows):
            if row.answer is not None:
                found[number] = self._logits(row)
        return found

    @property
    def task(self) -> TaskInfo:
        return self.labels.task

    def _logits(self, row: Answered) -> np.ndarray:
        if self.task.kind == "regress":
            return np.array([self._number(row)])
        soft = _is_soft(row.answer) or len(self.columns) > 1
        if self.task.kind == "multilabel":
            half = self.smoothing / 2
            p = self._in_order(row) if soft else half + (1 - self.smoothing) * self._chosen(row)
            p = np.clip(p, LEAST, 1 - LEAST)
            return np.asarray(np.log(p) - np.log1p(-p))
        if soft:
            p = np.maximum(self._distribution(row), LEAST)
            return np.asarray(np.log(p / p.sum()))
        return np.asarray(np.log((1 - self.smoothing) * self._chosen(row) + self.smoothing / self.task.outputs))

    def _number(self, row: Answered) -> float:
        number = _number(row.answer)
        if number is None:
            raise DataError(
                f"{row.where}: the teacher's answer {_shown(row.answer)} in column '{self._column}' is not a number, "
                "and the task is regression",
                "mend that row, empty the cell, or choose another column with --teacher-column",
            )
        return number

    def _distribution(self, row: Answered) -> np.ndarray:
        """[classes] that sum to 1, but for rounding."""
        p = self._in_order(row)
        total, allowed = float(p.sum()), max(ROUNDING, ROUNDING / 2 * len(p)) + 1e-9
        if abs(total - 1) > allowed:
            several = "; if any number of labels may hold, pass --task multilabel" if total <= len(p) else ""
            raise DataError(
                f"{row.where}: the teacher's probabilities in {self._where} sum to {total:.6g}, not to 1",
                f"write probabilities, not percentages or logits, of all {len(p)} classes{several}",
            )
        return p

    def _in_order(self, row: Answered) -> np.ndarray:
        """[outputs] probabilities, each where the task has its class."""
        answer = row.answer
        if isinstance(answer, dict):
            named = {self._place(name): value for name, value in answer.items()}
            values = [named.get(place, 0.0) for place in range(self.task.outputs)]
        else:
            if len(answer) != self.task.outputs:
                raise DataError(
                    f"{row.where}: the teacher gives {len(answer)} probabilities in {self._where}, and there are "
                    f"{self.task.outputs} classes ({', '.join(self.names[:_LISTED])})",
                    "give one for each class; list classes that no label shows with --data.classes",
                )
            values = [answer[place] for place in self._order]
        numbers = [_number(value) for value in values]
        for value, number in zip(values, numbers, strict=True):
            if number is None or not 0 <= number <= 1 + ROUNDING:
                what = "is not a number" if number is None else "is negative" if number < 0 else "is more than 1"
                raise DataError(
                    f"{row.where}: the teacher's probability {_shown(value)} in {self._where} {what}",
                    "write probabilities from 0 to 1: of logits their softmax, of percentages a hundredth",
                )
        return np.array(numbers, dtype=np.float64)

    @cached_property
    def _order(self) -> list[int]:
        """For every class, which of the columns, or which number of a list, is its own."""
        if len(self.columns) > 1:
            for names in (self.columns, class_names(self.columns)):
                if found := permutation(self.names, names):
                    return found
            if not self.ordered or all(map(str.isdecimal, self.names)):
                raise DataError(
                    f"it is unknown which of the columns {', '.join(self.columns)} is of which class "
                    f"({', '.join(self.names[:_LISTED])})",
                    "name the columns as the classes, or list the classes in the order of --teacher-column with "
                    "--data.classes",
                )
        elif not self.ordered:
            raise _no_order("", self._column)
        return list(range(self.task.outputs))

    def _chosen(self, row: Answered) -> np.ndarray:
        """[outputs] 1 at the classes that the answer names."""
        found = np.zeros(self.task.outputs)
        places = [self._place(name) for name in self._parts(row.answer)]
        if self.task.single_label and len(places) != 1:
            raise DataError(
                f"{row.where}: the teacher's answer in column '{self._column}' names {len(places)} classes, and the "
                "task is one class per text",
                "name one class, or pass --task multilabel",
            )
        found[[place for place in places if place is not None]] = 1.0
        return found

    def _parts(self, answer: Any) -> list[Any]:
        if isinstance(answer, tuple):
            return list(answer)
        if self.task.kind == "multilabel" and isinstance(answer, str) and self.labels.separator:
            return [part.strip() for part in answer.split(self.labels.separator) if part.strip()]
        return [answer]

    def _check_names(self, rows: Sequence[Answered]) -> None:
        """Refuses answers that name no class: all of them at once, each with the nearest that is one."""
        if self.task.kind == "regress" or len(self.columns) > 1:
            return
        unknown: Counter[str] = Counter()
        first = ""
        for row in (row for row in rows if row.answer is not None):
            parts = _names(row.answer) if _is_soft(row.answer) else self._parts(row.answer)
            for name in (str(part) for part in parts if self._place(part) is None):
                first = first or row.where
                unknown[name] += 1
        if not unknown:
            return
        listed = "; ".join(self._described(name, count) for name, count in unknown.most_common(_LISTED))
        more = f"; and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        numbers = all(_number(name) is not None for name in unknown)
        hint = "; a number is of a class where --data.classes lists them in that order" if numbers else ""
        raise DataError(
            f"{first}: the teacher's column '{self._column}' names classes that are not among "
            f"{', '.join(self.names[:_LISTED])}: {listed}{more}",
            "write the classes as the labels do, list every class with --data.classes, or empty the cells to learn "
            f"these rows from their labels alone; probabilities need a column, or a number of a list, per class{hint}",
        )

    def _described(self, name: str, count: int) -> str:
        close = difflib.get_close_matches(name, self.names, n=1) or difflib.get_close_matches(
            name.casefold(), [one for one in self.names if one == one.casefold()], n=1
        )
        return f"'{name}' ({count:,} row{'s' * (count > 1)}{f', nearest {close[0]!r}' if close else ''})"

    def _place(self, name: Any) -> int | None:
        """Which class a name or an id is; None for none."""
        exact = self.labels.ids.get(str(name))
        if exact is None:
            exact = self._folded.get(str(name).strip().casefold())
        number = _number(name)
        if exact is None and number is not None and number == round(number):
            exact = self.labels.ids.get(str(int(number)))  # 1.0 is class 1
            numbered = all(map(str.isdecimal, self.names))  # then a number is a name, and no place
            if exact is None and self.ordered and not numbered and 0 <= number < self.task.outputs:
                exact = int(number)
        return exact

    @cached_property
    def _folded(self) -> dict[str, int]:
        """By names in lower case, where these tell classes apart."""
        found: dict[str, set[int]] = {}
        for name, place in [*_places(self.names).items(), *self.labels.ids.items()]:
            found.setdefault(name.casefold(), set()).add(place)
        return {name: min(places) for name, places in found.items() if len(places) == 1}

    @property
    def names(self) -> tuple[str, ...]:
        return self.task.labels

    @property
    def _column(self) -> str:
        return ",".join(self.columns)

    @property
    def _where(self) -> str:
        return f"column{'s' * (len(self.columns) > 1)} '{self._column}'"


def class_names(columns: Sequence[str]) -> list[str]:
    """Without what all columns have before and behind: p_negative and p_positive are negative and positive."""
    names = [name.strip() for name in columns]
    names = [name[_shared(names) :] for name in names]
    end = _shared([name[::-1] for name in names])
    return [name[: len(name) - end] for name in names]


def _shared(names: Sequence[str]) -> int:
    """How many characters all begin with, up to the last separator among them."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return max((place + 1 for place, letters in enumerate(alike) if letters[0] in _SEPARATOR), default=0)


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _cell(value: Any, classes: Sequence[str] = ()) -> Any:
    """A cell without its box: JSON lists and objects in a text are what they say; an empty cell is None."""
    value = unboxed(value)
    if isinstance(value, str):
        text = value.strip()
        if text[:1] in ("[", "{"):
            try:
                value = json.loads(text)
            except ValueError:
                return text
        else:
            return text or None
    if isinstance(value, list | tuple):
        return tuple(unboxed(part) for part in value) or None
    if isinstance(value, dict):
        return {str(name): part for name, part in value.items()} or None
    if is_missing(value):
        return None
    if classes and isinstance(value, int):  # a schema names them, and writes −1 for none
        return None if value == -1 else classes[value] if 0 <= value < len(classes) else value
    return str(value) if isinstance(value, bool) else value


def _is_soft(answer: Any) -> bool:
    """Whether it is probabilities."""
    if isinstance(answer, tuple):
        return all(isinstance(part, int | float) and not isinstance(part, bool) for part in answer)
    return isinstance(answer, dict)


def _names(answer: Any) -> list[str]:
    """Of the classes in a soft answer that names them."""
    return list(answer) if isinstance(answer, dict) else []


def _number(cell: Any) -> float | None:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell) if np.isfinite(cell) else None
    return float(cell) if isinstance(cell, str) and NUMBER.fullmatch(cell.strip()) else None


def _shown(value: Any) -> str:
    return repr(value)[:40]


def _other(names: Sequence[str], empty: Sequence[str]) -> str:
    return next(name for name in names if name not in empty)


def _no_order(source: str, column: str) -> DataError:
    return DataError(
        f"{f'{source}: ' if source else ''}the teacher's column '{column}' holds lists of probabilities, and nothing "
        "says which number is of which class",
        'list the classes in the order of the numbers with --data.classes a,b; or write objects, {"a": 0.9, "b": 0.1}',
    )
