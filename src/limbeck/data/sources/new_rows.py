"""Rows to predict: a table without labels, bare texts from Python, or the lines of a plain text file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.data.columns import TEXTS, find_column
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import PLAIN, SUFFIXES, read_file, read_text, suffix_of
from limbeck.data.sources.gather import Reader, gather
from limbeck.data.sources.tables import Table, texts_of


def begins_with_tab(text: str) -> bool:
    """Whether the first line of a text has a tab in it: it is a table."""
    return "\t" in text.partition("\n")[0]


def read_new(
    settings: DataSettings,
    data: object,
    name: str,
    pair: Sequence[str] = (),
    reader: Reader = read_file,
    suffixes: Collection[str] = SUFFIXES,
    is_table: Callable[[str], bool] = begins_with_tab,
) -> Table:
    """One table. Bare texts and the lines of a file get a column `name`, bare pairs two of the names `pair`.

    What a .txt holds tells whether it is a table."""
    source = settings.train if data is None else data
    if isinstance(source, str | Path) and str(source):
        path = Path(source).expanduser()
        if not path.exists() and len(str(source).split()) > 1:
            raise DataError(f"there is no file {str(source)[:60]!r}", 'texts come in a list, as in ["a text"]')
        if path.is_file() and _has_lines(path, settings, suffixes, is_table):
            lines = read_text(path, settings).removesuffix("\n").split("\n")
            return Table(str(path), {name: lines}, range(1, len(lines) + 1))
    found = gather(settings.but(dev="", test=""), _as_columns(data, name, pair), reader, suffixes).tables
    if len(found) > 1:
        raise DataError(f"{next(iter(found.values())).source}: there are several splits", "give the file of one")
    return found["train"]


def _has_lines(path: Path, settings: DataSettings, suffixes: Collection[str], is_table: Callable[[str], bool]) -> bool:
    """Whether a file is plain text, a text per line."""
    suffix = suffix_of(path)
    return suffix not in suffixes or (suffix in PLAIN and not is_table(read_text(path, settings)))


def _as_columns(data: object, name: str, pair: Sequence[str]) -> object:
    if not isinstance(data, list | tuple) or not data:
        return data
    lists = [item for item in data if isinstance(item, list | tuple)]
    if all(isinstance(item, str) for item in data) or (len(lists) == len(data) and not pair):
        return {name: list(data)}
    if all(len(item) == len(pair) for item in lists) and len(lists) == len(data):
        return dict(zip(pair, map(list, zip(*lists, strict=True)), strict=True))
    return data


def new_lines(settings: DataSettings, data: object) -> tuple[Table, list[tuple[str, ...]]]:
    """Texts to go on from, or with [MASK] where a word is left out."""
    table = read_new(settings, data, "text")
    return table, [(text,) for text in text_column(table, settings.text_column, TEXTS, "--text-column")]


def text_column(table: Table, flag: str, known: Sequence[str], knob: str) -> list[str]:
    """The texts of the column that a flag or its name tells, or of the only one; "" where a cell is empty."""
    remedy = f"pass {knob} NAME"
    name = find_column(table, flag, known, remedy) or (next(iter(table.columns)) if len(table.columns) == 1 else "")
    if not name:
        raise DataError(f"{table.source}: no column is known as the text; its columns: {table.listed}", remedy)
    return texts_of(table, name, remedy)
