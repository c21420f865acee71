"""A source becomes its splits: a file, a folder, a saved dataset, a hub id, or what Python already holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limbeck.core.errors import DataError
from limbeck.data.read import SUFFIXES, missing, read_file, suffix_of
from limbeck.data.settings import DataSettings
from limbeck.data.table import Table, from_arrow, from_columns, from_frame, from_records

SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
IN_NAME = re.compile(rf"(?:^|[-_.])({'|'.join(SPLITS)})(?:$|[-_.])")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")


@dataclass(frozen=True)
class Splits:
    tables: dict[str, Table]  # train, and dev and test where given
    named: frozenset[str] = frozenset()  # splits the person asked for by flag
    notes: tuple[str, ...] = ()


def gather(settings: DataSettings, data: object | None = None) -> Splits:
    source = settings.train if data is None else data
    if isinstance(source, (str, Path)) and not str(source):
        raise DataError("no data given", "pass --data with a file, a folder or a hub id")
    found = _from_path(str(source), settings) if isinstance(source, (str, Path)) else _from_python(source)
    flags = {split: path for split, path in (("dev", settings.dev), ("test", settings.test)) if path}
    tables = {**found.tables, **{split: read_file(path, settings) for split, path in flags.items()}}
    return Splits(tables, frozenset(flags), found.notes)


def _from_path(source: str, settings: DataSettings) -> Splits:
    path = Path(source).expanduser()
    if path.is_dir():
        saved = any((path / name).is_file() for name in ("dataset_dict.json", "dataset_info.json", "state.json"))
        return _saved(path) if saved else _folder(path, settings)
    looks_like_hub = _HUB_ID.fullmatch(source) and suffix_of(path) not in SUFFIXES and not source.startswith(".")
    if path.exists() or not looks_like_hub or ("/" in source and path.parent.is_dir()):
        return Splits({"train": read_file(path, settings)})
    return _hub(source)


def _folder(folder: Path, settings: DataSettings) -> Splits:
    files = sorted(path for path in folder.iterdir() if path.is_file() and suffix_of(path) in SUFFIXES)
    found: dict[str, list[Path]] = {}
    for path in files:
        match = IN_NAME.search(stem(path))
        if match:
            found.setdefault(SPLITS[match[1]], []).append(path)
    for split, paths in found.items():
        exact = [path for path in paths if stem(path) in SPLITS]
        found[split] = exact or paths
        if len(found[split]) > 1:
            names = ", ".join(path.name for path in found[split])
            raise DataError(f"{folder} has several {split} files ({names})", "give one of them, or keep one per split")
    if "train" not in found:
        names = ", ".join(path.name for path in files) or "no table at all"
        raise DataError(f"{folder} has no train file; it has {names}", "name one train.csv, or give the file itself")
    return Splits({split: read_file(paths[0], settings) for split, paths in found.items()})


def stem(path: Path) -> str:
    return path.name.lower().removesuffix(".gz").removesuffix(suffix_of(path))


def _saved(folder: Path) -> Splits:
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


def _hub(source: str) -> Splits:
    import datasets

    name, _, config = source.partition(":")
    try:
        loaded = datasets.load_dataset(name, config or None)
    except Exception as error:  # network, missing repository, a script that would run: all come as their own kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        near = missing(Path(name)).remedy if not Path(name).parent.name else ""
        hint = f"{near} " if near.startswith("did you mean") else ""
        raise DataError(
            f"there is no file '{source}' here, and the hub did not give a dataset of that name ({reason})",
            f"{hint}check the name and the network, or download it and give the file",
        ) from None
    return _from_python(loaded, source)


def _from_python(data: object, source: str = "") -> Splits:
    if isinstance(data, Mapping) and data and (_splits_of(data) or all(map(_is_dataset, data.values()))):
        return _named_splits(data, source or "the given splits")
    return Splits({"train": _table(data, source or _describe(data))})


def _named_splits(data: Mapping[str, Any], source: str) -> Splits:
    keys = _splits_of(data) or ({"train": next(iter(data))} if len(data) == 1 else {})
    if "train" not in keys:
        raise DataError(f"{source} has no train split; it has {', '.join(map(str, data))}", "name one of them 'train'")
    tables = {split: _table(data[key], f"{source}[{key}]") for split, key in keys.items()}
    unused = [key for key in data if key not in keys.values()]
    notes = (
        (f"{source}: not used: {', '.join(f'{key} ({len(data[key]):,} rows)' for key in unused)}",) if unused else ()
    )
    return Splits(tables, notes=notes)


def _splits_of(data: Mapping[str, Any]) -> dict[str, str]:
    """train, dev, test → the key it has here; nothing unless one is train."""
    keys: dict[str, str] = {}
    for key in data:
        split = SPLITS.get(str(key).lower())
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
        f"{type(data).__name__} is not a kind of data Limbeck reads",
        "give a path, a datasets.Dataset or DatasetDict, a list of dictionaries, or a DataFrame",
    )


def _is_dataset(data: object) -> bool:
    return all(hasattr(data, name) for name in ("features", "with_format", "__getitem__", "__len__"))


def _describe(data: object) -> str:
    kind = type(data).__name__
    return f"the given {'rows' if kind == 'list' else kind}"
