"""Which column is the source and which the target: named by flag, found by name, or first and second."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.columns import is_known, plain
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.files import suffix_of
from limbeck.data.sources.tables import Table, is_missing, texts_of

# fmt: off
# The first name of each wins where several of them are present; any other tie is refused.
SOURCES = (
    "source", "src", "source_text", "source_sentence", "text", "sentence", "input", "article", "document", "dialogue",
    "en", "english",
)
TARGETS = (
    "target", "tgt", "target_text", "target_sentence", "translation", "summary", "output", "highlights", "de", "german",
)
# fmt: on
Columns = tuple[str, str]  # the names of source and target
_KNOBS = "--parallel.source-column and --parallel.target-column"
_NAME = re.compile(r"[A-Za-z]([\w.-]{0,30}\w)?", re.ASCII)
_LANGUAGE = re.compile(r"[a-z]{2}([_-][A-Za-z]{2,4})?")  # fr, pt-BR, zh_Hans


@dataclass(frozen=True)
class ParallelTable:
    table: Table  # with a column `source` and a column `target`, both texts
    columns: Columns  # what they were read from
    notes: tuple[str, ...] = ()


def find_pair_columns(
    table: Table, settings: DataSettings, pairs: ParallelSettings, follow: Columns | None = None
) -> ParallelTable:
    """Source and target. A further split may `follow` train and yet name its columns differently."""
    table, notes = _with_first_line(table, settings, pairs, follow)
    table, inside = _unfolded(table)
    names = follow if follow and set(follow) <= table.columns.keys() else _choose(table, pairs, inside)
    source, target = (_texts(table, name) for name in names)
    return ParallelTable(replace(table, columns={"source": source, "target": target}), names, notes)


def _with_first_line(
    table: Table, settings: DataSettings, pairs: ParallelSettings, follow: Columns | None
) -> tuple[Table, tuple[str, ...]]:
    """The first line of a CSV or TSV as a row again if it reads like texts; and a note where no flag decides."""
    names, flags = list(table.columns), [name for name in (pairs.source_column, pairs.target_column) if name]
    delimited = suffix_of(Path(table.source)) in (".csv", ".tsv", ".txt")
    if settings.header != "auto" or not delimited or names[0] == "1" or _is_header(names, flags, follow):
        return table, ()
    if not flags and _may_be_header(names):
        note = f"{table.source}: its first line is read as names of columns; if it is a row, pass --data.header no"
        return table, (note,)
    columns = {str(number): [name, *table.columns[name]] for number, name in enumerate(names, 1)}
    note = f"{table.source}: its first line is read as a row; if it names the columns, pass --data.header yes"
    return replace(table, columns=columns, lines=[1, *table.lines]), (note,)


def _is_header(names: Sequence[str], flags: Sequence[str], follow: Columns | None) -> bool:
    """Whether a flag names a column, or both names are those of train or known ones."""
    if flags:
        return not all(map(str.isdecimal, flags))
    if follow and set(follow) <= set(names):
        return True
    lower = set(map(plain, names))
    both = not lower.isdisjoint(SOURCES) and not lower.isdisjoint(TARGETS)
    return both or all(map(_is_known, names))


def _may_be_header(names: Sequence[str]) -> bool:
    """Of two columns, one known name is too little: the first texts may be single words. More columns need names in
    any case, so a row taken for names is refused and not lost."""
    if len(names) == 2:
        return all(_is_known(name) or _LANGUAGE.fullmatch(name) for name in names)
    return any(map(_is_known, names)) or all(map(_NAME.fullmatch, names))


def _is_known(name: str) -> bool:
    return is_known(name) or plain(name) in (*SOURCES, *TARGETS)


def _unfolded(table: Table) -> tuple[Table, tuple[str, ...]]:
    """A column of {"en": …, "de": …}, as `datasets` has translations, becomes one for each key; and these keys."""
    folded = [name for name, values in table.columns.items() if any(isinstance(value, Mapping) for value in values)]
    if len(folded) != 1:
        return table, ()
    values = table.columns[folded[0]]
    for row, value in enumerate(values):
        if not isinstance(value, Mapping) and not is_missing(value):
            raise DataError(
                f"{table.where(row)}: column '{folded[0]}' holds {type(value).__name__} {str(value)[:40]!r}, where "
                "other rows have a text per language",
                'write each row as {"en": …, "de": …}',
            )
    rows: list[Mapping[str, Any]] = [value if isinstance(value, Mapping) else {} for value in values]
    keys = tuple(dict.fromkeys(key for row in rows for key in row))
    others = {name: column for name, column in table.columns.items() if name != folded[0]}
    return replace(table, columns={**others, **{key: [row.get(key) for row in rows] for key in keys}}), keys


def _choose(table: Table, pairs: ParallelSettings, inside: tuple[str, ...]) -> Columns:
    """`inside` are the keys of a column that held both texts: their order speaks, not their names."""
    given = pairs.source_column, pairs.target_column
    for name in filter(None, given):
        if name not in table.columns:
            raise DataError(f"{table.source} has no column '{name}'; its columns: {table.listed}", f"pass {_KNOBS}")
    if given[0] and given[0] == given[1]:
        raise DataError(f"{table.source}: source and target are both column '{given[0]}'", f"pass {_KNOBS}")
    source, target = given if inside else (_by_name(table, SOURCES, given), _by_name(table, TARGETS, given[::-1]))
    own = inside or tuple(table.columns)
    if len(own) == 2 or (len(inside) > 2 and not any(given)):
        source = source or next(name for name in own if name != target)
        target = target or next(name for name in own if name != source)
    if not (source and target):
        raise DataError(
            f"{table.source}: source and target columns are not known; its columns: {table.listed}",
            f"pass {_KNOBS}; or, if it holds the sources alone, --target with the file of their translations",
        )
    return source, target


def _by_name(table: Table, known: Sequence[str], given: Columns) -> str:
    """The first of `given` if there is one; else a column of a known name that the second does not claim."""
    if given[0]:
        return given[0]
    names = {plain(name): name for name in table.columns if name != given[1]}
    found = [name for name in known if name in names]
    return names[found[0]] if len(found) == 1 or known[0] in found else ""


def _texts(table: Table, name: str) -> list[str]:
    """Without the white space at their ends; "" where there is none."""
    texts = texts_of(table, name, f"choose the columns with {_KNOBS}")
    for row, text in enumerate(texts):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(
                f"{table.where(row)}: column '{name}' holds half a character",
                "mend that row: a \\u escape of a pair was cut in two",
            )
    return [text.strip() for text in texts]
