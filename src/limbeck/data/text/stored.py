"""Many texts and their tokens on disk instead of in memory: flat arrays in a folder, opened as memory maps.

A folder is named after what it holds, written whole or not at all, and checked when it is opened; a resumed run finds
it. One that is damaged is written again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from limbeck.core.checksum import FILES, DamagedError, check_files, checksums, read_sealed, write_sealed
from limbeck.core.errors import KnobError
from limbeck.core.files import atomic_folder
from limbeck.core.process import is_main, main_first

INDEX, LENGTHS = "index.json", "lengths"
BLOCK = 4096  # rows written at once
Rows = Iterable[Mapping[str, NDArray[Any]]]  # of each row its columns; in a column every row has a length of its own


def as_bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8"), np.uint8)


class Flat:
    """A column: row i holds the values from offsets[i] to offsets[i + 1]."""

    def __init__(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.values, self.offsets = values, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]


class StoredTexts(Sequence[str]):
    """Texts that are read from the disk when they are used."""

    def __init__(self, flat: Flat) -> None:
        self._flat = flat

    def __len__(self) -> int:
        return len(self._flat)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]  # or an IndexError
        return self._flat[row].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


class TextPairs(Sequence[tuple[str, str]]):
    """(text, pair) of each row, made when it is used."""

    def __init__(self, texts: Sequence[str], pairs: Sequence[str]) -> None:
        self._texts, self._pairs = texts, pairs

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, str]]: ...

    def __getitem__(self, index: int | slice) -> tuple[str, str] | list[tuple[str, str]]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return self._texts[index], self._pairs[index] if self._pairs else ""


def stored(folder: Path, dtypes: Mapping[str, str], rows: Callable[[], Rows]) -> dict[str, Flat]:
    """The columns in the folder, which `rows` fill where it does not hold them."""
    with main_first():
        found = _opened(folder)
        if found is None and is_main():
            _write(folder, dtypes, rows())
    return found or _opened(folder) or _in_memory(dtypes, rows())


def _in_memory(dtypes: Mapping[str, str], rows: Rows) -> dict[str, Flat]:
    """Of a process that does not see what the main one wrote."""
    parts: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, dtype)] for name, dtype in dtypes.items()}
    for row in rows:
        for name, values in row.items():
            parts[name].append(values)
    return {
        name: Flat(np.concatenate(some), np.cumsum([0, *map(len, some[1:])], dtype=np.int64))
        for name, some in parts.items()
    }


def _write(folder: Path, dtypes: Mapping[str, str], rows: Rows) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*"):  # of a killed run
        shutil.rmtree(leftover, ignore_errors=True)
    with atomic_folder(folder) as part:
        lengths: dict[str, list[NDArray[np.int64]]] = {name: [] for name in dtypes}
        files = {name: (part / f"{name}.bin").open("wb") for name in dtypes}
        try:
            for block in _blocks(rows):
                for name, dtype in dtypes.items():
                    column = [np.asarray(row[name], dtype) for row in block]
                    files[name].write(np.concatenate(column).tobytes())
                    lengths[name].append(np.array([len(values) for values in column], dtype=np.int64))
        finally:
            for file in files.values():
                file.close()
        for name, some in lengths.items():
            np.concatenate([np.empty(0, np.int64), *some]).tofile(part / f"{name}.{LENGTHS}")
        write_sealed(part / INDEX, {"dtypes": dict(dtypes), FILES: checksums(part)})


def _blocks(rows: Rows) -> Iterator[list[Mapping[str, NDArray[Any]]]]:
    block: list[Mapping[str, NDArray[Any]]] = []
    for row in rows:
        block.append(row)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _opened(folder: Path) -> dict[str, Flat] | None:
    """None where there is no such folder, or it is not what was written."""
    if not (folder / INDEX).exists():
        return None
    try:
        index = read_sealed(folder / INDEX)
        check_files(folder, index[FILES])
    except (DamagedError, KeyError):
        return None
    return {name: _open_column(folder, name, dtype) for name, dtype in index["dtypes"].items()}


def _open_column(folder: Path, name: str, dtype: str) -> Flat:
    lengths = np.fromfile(folder / f"{name}.{LENGTHS}", np.int64)
    file = folder / f"{name}.bin"
    values = np.memmap(file, dtype, mode="r") if file.stat().st_size else np.empty(0, dtype)
    return Flat(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def check_room(folder: Path, needed: float, what: str) -> None:
    """Refuses what the disk cannot take."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise KnobError(
            f"{what} need{'s' * (not what.endswith('s'))} {needed / 1e6:,.2f} MB, but {folder} has "
            f"{free / 1e6:,.2f} MB left",
            "free some space, choose another disk with --out, or take fewer rows with --data.limit-unlabelled",
        )
