"""CSV and TSV: which character separates, whether quotes quote, whether the first line is a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from limbeck.core.errors import DataError
from limbeck.data.columns import is_known
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import NUMBER, Table, checked, distinct

_LOOK = 20  # lines to find the separator in
_FIELD_LIMIT = 2**31 - 1  # the csv module's own limit is 131,072 characters
_OPENING = re.compile(r'(?:^|\t)"', re.MULTILINE)
_QUOTED = re.compile(r'(?:^|\t)"(?:[^"\n]|"")*"(?=\t|\r?$)', re.MULTILINE)


def parse(text: str, suffix: str, source: str, settings: DataSettings) -> Table:
    delimiter = _delimiter(text, suffix)
    quoted = _quoted(text, delimiter) if settings.quoting == "auto" else settings.quoting == "csv"
    rows, lines = _csv(text, delimiter, source) if quoted else _raw(text, delimiter)
    blank = sum(not row for row in rows)
    full = [(row, line) for row, line in zip(rows, lines, strict=True) if row]
    if not full:
        raise DataError(f"{source} is empty", "give a file with a header and at least one row")
    named = _has_header(full[0][0], settings)
    names = [name.strip() for name in full[0][0]] if named else [str(n + 1) for n in range(len(full[0][0]))]
    distinct(names, source)
    body = full[1:] if named else full
    if not body:
        raise DataError(
            f"{source} has a header ({', '.join(names)}) and no rows",
            "add rows; if the first line is not a header, pass --data.header no",
        )
    _refuse_ragged(body, names, source, quoted)
    columns = dict(zip(names, map(list, zip(*(row for row, _ in body), strict=True)), strict=True))
    return checked(Table(source, columns, [line for _, line in body], blank=blank))


def sniff(text: str) -> str:
    """The suffix of a table whose first lines have the same number of fields, two or more; "" for anything else."""
    lines = [line for line in text.split("\n")[:_LOOK] if line.strip()]
    delimiter = _delimiter(text, ".csv")
    try:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter, strict=True)}
    except csv.Error:
        widths = {line.count(delimiter) + 1 for line in lines}
    if len(lines) < 2 or len(widths) > 1 or widths == {1}:
        return ""
    return ".tsv" if delimiter == "\t" else ".csv"


def _delimiter(text: str, suffix: str) -> str:
    """By suffix, unless the lines say otherwise: `.csv` files with tabs or semicolons are common."""
    if suffix != ".csv":
        return "\t"
    lines = [line for line in text[:200_000].split("\n") if line.strip()][:_LOOK]
    tabs = {line.count("\t") for line in lines}
    if len(tabs) == 1 and tabs != {0}:
        return "\t"
    return ";" if lines and ";" in lines[0] and "," not in lines[0] else ","


def _quoted(text: str, delimiter: str) -> bool:
    """A TSV is quoted only if every field that opens with a quote also closes with one; GLUE's files are raw."""
    if delimiter != "\t":
        return True
    opening = sum(1 for _ in _OPENING.finditer(text))
    return opening > 0 and opening == sum(1 for _ in _QUOTED.finditer(text))


def _raw(text: str, delimiter: str) -> tuple[list[list[str]], Sequence[int]]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    return [line.split(delimiter) if line else [] for line in lines], range(1, len(lines) + 1)


def _csv(text: str, delimiter: str, source: str) -> tuple[list[list[str]], Sequence[int]]:
    csv.field_size_limit(_FIELD_LIMIT)
    # strict, because otherwise a quote that is never closed swallows the rest of the file as one field
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            rows.append(row)
            lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f'{source}, line {start}: a quote (") is opened and not closed as CSV asks ({error})',
            "double the quotes inside the field, or pass --data.quoting none if quotes are part of the text",
        ) from None
    return rows, lines


def _has_header(first: Sequence[str], settings: DataSettings) -> bool:
    """A header holds a name that a flag gives or that is well known; or at least no numbers and no blanks."""
    if settings.header != "auto":
        return settings.header == "yes"
    cells = [cell.strip() for cell in first]
    flags = {settings.text_column, settings.pair_column, *settings.label_column.split(",")} - {""}
    if any(map(is_known, cells)):
        return True
    if flags and all(name.isdigit() and int(name) <= len(cells) for name in flags):
        return cells == [str(number + 1) for number in range(len(cells))]  # a label may be 1 too
    if flags & set(cells):
        return True
    if any(name.isdigit() for name in flags):
        return False
    return all(cell and not NUMBER.fullmatch(cell) for cell in cells)


def _refuse_ragged(body: Sequence[tuple[list[str], int]], names: Sequence[str], source: str, quoted: bool) -> None:
    for row, line in body:
        if len(row) != len(names):
            other = "none if quotes are part of the text" if quoted else "csv if quotes wrap the fields"
            raise DataError(
                f"{source}, line {line} has {len(row)} fields, but there are {len(names)} columns ({', '.join(names)})",
                f"mend that line; or pass --data.quoting {other}",
            )
