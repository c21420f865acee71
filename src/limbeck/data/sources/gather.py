"""A source becomes a table per split: a file, a folder, a saved dataset, a Hub id, or what Python already holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.sources.files import SUFFIXES, missing, read_file, suffix_of
from limbeck.data.sources.tables import Table, from_arrow, from_columns, from_frame, from_records

NAMES = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
_IN_NAME = re.compile(rf"(?:^|[-_.])({'|'.join(NAMES)})(?:$|[-_.])")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")

Reader = Callable[[Path, DataSettings], Table]


@dataclass(frozen=True)
class Tables:
    tables: dict[str, Table]  # train, and dev and test where they are given
    named: frozenset[str] = frozenset()  # splits that a flag asks for
    notes: tuple[str, ...] = ()


def gather(
    settings: DataSettings,
    data: object | None = None,
    reader: Reader = read_file,
    suffixes: Collection[str] = SUFFIXES,
) -> Tables:
    """The tables of `data`, else of `settings.train`; `reader` reads a file of one of the `suffixes`."""
    source = settings.train if data is None else data
    if isinstance(source, (str, Path)):
        settings = settings.but(train=str(source))
        files = locate(settings, suffixes)
        found = (
            Tables({split: reader(path, settings) for split, path in files.items()}) if files else _elsewhere(settings)
        )
    else:
        found = _from_python(source)
    flags = {split: Path(path).expanduser() for split, path in (("dev", settings.dev), ("test", settings.test)) if path}
    tables = {**found.tables, **{split: reader(path, settings) for split, path in flags.items()}}
    notes = (note for table in tables.values() for note in table.notes)
    return Tables(tables, frozenset(flags), (*found.notes, *notes))


def locate(settings: DataSettings, suffixes: Collection[str] = SUFFIXES) -> dict[str, Path]:
    """The files of each split that `settings.train` names; none if it is a saved dataset or one on the Hub."""
    source, path = settings.train, Path(settings.train).expanduser()
    if not source:
        raise DataError("no data given", "pass --data with a file, a folder or a Hub id")
    if path.is_dir():
        return {} if _is_saved(path) else _folder(path, suffixes)
    looks_like_hub = _HUB_ID.fullmatch(source) and suffix_of(path) not in suffixes and not source.startswith(".")
    if path.exists() or not looks_like_hub or ("/" in source and path.parent.is_dir()):
        return {"train": path}
    return {}


def _elsewhere(settings: DataSettings) -> Tables:
    path = Path(settings.train).expanduser()
    return _saved(path) if path.is_dir() else _hub(settings.train)


def _is_saved(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("dataset_dict.json", "dataset_info.json", "state.json"))


def _folder(folder: Path, suffixes: Collection[str]) -> dict[str, Path]:
    files = files_in(folder, suffixes)
    found = files_by_split(files)
    for split, paths in found.items():
        if len(paths) > 1:
            names = ", ".join(path.name for path in paths)
            raise DataError(f"{folder} has several {split} files ({names})", "give one of them, or keep one per split")
    if "train" not in found:
        names = ", ".join(path.name for path in files) or "no table at all"
        raise DataError(f"{folder} has no train file; it has {names}", "name one train.csv, or give the file itself")
    return {split: paths[0] for split, paths in found.items()}


def files_in(folder: Path, suffixes: Collection[str]) -> list[Path]:
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in files if suffix_of(path) in suffixes)


def files_by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """The files that are named after a split; of several for one, those named exactly so."""
    found: dict[str, list[Path]] = {}
    for path in files:
        match = _IN_NAME.search(_stem(path))
        if match:
            found.setdefault(NAMES[match[1]], []).append(path)
    return {split: [path for path in paths if _stem(path) in NAMES] or paths for split, paths in found.items()}


def _stem(path: Path) -> str:
    return path.name.lower().removesuffix(".gz").removesuffix(suffix_of(path))


def _saved(folder: Path) -> Tables:
    import datasets

    try:
        return _from_python(datasets.load_from_disk(str(folder)), str(folder))
    except DataError:
        raise
    except Exception as error:  # a damaged file surfaces as whatever Arrow or json met first
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{folder} is a damaged datasets folder ({reason})", "write it again with save_to_disk"
        ) from None


def _hub(source: str) -> Tables:
    import datasets

    name, _, config = source.partition(":")
    try:
        loaded = datasets.load_dataset(name, config or None)
    except Exception as error:  # network, missing repository, a script that would run: all come as their own kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        near = missing(Path(name)).remedy if not Path(name).parent.name else ""
        hint = f"{near} " if near.startswith("did you mean") else ""
        raise DataError(
            f"there is no file '{source}' here, and the Hub gave no dataset of that name ({reason})",
            f"{hint}check the name and the network, or download it and give the file",
        ) from None
    return _from_python(loaded, source)


def _from_python(data: object, source: str = "") -> Tables:
    if isinstance(data, Mapping) and data and (_splits_of(data) or all(map(_is_dataset, data.values()))):
        return _named_splits(data, source or "the given splits")
    return Tables({"train": _table(data, source or _describe(data))})


def _named_splits(data: Mapping[str, Any], source: str) -> Tables:
    keys = _splits_of(data) or ({"train": next(iter(data))} if len(data) == 1 else {})
    if "train" not in keys:
        raise DataError(f"{source} has no train split; it has {', '.join(map(str, data))}", "name one of them 'train'")
    tables = {split: _table(data[key], f"{source}[{key}]") for split, key in keys.items()}
    unused = [key for key in data if key not in keys.values()]
    notes = (
        (f"{source}: not used: {', '.join(f'{key} ({len(data[key]):,} rows)' for key in unused)}",) if unused else ()
    )
    return Tables(tables, notes=notes)


def _splits_of(data: Mapping[str, Any]) -> dict[str, str]:
    """train, dev, test → the key it has here; nothing unless one is train."""
    keys: dict[str, str] = {}
    for key in data:
        split = NAMES.get(str(key).lower())
        if split:
            keys.setdefault(split, key)
    return keys if "train" in keys else {}


def _table(data: Any, source: str) -> Table:
    if _is_dataset(data):
        return from_arrow(data.with_format("arrow")[:], source)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return from_frame(data, source)
    if isinstance(data, Mapping):
        return from_columns(data, source)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return from_records(data, source)
    raise DataError(
        f"data of type {type(data).__name__} cannot be read",
        "give a path, a datasets.Dataset or DatasetDict, a list of dictionaries, or a DataFrame",
    )


def _is_dataset(data: object) -> bool:
    return all(hasattr(data, name) for name in ("features", "with_format", "__getitem__", "__len__"))


def _describe(data: object) -> str:
    kind = type(data).__name__
    return f"the given {'rows' if kind == 'list' else kind}"
