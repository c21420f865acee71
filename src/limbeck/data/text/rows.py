"""Texts and pairs of texts as a table holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from limbeck.core.errors import DataError
from limbeck.data.columns import Roles
from limbeck.data.sources.tables import Table, texts_of
from limbeck.data.splits import RowSelection
from limbeck.data.text.answers import answer_cells
from limbeck.data.text.labels import Cell, label_cells
from limbeck.data.uids import text_split_hash


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text or a pair of texts, as a table holds it."""

    text: str
    pair: str
    where: str
    split_hash: float
    label: Cell = None
    has_label: bool = False
    answer: Any = None  # a teacher's, where the table has some

    @classmethod
    def of(cls, table: Table, index: int, text: str, pair: str = "", label: Cell = None, answer: Any = None) -> Self:
        where = table.where(index)
        return cls(text, pair, where, text_split_hash(text, pair, where), label, label is not None, answer)

    @property
    def key(self) -> tuple[str, str]:
        return self.text, self.pair


def select_texts(table: Table, roles: Roles) -> RowSelection[TextRow]:
    """The rows whose texts are not empty, with their labels."""
    texts, pairs = (
        texts_of(table, name, "choose the text column with --text-column") if name else [""] * len(table)
        for name in (roles.text, roles.pair)
    )
    full = [row for row in range(len(table)) if texts[row].strip() and (not roles.pair or pairs[row].strip())]
    if not full:
        raise DataError(
            f"{table.source}: every row has an empty text in column '{roles.text}'", "choose another with --text-column"
        )
    labels = label_cells(table, roles, full) if roles.labels else [None] * len(full)
    answers = answer_cells(table, roles.teacher, full) if roles.teacher else [None] * len(full)
    known = zip(full, labels, answers, strict=True)
    rows = [TextRow.of(table, row, texts[row], pairs[row], label, answer) for row, label, answer in known]
    dropped = {"empty text": len(table) - len(rows)}
    if roles.teacher:
        rows = [row for row in rows if row.has_label or row.answer is not None]
        dropped["neither a label nor a teacher's answer"] = len(full) - len(rows)
    return RowSelection.of(table, rows, dropped)
