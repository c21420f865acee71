"""Parallel texts: two plain files, line by line, or any table."""

from __future__ import annotations

from itertools import takewhile
from operator import eq
from pathlib import Path

from limbeck.core.errors import DataError, KnobError
from limbeck.data.seq2seq.columns import ParallelTable, find_pair_columns
from limbeck.data.settings import DataSettings, ParallelSettings
from limbeck.data.sources.files import SUFFIXES, read_file, suffix_of
from limbeck.data.sources.gather import gather
from limbeck.data.sources.tables import Table
from limbeck.data.sources.text import PLAIN, read_text


def gather_pairs(
    settings: DataSettings, pairs: ParallelSettings, data: object | None = None
) -> tuple[dict[str, ParallelTable], list[str]]:
    """The parallel table of each split, and notes."""
    source = settings.train if data is None else data
    path = Path(source).expanduser() if isinstance(source, (str, Path)) and str(source) else None
    _refuse(path, settings, pairs)
    notes: list[str] = []
    if path and pairs.target:
        found = {"train": _two_files(path, Path(pairs.target).expanduser(), settings)}
    else:
        given = gather(settings.but(dev="", test=""), data)
        notes.extend(given.notes)
        found = {"train": find_pair_columns(given.tables["train"], settings, pairs)}
        for split in [split for split in ("dev", "test") if split in given.tables]:
            found[split] = find_pair_columns(given.tables[split], settings, pairs, found["train"].columns)
    for split, name in (("dev", settings.dev), ("test", settings.test)):
        if name:
            file = Path(name).expanduser()
            target = _target_of(file, split, path, pairs)
            if target:
                found[split] = _two_files(file, target, settings)
            else:
                found[split] = find_pair_columns(read_file(file, settings), settings, pairs, found["train"].columns)
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


def _refuse(path: Path | None, settings: DataSettings, pairs: ParallelSettings) -> None:
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
    if names and not any(suffix_of(Path(name)) in SUFFIXES for name in names):
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
