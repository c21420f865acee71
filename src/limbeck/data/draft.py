"""The rows of one split on their way from table to examples: emptied of empty texts, named, cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from limbeck.core.errors import DataError
from limbeck.data.columns import Roles
from limbeck.data.labels import Column, column_of
from limbeck.data.table import Table

Key = tuple[str, str]


@dataclass(frozen=True)
class Draft:
    table: Table
    roles: Roles
    rows: list[int]  # the table's rows that are kept
    keys: list[Key]  # (text, pair) of each
    dropped: Counter[str]
    source: str

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Sequence[int] | np.ndarray, source: str) -> Draft:
        chosen = [int(index) for index in indices]
        return replace(self, rows=[self.rows[i] for i in chosen], keys=[self.keys[i] for i in chosen], source=source)

    @cached_property
    def labels(self) -> Column:
        return column_of(self.table, self.roles, self.rows)


def draft(table: Table, roles: Roles) -> Draft:
    texts = _strings(table, roles.text)
    pairs = _strings(table, roles.pair) if roles.pair else [""] * len(texts)
    dropped: Counter[str] = Counter({"blank line": table.blank} if table.blank else {})
    rows = []
    for row, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        if text and not text.isspace() and (not roles.pair or (pair and not pair.isspace())):
            rows.append(row)
        else:
            dropped["empty text"] += 1
    if not rows:
        raise DataError(
            f"{table.source}: every row has an empty text in column '{roles.text}'", "choose another with --text-column"
        )
    return Draft(table, roles, rows, [(texts[row], pairs[row]) for row in rows], dropped, table.source)


def _strings(table: Table, name: str) -> list[str]:
    values = table.columns[name]
    for row, value in enumerate(values):
        if not isinstance(value, str) and not _is_missing(value):
            raise DataError(
                f"{table.where(row)}: column '{name}' holds {type(value).__name__} {str(value)[:40]!r}, not text",
                "choose the text column with --text-column",
            )
    return [value if isinstance(value, str) else "" for value in values]


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # NaN is how pandas writes an empty cell


def uids(drafts: Sequence[Draft]) -> list[np.ndarray]:
    """63 bits of a hash of text, pair and how often that pair of texts came before, in this split or an earlier one."""
    seen: Counter[Key] = Counter()
    named = []
    for part in drafts:
        found = np.empty(len(part), dtype=np.int64)
        for position, key in enumerate(part.keys):
            found[position] = _hash(part, position, b"uid", str(seen[key])) >> 1
            seen[key] += 1
        named.append(found)
    return named


def shares(part: Draft) -> np.ndarray:
    """A number in [0, 1) for each row that depends on its texts alone: equal texts are never cut apart."""
    return np.array([_hash(part, position, b"split", "") for position in range(len(part))], dtype=np.float64) / 2.0**64


def _hash(part: Draft, position: int, purpose: bytes, extra: str) -> int:
    text, pair = part.keys[position]
    try:
        # the length keeps ("ab", "c") apart from ("a", "bc")
        content = f"{len(text)} {extra} {text}{pair}".encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{part.table.where(part.rows[position])}: the text holds half a character ({error.object[error.start]!r})",
            "mend that row: a \\u escape of a pair was cut in two",
        ) from None
    return int.from_bytes(blake2b(content, digest_size=8, person=purpose).digest(), "big")
