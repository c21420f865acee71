"""A folder of shards that survives crashes: every shard is whole or not there, and never changed.

`index.json` says what the folder was made for: a format version and a manifest with the fingerprints of teacher,
tokenizer and data. A folder that was made for something else is refused. A shard is named

    shard-MANIFEST-TIME-CONTENT.suffix      checksum of the manifest, time of writing, checksum of the content

so that processes that fill one folder never take the same name, a shard of another making is known for one, and of two
answers to one question the older is served. Opening a folder reads it once, about 1 GB/s, to compare every shard with
its checksum. One that differs is renamed to `.damaged` and named in `damaged`; what it held is lacking, and filling
mends it. Shards are mapped, not loaded: a folder may be larger than memory.

A folder that cannot be written can be read. Of several ranks only the main process writes.
"""

from __future__ import annotations

import json
import mmap
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic, explained, locked, sweep, write_text
from limbeck.core.process import is_main

VERSION = 3
INDEX, OLD_INDEX = "index.json", "cache.json"  # format 2 had the other name
LOCK = ".lock"
T = TypeVar("T")


class DamagedError(Exception):
    """A file that is not what was written."""


class Index(NamedTuple):
    manifest: dict[str, Any]
    notes: dict[str, Any]  # for people to read; not compared
    created: str


class ShardFolder(ABC, Generic[T]):
    """Where a store keeps what a teacher said. A store says how a shard is read, and what is lacking."""

    suffix: ClassVar[str]
    flag: ClassVar[str] = ""  # how a person names another folder

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
        self.refresh()

    @abstractmethod
    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        """[examples] those of `uids` of which something is not there yet."""

    @abstractmethod
    def _parse(self, content: mmap.mmap) -> T:
        """What a shard holds."""

    @property
    def bytes_on_disk(self) -> int:
        """Of the index and the shards; what was set aside does not count."""
        return sum(path.stat().st_size for path in (self.folder / INDEX, *self.shards) if path.exists())

    def refresh(self) -> None:
        """Looks again at what is in the folder: other processes write and merge too."""
        known, gone = dict(self.shards), True
        while gone:
            paths, gone = sorted(self.folder.glob(f"shard-*{self.suffix}")), False
            for path in paths:
                if path in known:
                    continue
                self._refuse_foreign(path)
                try:
                    known[path] = self._parse(read_shard(path))
                except FileNotFoundError:  # another process merged it just now
                    gone = True
                except DamagedError:
                    self._set_aside(path)
        self.shards = {path: known[path] for path in paths if path in known}

    def _write(self, content: bytes) -> Path:
        """The new shard. It is on disk when this returns."""
        digest = blake2b(content, digest_size=16).hexdigest()
        path = self.folder / f"shard-{self._identity}-{time.time_ns():016x}-{digest}{self.suffix}"
        with atomic(path) as part:
            part.write_bytes(content)
        if is_main():
            try:
                self.shards[path] = self._parse(_map(path))
            except FileNotFoundError:  # another process merged it just now
                self.refresh()
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
        """Makes the folder and its index, if they are not there."""
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
                    write_index(index, self.index)
                with suppress(OSError):  # whoever waits for the lock finds the index
                    (self.folder / LOCK).unlink()

    def _refuse_foreign(self, path: Path) -> None:
        if path.name.split("-")[1] != self._identity:
            raise MismatchError(f"{path} was made for something else than this run", self._remedy)

    def _set_aside(self, path: Path) -> None:
        if path not in self.damaged:
            self.damaged.append(path)
        if is_main():
            with suppress(OSError):  # read-only, or another process was first: it is left out all the same
                path.replace(path.with_suffix(".damaged"))


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


def write_index(path: Path, index: Index) -> None:
    content = {"version": VERSION, **index._asdict()}
    write_text(path, json.dumps({**content, "checksum": _digest(content)}, indent=1) + "\n")


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
