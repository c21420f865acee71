"""CoNLL files: a word and its tags per line, blank lines between sentences."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from limbeck.core.errors import DataError, KnobError
from limbeck.data.columns import NO_LABELS
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.sources.files import SUFFIXES as TABLES
from limbeck.data.sources.files import file_text, format_of, suffix_of
from limbeck.data.sources.tables import Table

SUFFIXES = (".conll", ".bio", ".iob", ".iob2", ".txt")
_BLANKS = re.compile(r"[ \t]+")  # words may hold any other space of Unicode
_START = "-DOCSTART-"
_GAP = re.compile(r"\S[^\S\n]*\n[^\S\n]*\n\s*\S")  # a blank line between others
_LOOK = 200_000  # characters that tell what a file holds
_ALIKE = 0.8  # the share of lines of one width that sentences do not reach

Line = tuple[int, list[str]]


def is_conll(path: Path) -> bool:
    """By its suffix; of a file whose suffix says nothing, unless it is JSON or Parquet, which can hold lists."""
    known = suffix_of(path) in (*SUFFIXES, *TABLES) or not path.is_file()
    return suffix_of(path) in SUFFIXES if known else format_of(path) not in (".json", ".parquet")


def has_word_lines(text: str) -> bool:
    """Whether a text has a word on each line, as CoNLL has, rather than a sentence.

    Every line is one word; or nearly all have as many fields as each other (the rest are slips, for `read_conll` to
    point at), and there are tabs between fields or blank lines between sentences."""
    head = text[:_LOOK]
    widths = Counter(len(fields) for _, fields in _lines(head) if fields)
    alike = max(widths.values(), default=0)
    apart = "\t" in head or _GAP.search(head)
    return set(widths) == {1} or bool(apart and alike > _ALIKE * widths.total())


def read_conll(path: Path, settings: DataSettings, windows: WindowSettings) -> Table:
    """One row per sentence: its words, and its tags unless the file has one column only.

    Columns have the names that the flags use, so that they are found by them."""
    sentences = _sentences(_lines(file_text(path, settings)), str(path))
    if not sentences:
        raise DataError(f"{path} holds no sentence", "give a file with a word and its tag on every line")
    width = len(sentences[0][0][1])
    word = _column(windows.word_column, 0, width, "word_column", str(path))
    columns = {windows.word_column or "tokens": _values(sentences, word)}
    if width > 1 and windows.tag_column != NO_LABELS:
        tag = _column(windows.tag_column, width - 1, width, "tag_column", str(path))
        columns[windows.tag_column or "tags"] = _values(sentences, tag)
    return Table(str(path), columns, lines=[sentence[0][0] for sentence in sentences])


def _lines(text: str) -> list[Line]:
    """Number and fields of every line; no fields where a sentence ends. Comments are left out.

    A comment starts with # and has another number of fields than the words, of which one may be # itself."""
    lines = [(number, line.strip("\r\n")) for number, line in enumerate(text.split("\n"), 1)]
    found = [(number, _fields(line)) for number, line in lines]
    widths = Counter(len(fields) for _, fields in found if fields and not fields[0].startswith((_START, "#")))
    usual = widths.most_common(1)[0][0] if widths else 0
    return [
        (number, [] if fields and fields[0].startswith(_START) else fields)
        for number, fields in found
        if not (fields and fields[0].startswith("#") and len(fields) != usual)
    ]


def _fields(line: str) -> list[str]:
    if not line.strip():
        return []
    return [field.strip() for field in line.split("\t")] if "\t" in line else _BLANKS.split(line.strip(" "))


def _sentences(lines: list[Line], source: str) -> list[list[Line]]:
    found: list[list[Line]] = [[]]
    width = 0
    for number, fields in lines:
        if not fields:
            found += [[]] if found[-1] else []
            continue
        width = width or len(fields)
        if len(fields) != width:
            raise DataError(
                f"{source}, line {number} (sentence {len(found)}): {len(fields)} column{'s' * (len(fields) > 1)}, "
                f"but {width} before",
                "give every line the word, its tags, and as many columns as the first",
            )
        found[-1].append((number, fields))
    return found if found[-1] else found[:-1]


def _values(sentences: list[list[Line]], column: int) -> list[list[str]]:
    return [[fields[column] for _, fields in sentence] for sentence in sentences]


def _column(flag: str, default: int, width: int, knob: str, source: str) -> int:
    if not flag:
        return default
    if not flag.isdecimal() or not 1 <= int(flag) <= width:
        raise KnobError(
            f"knob 'windows.{knob}' cannot be '{flag}': {source} has {width} columns without names",
            f"give a number from 1 to {width}",
        )
    return int(flag) - 1
