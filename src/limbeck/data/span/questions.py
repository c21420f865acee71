"""Questions about a text, each answered by a part of it, or by none."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from limbeck.core.errors import DataError
from limbeck.core.task import ENDS, TaskInfo
from limbeck.data.columns import NO_LABELS, find_column, plain
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.new_rows import read_new, text_column
from limbeck.data.sources.squad import read_squad
from limbeck.data.sources.tables import NUMBER, Table, is_missing, unboxed
from limbeck.data.sources.unlabelled import read_unlabelled, refuse_unlabelled
from limbeck.data.splits import RowSelection, divide, measured_split
from limbeck.data.transfer import Key, UnlabelledFile, passed_over
from limbeck.data.uids import parts_split_hash, parts_uid
from limbeck.data.window_files import Columns, WindowFiles
from limbeck.data.windows import WindowRow, WindowRows, build_rows, unlabelled_rows

_ROLES = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "document", "text"),
    "answer": ("answers", "answer", "answer_text"),
    "start": ("answer_start", "start", "answer_starts"),
    "impossible": ("is_impossible", "impossible"),
}
_GOLD = ("answer", "start", "impossible")
_COLUMNS = "name columns with --windows.question-column, --windows.context-column and --windows.answer-column"
_YES, _NO = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")
MOVED = "answers do not stand where answer_start says; the nearest place is taken"
SEVERAL = "answers without a start occur several times in their text; the first place is taken"
EMPTY = (
    "questions have an empty answer and count as unlabelled; where there is none, write an empty list, "
    "or true in a column is_impossible"
)


@dataclass(frozen=True)
class Question(WindowRow):
    spans: tuple[tuple[int, int], ...] = ()  # characters of those answers that were found

    @property
    def question(self) -> str:
        return self.key[0]

    @property
    def context(self) -> str:
        return self.key[1]

    @property
    def answers(self) -> tuple[str, ...]:
        """Any of them is right; none: it has no answer, or no label."""
        return self.gold

    @property
    def impossible(self) -> bool:
        return self.has_label and not self.gold


def read_questions(
    settings: DataSettings, windows: WindowSettings, data: object | None = None, only_test: bool = False
) -> WindowRows[Question]:
    """Questions in train, dev and test. With `only_test` the whole file is the test split."""
    remarks: Counter[str] = Counter()
    if only_test:
        refuse_unlabelled(settings)
    files = _files(settings, windows, remarks)
    found = files.read(data)
    given = found.given
    if only_test:
        given = {"test": given[measured_split(given, "name the column with --windows.answer-column")]}
    whole = divide(given, settings, "paragraph", found.source.named)
    notes = [*found.source.notes, *whole.notes]
    division = files.limit_and_join(found, whole, notes)
    notes += [f"{count:,} {what}" for what, count in (+remarks).items()]
    nullable = any(row.impossible for part in division.parts.values() for row in part.rows)
    task = TaskInfo(kind="answer", labels=ENDS)
    return build_rows(division, task, found.columns, notes, "paragraph", nullable=nullable)


def timing_questions(settings: DataSettings, windows: WindowSettings) -> list[tuple[str, str]]:
    """(question, context) of every row of a file, with an answer or without."""
    return [row.texts for row in _files(settings, windows, Counter()).read(None).given["train"].rows]


def new_questions(settings: DataSettings, windows: WindowSettings, data: object) -> tuple[Table, list[tuple[str, ...]]]:
    """A table of questions, and each with its context."""
    table = read_new(settings, data, "question", ("question", "context"), read_squad)
    flags = {"question": windows.question_column, "context": windows.context_column}
    pairs = zip(
        *(text_column(table, flags[role], _ROLES[role], f"--windows.{role}-column") for role in flags), strict=True
    )
    return table, list(pairs)


def unlabelled_questions(rows: Sequence[tuple[str, ...]], nullable: bool) -> WindowRows[Question]:
    questions = [
        Question(row, (row[0], row[1]), (), False, f"row {number}", row, 0.0) for number, row in enumerate(rows, 1)
    ]
    return replace(unlabelled_rows(questions, TaskInfo(kind="answer", labels=ENDS)), nullable=nullable)


def _files(settings: DataSettings, windows: WindowSettings, remarks: Counter[str]) -> WindowFiles[Question]:
    return WindowFiles(
        settings,
        "question",
        read_squad,
        partial(_select_table, windows=windows, remarks=remarks),
        partial(_unlabelled, settings, windows),
        _uid,
    )


def _uid(key: Key) -> int:
    return parts_uid("item", key, "")


def _unlabelled(
    settings: DataSettings, windows: WindowSettings, columns: Columns
) -> Iterator[UnlabelledFile[Question]]:
    """The questions of --unlabelled, without any answers. Train's `columns` count first."""
    wanted = {role: columns.get(role) or getattr(windows, f"{role}_column", "") for role in _ROLES}
    gold = {*(wanted[role] for role in _GOLD), *(name for role in _GOLD for name in _ROLES[role])}
    for table in read_unlabelled(settings, "question", partial(read_new, reader=read_squad)):
        kept = {name: cells for name, cells in table.columns.items() if not {name, plain(name)} & gold}
        ignored = next((name for name, cells in table.columns.items() if name not in kept and any(cells)), "")
        flags = {f"{role}_column": wanted[role] if wanted[role] in kept else "" for role in ("question", "context")}
        part, found = _select_table(replace(table, columns=kept), windows.but(**flags, answer_column=""), Counter())
        yield UnlabelledFile(part, found, [*passed_over(table.source, ignored, "question"), *table.notes])


