"""Folders of shards that survive crashes: every shard is whole or not there, and never changed.

`index.json` describes the folder: a format version and a manifest with the fingerprints of teacher, tokenizer and data.
A folder with another manifest is refused. A shard is named

    shard-MANIFEST-TIME-CONTENT.suffix      checksum of the manifest, time of writing, checksum of the content

so processes that fill one folder never use the same name, a shard of another manifest is recognised, and of two answers
for one example the older is served. Opening a folder reads it once, about 1 GB/s, to compare every shard with its
checksum. A damaged shard is renamed to `.damaged` and listed in `damaged`; filling the folder replaces what it held.
Shards are mapped, not loaded: a folder may be larger than memory.

A folder that cannot be written can be read. With several ranks, only the main process writes.

A `RaggedFolder` holds ragged arrays: each example has some rows of every part, and a part is read without the others. A
part is named by its kind and its layer: `logits`, `pooled.cls.4`, `hidden.3`. In one shard all parts of a kind have the
same number of rows for an example. Such a shard is a safetensors file: `uids` [examples], `counts.KIND` [examples], and
every part as [rows, width], example after example. Only the pages that hold the requested rows are read.
"""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save

from limbeck.core.checksum import DamagedError
from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic, explained, locked, sweep, write_text
from limbeck.core.process import is_main

VERSION = 3
INDEX, OLD_INDEX = "index.json", "cache.json"  # format 2 had the other name
LOCK = ".lock"
T = TypeVar("T")
Array = NDArray[Any]
Ints = NDArray[np.int64]
_TYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


class Index(NamedTuple):
    manifest: dict[str, Any]
    notes: dict[str, Any]  # for people to read; not compared
    created: str


class ShardFolder(Generic[T]):
    """A folder of immutable files with checksums. A store extends it, and reads each file into a T."""

    suffix: ClassVar[str]
    flag: ClassVar[str] = ""  # that names another folder

    def __init__(
        self,
        folder: Path | str,
        manifest: Mapping[str, Any],
        *,
        write: bool = True,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.writable = Path(folder), write
        self.damaged: list[Path] = []
        self.shards: dict[Path, T] = {}  # oldest first
        self._remedy = f"delete {folder}, or give another folder{self.flag and f' with {self.flag}'}"
        wanted = json.loads(json.dumps(dict(manifest), default=str))
        self.index = Index(wanted, dict(notes or {}), datetime.now(UTC).isoformat(timespec="seconds"))
        if write and is_main():
            self._prepare()
        if is_main() or (self.folder / INDEX).exists():
            self.index = read_index(self.folder, self._remedy)
        if other := list(_differences(self.index.manifest, wanted)):
            raise MismatchError(
                f"the teacher cache in {folder} was made with another {' and another '.join(other)}", self._remedy
            )

    @property
    def bytes_on_disk(self) -> int:
        """Of the index and the shards, without the damaged ones."""
        return sum(path.stat().st_size for path in (self.folder / INDEX, *self.shards) if path.exists())

    def _unread(self) -> Iterator[tuple[Path, mmap.mmap]]:
        """Whole shards that are not in `shards`, where the store puts them; those that are gone leave it at the end."""
        gone = True
        while gone:
            paths, gone = sorted(self.folder.glob(f"shard-*{self.suffix}")), False
            for path in paths:
                if path in self.shards:
                    continue
                self._refuse_foreign(path)
                try:
                    yield path, read_shard(path)
                except FileNotFoundError:  # another process merged it just now
                    gone = True
                except DamagedError:
                    self._set_aside(path)
        self.shards = {path: self.shards[path] for path in paths if path in self.shards}

    def _write(self, content: bytes) -> Path:
        """The new shard. It is on disk when this returns."""
        digest = blake2b(content, digest_size=16).hexdigest()
        path = self.folder / f"shard-{self._identity}-{time.time_ns():016x}-{digest}{self.suffix}"
        with atomic(path) as part:
            part.write_bytes(content)
        return path

    def _delete(self, path: Path) -> None:
        self.shards.pop(path, None)
        if is_main():
            with suppress(OSError):  # Windows keeps a file that some process reads; the answers are then there twice
                path.unlink(missing_ok=True)

    def _lock(self) -> AbstractContextManager[None]:
        return locked(self.folder / LOCK)

    @property
    def _identity(self) -> str:
        return blake2b(json.dumps(self.index.manifest, sort_keys=True).encode(), digest_size=8).hexdigest()

    def _prepare(self) -> None:
        """Makes the folder and its index, if they do not exist."""
        index = self.folder / INDEX
        with explained(index):
            self.folder.mkdir(parents=True, exist_ok=True)
            sweep(self.folder)
            if index.exists() or (self.folder / OLD_INDEX).exists():
                return
            with self._lock():
                if not index.exists():
                    for path in self.folder.glob("shard-*[!d]"):  # all but .damaged
                        self._refuse_foreign(path)
                    content = {"version": VERSION, **self.index._asdict()}
                    write_text(index, json.dumps({**content, "checksum": _digest(content)}, indent=1) + "\n")
                with suppress(OSError):  # whoever waits for the lock finds the index
                    (self.folder / LOCK).unlink()

    def _refuse_foreign(self, path: Path) -> None:
        if path.name.split("-")[1] != self._identity:
            raise MismatchError(f"{path} was made for something else than this run", self._remedy)

    def _set_aside(self, path: Path) -> None:
        if path not in self.damaged:
            self.damaged.append(path)
        if is_main():
            with suppress(OSError):  # read-only, or another process was first; it is left out in any case
                path.replace(path.with_suffix(".damaged"))


class Ragged(NamedTuple):
    """Arrays of some examples, each with its own number of rows."""

    uids: Ints  # [examples]
    counts: Mapping[str, Array]  # kind → [examples] rows of each
    parts: Mapping[str, Array]  # name → [rows, width]
    layers: int = 0  # of the model that computed them

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())


