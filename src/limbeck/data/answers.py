"""Questions about a text, each answered by a part of it, or by none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.columns import NO_LABELS
from limbeck.data.table import NUMBER, Table
from limbeck.data.window_settings import WindowSettings

_ROLES = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "document", "text"),
    "answer": ("answers", "answer", "answer_text"),
    "start": ("answer_start", "start", "answer_starts"),
    "impossible": ("is_impossible", "impossible"),
}
_YES, _NO = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")
MOVED = "answers do not stand where answer_start says; the nearest place is taken"
SEVERAL = "answers without a start occur several times in their text; the first place is taken"
EMPTY = (
    "questions have an empty answer and count as unlabelled; where there is none, write an empty list, "
    "or true in a column is_impossible"
)


@dataclass(frozen=True)
class Question:
    question: str
    context: str
    answers: tuple[str, ...]  # any of them is right; none: it has no answer, or nobody said
    spans: tuple[tuple[int, int], ...]  # characters of those that were found
    answered: bool  # somebody said what the answer is, or that there is none
    where: str

    @property
    def impossible(self) -> bool:
        return self.answered and not self.answers

    @property
    def key(self) -> tuple[str, ...]:
        return (self.question, self.context)

    @property
    def group(self) -> tuple[str, ...]:
        """What is never cut apart."""
        return (self.context,)

    @property
    def has_label(self) -> bool:
        return self.answered

    @property
    def gold(self) -> tuple[str, ...]:
        return self.answers


def questions_of(
    table: Table, places: WindowSettings
) -> tuple[list[Question], Counter[str], dict[str, str], Counter[str]]:
    """The questions of a table, rows that are dropped by reason, the columns they come from, and what to mention."""
    roles = {role: _column(table, getattr(places, f"{role}_column", ""), names) for role, names in _ROLES.items()}
    for role in ("question", "context"):
        if not roles[role]:
            raise DataError(
                f"{table.source}: no column is known as the {role}; its columns: {', '.join(table.columns)}",
                f"name it with --windows.{role}-column",
            )
    questions: list[Question] = []
    dropped = Counter({"blank line": table.blank} if table.blank else {})
    remarks: Counter[str] = Counter()
    for row in range(len(table)):
        cells = {role: table.columns[name][row] if name else None for role, name in roles.items()}
        where = table.where(row) + (f" (id {table.columns['id'][row]})" if "id" in table.columns else "")
        question, context = (_text(cells[role], roles[role], where) for role in ("question", "context"))
        if not question.strip() or not context.strip():
            dropped["empty question or text"] += 1
            continue
        found = _question(question, context, cells, roles, where, remarks)
        if found.answers and not found.spans:
            dropped["answer that does not occur in its text"] += 1
        else:
            questions.append(found)
    return questions, dropped, {role: name for role, name in roles.items() if name}, remarks


def _column(table: Table, asked: str, known: Sequence[str]) -> str:
    if asked == NO_LABELS:
        return ""
    if asked and asked not in table.columns:
        raise DataError(
            f"{table.source} has no column '{asked}'; its columns: {', '.join(table.columns)}",
            "name columns with --windows.question-column, --windows.context-column and --windows.answer-column",
        )
    plain = {name.strip().casefold(): name for name in table.columns}
    return asked or next((plain[name] for name in known if name in plain), "")


def _text(value: Any, column: str, where: str) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, str):
        raise DataError(
            f"{where}: column '{column}' holds {type(value).__name__} {str(value)[:40]!r}, not text",
            "choose columns with --windows.question-column and --windows.context-column",
        )
    return value


def _question(
    question: str, context: str, cells: Mapping[str, Any], roles: Mapping[str, str], where: str, remarks: Counter[str]
) -> Question:
    answered, given = _given(cells["answer"], cells["start"], roles["start"], where)
    if _flag(cells["impossible"], roles["impossible"], where):
        return Question(question, context, (), (), True, where)
    said = [(text, start) for text, start in given if text.strip()]
    if given and not said:
        remarks[EMPTY] += 1
        answered = False
    spans = [_span(text, start, context, remarks) for text, start in said]
    answers = tuple(dict.fromkeys(text for text, _ in said))
    return Question(question, context, answers, tuple(dict.fromkeys(span for span in spans if span)), answered, where)


def _given(cell: Any, start: Any, column: str, where: str) -> tuple[bool, list[tuple[str, int | None]]]:
    """Whether anything was said, and texts with the places they are said to start at."""
    cell = _plain(cell)
    if cell is None or cell != cell:
        return False, []
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise DataError(f"{where}: an answer has no 'text'", 'write {"text": [...], "answer_start": [...]}')
        cell, start, column = _plain(cell["text"]), cell.get("answer_start"), "answer_start"
    texts = [cell] if isinstance(cell, (str, Mapping)) else list(cell)
    start = _plain(start)
    starts = list(start) if isinstance(start, (list, tuple)) else [start] * len(texts)
    if len(starts) != len(texts):
        raise DataError(
            f"{where}: {len(texts)} answers, but {len(starts)} of answer_start", "give every answer one start, or none"
        )
    found: list[tuple[str, int | None]] = []
    for text, place in zip(texts, starts, strict=True):
        if isinstance(text, Mapping):
            text, place, column = text.get("text", ""), text.get("answer_start"), "answer_start"
        if not isinstance(text, str):
            raise DataError(f"{where}: an answer is a {type(text).__name__} {str(text)[:40]!r}, not text", "mend it")
        found.append((text, _number(place, column, where)))
    return True, found


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _is_empty(value: Any) -> bool:
    """An empty cell is None, NaN or blank, by the kind of file."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _number(value: Any, column: str, where: str) -> int | None:
    """The place in a cell, which a CSV holds as text; None where nobody says."""
    value = _plain(value)
    if _is_empty(value):
        return None
    written = isinstance(value, str) and NUMBER.fullmatch(value.strip())
    number = float(value) if written or isinstance(value, (int, float)) else math.nan
    if not number.is_integer():
        raise DataError(
            f"{where}: column '{column}' holds {str(value)[:40]!r}, not a whole number",
            "write the place of the answer's first character, counted from 0, or leave the cell empty; "
            "a column that means something else needs another name",
        )
    return int(number)


def _flag(value: Any, column: str, where: str) -> bool:
    """Whether a cell says yes; an empty one says no."""
    value = _plain(value)
    said = "" if _is_empty(value) else str(value).strip().casefold()
    if said and said not in (*_YES, *_NO):
        raise DataError(
            f"{where}: column '{column}' holds {str(value)[:40]!r}, which is neither yes nor no",
            "write true or false, or leave the cell empty; a column that means something else needs another name",
        )
    return said in _YES


def _span(text: str, start: int | None, context: str, remarks: Counter[str]) -> tuple[int, int] | None:
    """The characters of an answer, without spaces around it."""
    core = text.strip()
    if start is not None and start >= 0:
        start += len(text) - len(text.lstrip())
        if context.startswith(core, start):
            return start, start + len(core)
    places = _occurrences(core, context)
    if not places:
        return None
    if start is None or start < 0:
        remarks[SEVERAL] += len(places) > 1
        return places[0], places[0] + len(core)
    remarks[MOVED] += 1
    near = min(places, key=lambda place: abs(place - start))
    return near, near + len(core)


def _occurrences(text: str, context: str) -> list[int]:
    places = []
    place = context.find(text)
    while place >= 0:
        places.append(place)
        place = context.find(text, place + 1)
    return places
