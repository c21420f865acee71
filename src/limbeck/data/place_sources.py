"""Where tagged sentences and questions come from: CoNLL and SQuAD files, and whatever else holds a table."""

from __future__ import annotations

from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.core.task import WindowKind
from limbeck.data.conll import SUFFIXES as CONLL
from limbeck.data.conll import is_conll, read_conll
from limbeck.data.read import SUFFIXES, suffix_of
from limbeck.data.settings import DataSettings
from limbeck.data.sources import IN_NAME, SPLITS, Splits, gather, stem
from limbeck.data.squad import read_questions
from limbeck.data.table import Table
from limbeck.data.window_settings import WindowSettings


def gather_places(settings: DataSettings, places: WindowSettings, kind: WindowKind, data: object | None) -> Splits:
    source = settings.train if data is None else data
    path = Path(source).expanduser() if isinstance(source, (str, Path)) and str(source) else None
    bare = settings.but(dev="", test="")
    if path is not None and path.is_file():
        found = Splits({"train": _read(path, bare, places, kind)})
    elif path is not None and (files := _files(path, kind)):
        found = Splits({split: _read(file, bare, places, kind) for split, file in files.items()})
    else:
        found = gather(bare, data)  # saved datasets, hub ids, what Python holds, and files that are not there
    flags = {split: Path(file).expanduser() for split, file in (("dev", settings.dev), ("test", settings.test)) if file}
    tables = {**found.tables, **{split: _read(file, bare, places, kind) for split, file in flags.items()}}
    return Splits(tables, frozenset(flags), found.notes)


def _read(path: Path, settings: DataSettings, places: WindowSettings, kind: WindowKind) -> Table:
    if kind == "tag" and is_conll(path):
        return read_conll(path, settings, places)
    return read_questions(path, settings)


def _files(folder: Path, kind: WindowKind) -> dict[str, Path]:
    """The files of a folder by split; none where it is not a folder or holds no train file."""
    if not folder.is_dir():
        return {}
    known = (*SUFFIXES, *CONLL) if kind == "tag" else SUFFIXES
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        match = IN_NAME.search(stem(path))
        if path.is_file() and suffix_of(path) in known and match:
            found.setdefault(SPLITS[match[1]], []).append(path)
    chosen = {split: [path for path in paths if stem(path) in SPLITS] or paths for split, paths in found.items()}
    for split, paths in chosen.items():
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            raise DataError(f"{folder} has several {split} files ({names})", "give one of them, or keep one per split")
    return {split: paths[0] for split, paths in chosen.items()} if "train" in chosen else {}
