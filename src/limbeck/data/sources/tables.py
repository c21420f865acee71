"""A table: the rows of a file as they stand there, with the line of each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limbeck.core.errors import DataError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Table:
    source: str
    columns: dict[str, list[Any]]
    lines: Sequence[int] = ()  # the line each row starts on, for files that have lines
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # column → class names its integers stand for
    blank: int = 0  # empty lines, skipped
    notes: tuple[str, ...] = ()  # how the file was read, where its name does not say

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def listed(self) -> str:
        return ", ".join(f"'{name}'" for name in self.columns)

    def where(self, row: int) -> str:
        return f"{self.source}, line {self.lines[row]}" if self.lines else f"{self.source}, row {row + 1}"


def distinct(names: Sequence[str], source: str) -> None:
    """Refuses two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{source} has {Counter(names)[twice[0]]} columns named '{twice[0]}'",
            "rename all but one; if the first line is not a header, pass --data.header no",
        )


def checked(table: Table) -> Table:
    if not len(table):
        raise DataError(f"{table.source} has no rows", "give a file with a header and at least one row")
    return table


def from_records(rows: Sequence[Any], source: str, lines: Sequence[int] = ()) -> Table:
    """A table from dictionaries. A key that a row lacks is an empty cell."""
    names: dict[str, None] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            place = f"line {lines[index]}" if lines else f"row {index + 1}"
            raise DataError(
                f"{source}, {place} is a {type(row).__name__}, not an object with named fields",
                'write each row as {"text": …, "label": …}',
            )
        names.update(dict.fromkeys(row))
    columns = {str(name): [row.get(name) for row in rows] for name in names}
    return checked(Table(source, columns, lines))


def from_columns(columns: Mapping[Any, Any], source: str) -> Table:
    lists = {str(name): list(unboxed(values)) for name, values in columns.items()}
    if len({len(values) for values in lists.values()}) > 1:
        sizes = ", ".join(f"{name}: {len(values)}" for name, values in lists.items())
        raise DataError(f"{source} has columns of different lengths ({sizes})", "give every column one value per row")
    return checked(Table(source, lists))


def from_frame(frame: Any, source: str) -> Table:
    """A pandas DataFrame, or whatever has its `columns`."""
    names = [str(name) for name in frame.columns]
    distinct(names, source)
    return from_columns({name: frame[key] for name, key in zip(names, frame.columns, strict=True)}, source)


def from_arrow(table: Any, source: str) -> Table:
    """A pyarrow Table; the class names that `datasets` writes into its schema are kept."""
    distinct(table.column_names, source)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return checked(Table(source, columns, names=_class_names(table.schema.metadata or {})))


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, tuple[str, ...]]:
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features") or {}
    inner = {name: feature.get("feature", feature) for name, feature in features.items() if isinstance(feature, dict)}
    return {
        name: tuple(feature["names"])
        for name, feature in inner.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


def unboxed(value: Any) -> Any:
    """Plain Python for what NumPy and pandas hold as arrays and scalars."""
    return value.tolist() if hasattr(value, "tolist") else value


def is_missing(value: Any) -> bool:
    return value is None or value != value  # NaN is how pandas writes an empty cell


def texts_of(table: Table, name: str, remedy: str) -> list[str]:
    """The cells of a column, "" where one is empty. Anything but text is refused."""
    values = table.columns[name]
    for row, value in enumerate(values):
        if not isinstance(value, str) and not is_missing(value):
            raise DataError(
                f"{table.where(row)}: column '{name}' holds {type(value).__name__} {str(value)[:40]!r}, not text",
                remedy,
            )
    return [value if isinstance(value, str) else "" for value in values]
