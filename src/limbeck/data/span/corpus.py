"""Extractive QA: questions read, split, and cut into windows of tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import ENDS, TaskInfo
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.gather import Tables, gather
from limbeck.data.sources.squad import read_squad
from limbeck.data.span.questions import Question, select_questions
from limbeck.data.span.windows import answer_windows, room_for
from limbeck.data.splits import RowSelection, divide, in_order, log_card, whole_as_test
from limbeck.data.windows import WindowCorpus, WindowRows, build_rows, check_fast, encode_windows, limit_train


def read_questions(
    settings: DataSettings, windows: WindowSettings, data: object | None = None, only_test: bool = False
) -> WindowRows[Question]:
    """Questions in train, dev and test. With `only_test` the whole file is the test split."""
    remarks: Counter[str] = Counter()
    tables, given, columns = _select(settings, windows, data, remarks)
    if only_test:
        given = whole_as_test(given, "name the column with --windows.answer-column")
    division = divide(given, settings, "paragraph", tables.named)
    notes = [*tables.notes, *division.notes]
    division = limit_train(division, settings.limit, notes)
    notes += [f"{count:,} {what}" for what, count in (+remarks).items()]
    nullable = any(row.impossible for part in division.parts.values() for row in part.rows)
    return build_rows(division, TaskInfo(kind="answer", labels=ENDS), columns, notes, "paragraph", nullable)


def encode_questions(
    found: WindowRows[Question],
    tokenizer: Any,
    settings: DataSettings,
    windows: WindowSettings,
    watcher: Watcher = Silent(),  # noqa: B008
) -> WindowCorpus:
    """Cuts into windows; logs what was chosen and what became of every row."""
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    room = room_for(length, windows.longest_question, windows.stride, tokenizer)
    rows, notes = encode_windows(
        found,
        length,
        lambda part, times: answer_windows(part, times, tokenizer, room, found.nullable),
        "texts hold no token",
    )
    if truncated := sum(part.truncated for part in rows.values()):
        notes.append(f"{truncated:,} questions are cut to {room.question} tokens")
    if (room.question, room.stride) != (windows.longest_question, windows.stride):
        notes.append(
            f"of {length} tokens a question gets {room.question} at most and windows share {room.stride}; "
            "more needs a larger --data.max-length"
        )
    card = found.card.but(truncated=truncated, notes=[*found.card.notes, *notes])
    log_card(watcher, card, str(found.task), unit="questions")
    return WindowCorpus(**rows, card=card, task=found.task, rows=found)


def timing_questions(settings: DataSettings, windows: WindowSettings) -> list[tuple[str, str]]:
    """(question, context) of every row of a file, with an answer or without."""
    return [row.texts for row in _select(settings, windows, None, Counter())[1]["train"].rows]


def _select(
    settings: DataSettings, windows: WindowSettings, data: object | None, remarks: Counter[str]
) -> tuple[Tables, dict[str, RowSelection[Question]], dict[str, str]]:
    tables = gather(settings, data, read_squad)
    found = {split: select_questions(table, windows, remarks) for split, table in in_order(tables.tables).items()}
    return tables, {split: part for split, (part, _) in found.items()}, next(columns for _, columns in found.values())