def _select_table(
    table: Table, windows: WindowSettings, remarks: Counter[str]
) -> tuple[RowSelection[Question], dict[str, str]]:
    """The questions of a table, and the columns they come from; `remarks` counts what to mention."""
    flags = {role: getattr(windows, f"{role}_column", "") for role in _ROLES}
    roles = {
        role: "" if flags[role] == NO_LABELS else find_column(table, flags[role], names, _COLUMNS)
        for role, names in _ROLES.items()
    }
    for role in ("question", "context"):
        if not roles[role]:
            raise DataError(
                f"{table.source}: no column is known as the {role}; its columns: {', '.join(table.columns)}",
                f"name it with --windows.{role}-column",
            )
    questions: list[Question] = []
    dropped: Counter[str] = Counter()
    for row in range(len(table)):
        cells = {role: table.columns[name][row] if name else None for role, name in roles.items()}
        where = table.where(row) + (f" (id {table.columns['id'][row]})" if "id" in table.columns else "")
        question, context = (_text(cells[role], roles[role], where) for role in ("question", "context"))
        if not question.strip() or not context.strip():
            dropped["empty question or text"] += 1
            continue
        found = _question(question, context, cells, roles, where, remarks)
        if found.gold and not found.spans:
            dropped["answer that does not occur in its text"] += 1
        else:
            questions.append(found)
    columns = {role: name for role, name in roles.items() if name}
    return RowSelection.of(table, questions, dropped), columns


def _text(value: Any, column: str, where: str) -> str:
    if is_missing(value):
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
    has_label, given = _answers(cells["answer"], cells["start"], roles["start"], where)
    impossible = _flag(cells["impossible"], roles["impossible"], where)
    answers = [] if impossible else [(text, start) for text, start in given if text.strip()]
    if given and not answers and not impossible:
        remarks[EMPTY] += 1
        has_label = False
    spans = [_span(text, start, context, remarks) for text, start in answers]
    return Question(
        key=(question, context),
        texts=(question, context),
        gold=tuple(dict.fromkeys(text for text, _ in answers)),
        has_label=has_label or impossible,
        where=where,
        group=(context,),
        split_hash=parts_split_hash((context,), where),
        spans=tuple(dict.fromkeys(span for span in spans if span)),
    )


def _answers(cell: Any, start: Any, column: str, where: str) -> tuple[bool, list[tuple[str, int | None]]]:
    """Whether there is a label; and the answers, each with its answer_start."""
    cell = unboxed(cell)
    if is_missing(cell):
        return False, []
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise DataError(f"{where}: an answer has no 'text'", 'write {"text": [...], "answer_start": [...]}')
        cell, start, column = unboxed(cell["text"]), cell.get("answer_start"), "answer_start"
    texts = [cell] if isinstance(cell, (str, Mapping)) else list(cell)
    start = unboxed(start)
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


def _is_empty(value: Any) -> bool:
    """An empty cell is None, NaN or blank, by the kind of file."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def _number(value: Any, column: str, where: str) -> int | None:
    """The place in a cell, which a CSV holds as text; None where nobody says."""
    value = unboxed(value)
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
    value = unboxed(value)
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
    places = [match.start() for match in re.finditer(f"(?={re.escape(core)})", context)]  # overlapping ones too
    if not places:
        return None
    if start is None or start < 0:
        remarks[SEVERAL] += len(places) > 1
        return places[0], places[0] + len(core)
    remarks[MOVED] += 1
    near = min(places, key=lambda place: abs(place - start))
    return near, near + len(core)
