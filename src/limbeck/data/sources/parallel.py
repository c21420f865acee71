"""Parallel texts: two plain files, line by line, or any table, in which a column is the source and one the target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError, KnobError
from limbeck.data.columns import check_column, is_known, plain
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.files import PLAIN, SUFFIXES, format_of, read_file, read_text, suffix_of
from limbeck.data.sources.gather import gather
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


def gather_pairs(
    settings: DataSettings, pairs: ParallelSettings, data: object | None = None
) -> tuple[dict[str, ParallelTable], list[str]]:
    """The parallel table of each split, and notes. Where --unlabelled stands for --data, there is no train."""
    source = settings.train if data is None else data
    path = Path(source).expanduser() if isinstance(source, (str, Path)) and str(source) else None
    check_parallel(path, settings, pairs)
    notes: list[str] = []
    found: dict[str, ParallelTable] = {}
    if path and pairs.target:
        found["train"] = _two_files(path, Path(pairs.target).expanduser(), settings)
    elif path or data is not None or not settings.unlabelled:
        given = gather(settings.but(dev="", test=""), data)
        notes.extend(given.notes)
        found["train"] = _find_columns(given.tables["train"], settings, pairs)
        for split in [split for split in ("dev", "test") if split in given.tables]:
            found[split] = _find_columns(given.tables[split], settings, pairs, found["train"].columns)
    elif not (settings.dev and settings.test):
        raise KnobError(
            f"--unlabelled {settings.unlabelled} has no targets, so nothing can be measured on it",
            "give texts with their targets, in --data or in both --data.dev and --data.test",
        )
    follow = found["train"].columns if found else None
    for split, name in (("dev", settings.dev), ("test", settings.test)):
        if name:
            file = Path(name).expanduser()
            target = _target_of(file, split, path, pairs)
            if target:
                found[split] = _two_files(file, target, settings)
            else:
                found[split] = _find_columns(read_file(file, settings), settings, pairs, follow)
    return found, [*notes, *(note for part in found.values() for note in part.notes)]


def timing_sources(settings: DataSettings, pairs: ParallelSettings) -> list[tuple[str, str]]:
    """(source, "") of every row of a table, or of every line of a file that is none; with targets or without."""
    path = Path(settings.train).expanduser()
    if path.is_file() and (suffix_of(path) not in SUFFIXES or suffix_of(path) in PLAIN):
        sources = _lines(path, settings)
    else:
        given, _ = gather_pairs(settings.but(dev="", test=""), pairs.but(target="", dev_target="", test_target=""))
        sources = list(given["train"].table.columns["source"])
    return [(pairs.prefix + source, "") for source in sources if source]


def check_parallel(path: Path | None, settings: DataSettings, pairs: ParallelSettings) -> None:
    """Refuses flags that contradict each other, and a file of texts without its targets."""
    for split, file, target in (
        ("dev", settings.dev, pairs.dev_target),
        ("test", settings.test, pairs.test_target),
    ):
        if target and not file:
            raise KnobError(
                f"--parallel.{split}-target is {target}, and there is no --data.{split}",
                f"give its sources with --data.{split}",
            )
    if pairs.target and (path is None or path.is_dir()):
        raise DataError(
            f"--target is a file, {pairs.target}, and --data {f'is the folder {path}' if path else 'is none'}",
            "give two files, as in --data train.en --target train.de; or leave out --target",
        )
    if path is None or pairs.target:
        return
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else [path.name] if path.exists() else []
    readable = any(suffix_of(Path(name)) in SUFFIXES for name in names) or (path.is_file() and format_of(path))
    if names and not readable:
        what = f"{path} holds no table, but {', '.join(names[:6])}" if path.is_dir() else f"{path} is no table"
        raise DataError(what, "give two files, as in --data train.en --target train.de; or a CSV, TSV or JSONL")


def _two_files(source: Path, target: Path, settings: DataSettings) -> ParallelTable:
    left, right = _lines(source, settings), _lines(target, settings)
    if source.resolve() == target.resolve():
        raise DataError(f"source and target are both {source}", "give the file with its translations with --target")
    if len(left) != len(right):
        raise DataError(
            f"{source} has {len(left):,} lines, but {target} has {len(right):,}: which belong together is unknown",
            "give two files in which line n of one is the translation of line n of the other",
        )
    if not left:
        raise DataError(f"{source} and {target} are empty", "give two files with a text per line")
    table = Table(f"{source} and {target}", {"source": left, "target": right}, range(1, len(left) + 1))
    return ParallelTable(table, (source.name, target.name))


def _lines(path: Path, settings: DataSettings) -> list[str]:
    """Only line feeds end a line, or carriage returns where there are none: texts may hold other separators."""
    lines = read_text(path, settings).split("\n")
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def _target_of(file: Path, split: str, train: Path | None, pairs: ParallelSettings) -> Path | None:
    """The file with the targets of dev or test; none if that one is a table that holds both."""
    named = {"dev": pairs.dev_target, "test": pairs.test_target}[split]
    if named:
        return Path(named).expanduser()
    likely = _likely(file, train, Path(pairs.target).expanduser()) if train and pairs.target else []
    for path in likely:
        if path.is_file():
            return path
    known = suffix_of(file) in SUFFIXES and not (pairs.target and suffix_of(file) in PLAIN)
    if known or not file.exists():
        return None
    looked = f" (there is no {likely[0]})" if likely else ""
    raise DataError(
        f"{file}: its targets are neither given nor found{looked}",
        f"name it with --parallel.{split}-target",
    )


def _likely(file: Path, source: Path, target: Path) -> list[Path]:
    """What is to `file` as `target` is to `source`: the same name with the other ending, or in the other folder."""
    name, here, there = (path.name.removesuffix(".gz") for path in (file, source, target))
    shared = len(list(takewhile(bool, map(eq, here, there))))
    if not name.endswith(here[shared:]):
        return []
    other = name.removesuffix(here[shared:]) + there[shared:]
    folder = file.parent if source.parent == target.parent else target.parent
    ends = (".gz", "") if file.name.endswith(".gz") else ("", ".gz")
    return [path for end in ends if (path := folder / f"{other}{end}") != file]


def _find_columns(
    table: Table, settings: DataSettings, pairs: ParallelSettings, follow: Columns | None = None
) -> ParallelTable:
    """Source and target. A further split may `follow` train and yet name its columns differently."""
    table, notes = _with_first_line(table, settings, pairs, follow)
    table, inside = _unfolded(table)
    names = follow if follow and set(follow) <= table.columns.keys() else _choose(table, pairs, inside)
    source, target = (_stripped(table, name) for name in names)
    return ParallelTable(replace(table, columns={"source": source, "target": target}), names, notes)


def sources_alone(
    table: Table, settings: DataSettings, pairs: ParallelSettings, follow: Columns | None
) -> ParallelTable:
    """Sources for a teacher to translate. A column of targets is passed over, and a note says so."""
    listed, notes = table.listed, tuple[str, ...]()
    if not _named_source(table, pairs, follow):
        table, notes = _with_first_line(table, settings, pairs, follow)
    table, inside = _unfolded(table)
    only = tuple(table.columns) if len(table.columns) == 1 else ()
    source = _named_source(table, pairs, follow, inside) or "".join(only)
    if not source:
        raise DataError(
            f"{table.source}: no column is known as the source; its columns: {listed}",
            "call it 'source', or pass --parallel.source-column",
        )
    targets = (*(follow or ())[1:], pairs.target_column, *(name for name in table.columns if plain(name) in TARGETS))
    target = next((name for name in targets if name in table.columns and name != source), "")
    if target:
        notes = (*notes, f"{table.source}: its column '{target}' is ignored; the teacher translates these sources")
    found = replace(table, columns={"source": _stripped(table, source)})
    return ParallelTable(found, (source, target), (*table.notes, *notes))


def _named_source(table: Table, pairs: ParallelSettings, follow: Columns | None, inside: tuple[str, ...] = ()) -> str:
    """The column of train's name, of the flag or of a known name, or the first `inside` another; "" where none is."""
    named = (*(follow or ())[:1], pairs.source_column, *inside[:1])
    return next((name for name in named if name in table.columns), "") or _by_name(table, SOURCES, ("", ""))


def _with_first_line(
    table: Table, settings: DataSettings, pairs: ParallelSettings, follow: Columns | None
) -> tuple[Table, tuple[str, ...]]:
    """The first line of a CSV or TSV as a row again if it reads like texts; and a note where no flag decides."""
    names, flags = list(table.columns), [name for name in (pairs.source_column, pairs.target_column) if name]
    delimited = format_of(Path(table.source)) in (".csv", ".tsv", ".txt")
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
    for name in given:
        check_column(table, name, f"pass {_KNOBS}")
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


def _stripped(table: Table, name: str) -> list[str]:
    """Without the white space at their ends; "" where there is none."""
    texts = texts_of(table, name, f"choose the columns with {_KNOBS}")
    for row, text in enumerate(texts):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(
                f"{table.where(row)}: column '{name}' holds half a character",
                "mend that row: a \\u escape of a pair was cut in two",
            )
    return [text.strip() for text in texts]
