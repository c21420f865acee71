"""Files of texts without labels, for a teacher to answer: tables, plain text, folders of text files, saved datasets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from limbeck.core.errors import DataError, KnobError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import PLAIN, SUFFIXES, missing, read_file, read_text, suffix_of
from limbeck.data.sources.gather import Reader, Tables, files_in, locate
from limbeck.data.sources.tables import Table

NOT_HERE = "it is for `limbeck distill`, `compare` and `compress`, where a teacher answers the texts"


def check_unlabelled(settings: DataSettings, suffixes: Collection[str] = SUFFIXES) -> None:
    """Refuses a file that is not there, or that is measured on as well."""
    for source in settings.unlabelled_sources:
        path = Path(source).expanduser()
        for flag, held_out in (("dev", settings.dev), ("test", settings.test)):
            if held_out and _same(path, Path(held_out).expanduser()):
                raise KnobError(
                    f"--unlabelled and --data.{flag} are the same file, {source}",
                    "what is measured on must not be learnt from: give other texts",
                )
        if path.is_dir() and not _text_files(path):
            continue  # a saved dataset, or refused when it is read
        if not path.exists() and locate(settings.but(train=source), suffixes):
            raise missing(path)


def refuse_unlabelled(settings: DataSettings, why: str = "nobody answers them here", remedy: str = NOT_HERE) -> None:
    """Where texts without labels have no use."""
    if settings.unlabelled:
        raise KnobError(f"--unlabelled {settings.unlabelled}: {why}", remedy)


def stands_alone(settings: DataSettings, data: object) -> bool:
    """Whether --unlabelled is the whole of train."""
    return bool(settings.unlabelled) and data is None and not settings.train


def read_unlabelled(
    settings: DataSettings,
    name: str,
    read: Callable[[DataSettings, object, str], Table],
    suffixes: Collection[str] = SUFFIXES,
) -> Iterator[Table]:
    """A table per source, which `read` reads as rows to predict; bare texts get a column `name`."""
    check_unlabelled(settings, suffixes)
    for source in settings.unlabelled_sources:
        path = Path(source).expanduser()
        files = _text_files(path) if path.is_dir() else []
        if files:
            texts = [read_text(file, settings).strip() for file in files]
            table = Table(f"{source} ({len(files):,} text files)", {name: texts})
        else:
            bare = settings.but(train=source, text_column="", pair_column="", label_column="")
            table = read(bare, None, name)
        if not any(str(cell or "").strip() for column in table.columns.values() for cell in column):
            raise DataError(f"{source} is empty", "give a file with at least one text")
        yield table


def held_out_tables(settings: DataSettings, reader: Reader = read_file) -> Tables:
    """Files of dev and test where there is no --data: train is the unlabelled texts."""
    flags = {split: Path(path).expanduser() for split, path in (("dev", settings.dev), ("test", settings.test)) if path}
    return Tables({split: reader(path, settings) for split, path in flags.items()}, frozenset(flags))


def _text_files(folder: Path) -> list[Path]:
    """The text files of a folder that holds nothing else to read."""
    if not folder.is_dir():
        return []
    return [path for path in files_in(folder, PLAIN) if suffix_of(path) in PLAIN]


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