class RowIndex(NamedTuple):
    """Where the rows of each example lie, sorted by uid."""

    uids: Ints
    shard: Ints  # number of the shard
    start: Ints  # first row in the shard
    rows: Ints

    def find(self, uids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """[examples] the position of each, and whether it exists."""
        positions = np.searchsorted(self.uids, uids)
        exists = positions < len(self.uids)
        exists[exists] = self.uids[positions[exists]] == uids[exists]
        return positions, exists

    def at(self, positions: Ints) -> RowIndex:
        return RowIndex(*(column[positions] for column in self))


class RaggedFolder(ShardFolder[Ragged]):
    """Shards of ragged arrays as one table.

    `parts` maps the parts of a complete answer to their dtypes; a part of another dtype counts as lacking. Of an
    example in several shards the first one's is served: the oldest, or the one with the most rows of `largest`."""

    suffix = ".safetensors"

    def __init__(
        self,
        folder: Path | str,
        manifest: Mapping[str, Any],
        parts: Mapping[str, str],
        *,
        largest: str = "",
        write: bool = True,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder, manifest, write=write, notes=notes)
        self.parts, self._largest = parts, largest
        self.refresh()

    @property
    def uids(self) -> Ints:
        """Of the complete examples, sorted."""
        first = self._rows_of(next(iter(self.parts))).uids
        return first[~self.lacks(first)]

    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        """[examples] those of `uids` that are not complete."""
        numbers = np.asarray(uids, np.int64)
        return ~np.logical_and.reduce([self._rows_of(part).find(numbers)[1] for part in self.parts])

    def refresh(self) -> None:
        """Reads the folder again: other processes write and merge too."""
        for path, content in self._unread():
            self.shards[path] = from_bytes(content)
        if self._largest:
            self.shards = dict(sorted(self.shards.items(), key=lambda item: -item[1].counts[self._largest].sum()))
        self._row_indices: dict[tuple[object, ...], RowIndex] = {}

    def _add(self, ragged: Ragged) -> Path:
        """Writes a shard."""
        path = self._write(to_bytes(ragged))
        self._row_indices = {}
        if is_main():
            try:
                self.shards[path] = from_bytes(_map(path))
            except FileNotFoundError:  # another process merged it just now
                self.refresh()
        return path

    def _holding(self, part: str) -> dict[Path, Ragged]:
        """The shards that have this part, in its dtype."""
        dtype = self.parts.get(part)
        having = {path: shard for path, shard in self.shards.items() if dtype and part in shard.parts}
        return {path: shard for path, shard in having.items() if shard.parts[part].dtype == dtype}

    def _rows_of(self, part: str) -> RowIndex:
        """Computed once for the parts of a kind that lie in the same shards, as the layers of one request do."""
        holding, kind = self._holding(part), kind_of(part)
        key = (kind, *holding)
        if key not in self._row_indices:
            self._row_indices[key] = _row_index([(shard.uids, shard.counts[kind]) for shard in holding.values()])
        return self._row_indices[key]

    def _gather(self, part: str, where: RowIndex) -> Array:
        """[rows, width] of one part, example after example."""
        sources = [shard.parts[part] for shard in self._holding(part).values()]
        rows = np.empty((where.rows.sum(), sources[0].shape[1]), sources[0].dtype)
        before = np.cumsum(where.rows) - where.rows
        for number in np.unique(where.shard):
            here = where.shard == number
            lengths = where.rows[here]
            rows[_spans(before[here], lengths)] = sources[number][_spans(where.start[here], lengths)]
        return rows


def read_shard(path: Path) -> mmap.mmap:
    """The file, mapped. Every byte is compared with the checksum in its name here, and not again."""
    try:
        with _map(path) as mapped:
            digest = blake2b(mapped, digest_size=16).hexdigest()
        if digest != path.stem.rpartition("-")[2]:
            raise DamagedError(path)
        return _map(path)  # anew: the pages that were compared need not stay in memory
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise DamagedError(path) from error


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_index(folder: Path, remedy: str) -> Index:
    path = folder / (OLD_INDEX if (folder / OLD_INDEX).exists() and not (folder / INDEX).exists() else INDEX)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = int(content["version"] if "version" in content else content["format"])
        checksum = content.pop("checksum", "")
    except (FileNotFoundError, NotADirectoryError):
        raise MismatchError(
            f"{folder} is not a teacher cache: it has no {INDEX}", "fill one with limbeck cache"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        version, checksum, content = VERSION, "", {}
    if version != VERSION:
        raise MismatchError(
            f"{folder} was written in format {version}, this version reads {VERSION}",
            remedy if version < VERSION else "update Limbeck, or give another folder",
        )
    if checksum != _digest(content):
        raise MismatchError(
            f"{path} is damaged",
            "delete this one file and run the same command again; what the folder holds is kept",
        )
    return Index(content["manifest"], content["notes"], content["created"])


def _digest(content: dict[str, Any]) -> str:
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    """What differs, by name; fingerprints without their values, which tell a person nothing."""
    for name in sorted({*found, *wanted}):
        theirs, ours = found.get(name), wanted.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from (key for key in sorted({*theirs, *ours}) if theirs.get(key) != ours.get(key))
        elif ours != theirs:
            yield f"{name} ({theirs}, not {ours})"


def kind_of(part: str) -> str:
    return part.partition(".")[0]


def join(pieces: Sequence[Ragged]) -> Ragged:
    """The examples of all pieces, which have the same parts."""
    first = pieces[0]
    return Ragged(
        np.concatenate([piece.uids for piece in pieces]),
        {kind: np.concatenate([piece.counts[kind] for piece in pieces]) for kind in first.counts},
        {name: np.concatenate([piece.parts[name] for piece in pieces]) for name in first.parts},
        first.layers,
    )


def to_bytes(ragged: Ragged) -> bytes:
    counts = {f"counts.{kind}": count.astype(np.int32) for kind, count in ragged.counts.items()}
    tensors: dict[str, Array] = {"uids": ragged.uids, **counts, **ragged.parts}
    content: bytes = save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}, {"layers": str(ragged.layers)}
    )
    return content


def from_bytes(content: mmap.mmap) -> Ragged:
    """Arrays that read from the file when they are used."""
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    layers = int(header.pop("__metadata__")["layers"])
    tensors = {
        name: np.ndarray(entry["shape"], _TYPES[entry["dtype"]], content, begin + entry["data_offsets"][0])
        for name, entry in header.items()
    }
    counts = {name.partition(".")[2]: tensors.pop(name) for name in sorted(tensors) if kind_of(name) == "counts"}
    return Ragged(tensors.pop("uids").copy(), counts, tensors, layers)


def _row_index(shards: Sequence[tuple[Ints, Array]]) -> RowIndex:
    """Where the rows of a kind lie, by the uids of each shard and how many rows each of them has."""
    tables = [np.empty((4, 0), np.int64)]
    for number, (uids, counts) in enumerate(shards):
        rows = counts.astype(np.int64)
        tables.append(np.stack([uids, np.full(len(rows), number), np.cumsum(rows) - rows, rows]))
    together = np.concatenate(tables, axis=1)
    _, first = np.unique(together[0], return_index=True)
    return RowIndex(*together[:, first])


def _spans(starts: Ints, lengths: Ints) -> Ints:
    """Every index of the spans, one span after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())
