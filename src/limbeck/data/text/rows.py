"""Texts and pairs of texts, as rows of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from limbeck.core.errors import DataError
from limbeck.data.columns import Roles
from limbeck.data.sources.tables import Table, texts_of
from limbeck.data.splits import RowSelection
from limbeck.data.text.labels import Cell
from limbeck.data.uids import text_split_hash


@dataclass(frozen=True, slots=True)
class TextRow:
    table: Table
    index: int  # in the table
    text: str
    pair: str = ""
    label: Cell = None

    @property
    def key(self) -> tuple[str, str]:
        return self.text, self.pair

    @property
    def where(self) -> str:
        return self.table.where(self.index)

    @property
    def has_label(self) -> bool:
        return self.label is not None

    @property
    def split_hash(self) -> float:
        return text_split_hash(self.text, self.pair, self.where)


def select_texts(table: Table, roles: Roles) -> RowSelection[TextRow]:
    """The rows whose texts are not empty."""
    texts, pairs = (
        texts_of(table, name, "choose the text column with --text-column") if name else [""] * len(table)
        for name in (roles.text, roles.pair)
    )
    rows = [
        TextRow(table, index, text, pair)
        for index, (text, pair) in enumerate(zip(texts, pairs, strict=True))
        if text.strip() and (not roles.pair or pair.strip())
    ]
    if not rows:
        raise DataError(
            f"{table.source}: every row has an empty text in column '{roles.text}'", "choose another with --text-column"
        )
    dropped = Counter({"blank line": table.blank, "empty text": len(table) - len(rows)})
    return RowSelection(rows, table.source, +dropped, len(table) + table.blank)
