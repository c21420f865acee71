"""One file of a store: examples, how many tokens each has, and the coded answers of these tokens.

A shard is a safetensors file, written whole or not at all and never changed. Its metadata hold the format, what the
answers are of, and a checksum of both and of every tensor. It is read through the page cache; nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from limbeck.core.files import atomic

VERSION = 1
PATTERN = "shard-*.safetensors"


class Rows(NamedTuple):
    """Answers as they lie in a file. A token has one row of bytes, or as many as `many` says."""

    uids: NDArray[np.int64]  # [examples]
    counts: NDArray[np.int32]  # [examples] tokens of each
    many: NDArray[np.uint8]  # [tokens] rows of each; empty where each has one
    codes: NDArray[np.uint8]  # [rows, width]


class Shard(NamedTuple):
    path: Path
    about: str  # what the answers are of
    rows: Rows

    @property
    def tokens(self) -> int:
        return int(self.rows.counts.sum())


class DamagedError(Exception):
    """A file that is not what was written."""


def write_shard(folder: Path, rows: Rows, about: str) -> Path:
    path = folder / f"shard-{uuid4().hex}.safetensors"
    tensors = {name: np.ascontiguousarray(array) for name, array in rows._asdict().items()}
    metadata = {"version": str(VERSION), "about": about}
    with atomic(path) as part:
        save_file(tensors, part, {**metadata, "checksum": _checksum(rows, metadata)})
    return path


def read_shard(path: Path) -> Shard:
    """The file, mapped into memory. Every byte is compared with the checksum here, and not again."""
    try:
        # The numpy reader copies a tensor, the torch one maps it.
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            rows = Rows(*(file.get_tensor(name).numpy() for name in Rows._fields))
        if metadata.pop("checksum", "") != _checksum(rows, metadata) or metadata["version"] != str(VERSION):
            raise DamagedError(path)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DamagedError(path) from error
    return Shard(path, metadata["about"], rows)


def spans(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every index of the spans, one span after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _checksum(rows: Rows, metadata: dict[str, str]) -> str:
    digest = blake2b(digest_size=16)
    for word in _words(rows, metadata):
        digest.update(word.encode() + b"\n")
    for array in rows:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _words(rows: Rows, metadata: dict[str, str]) -> Iterable[str]:
    yield from (f"{name}: {value}" for name, value in sorted(metadata.items()))
    yield from (f"{name}: {array.dtype} {array.shape}" for name, array in rows._asdict().items())
