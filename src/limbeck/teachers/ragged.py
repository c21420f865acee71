"""Files of ragged arrays: each example has some rows of every part, and one part is read without the others.

A part is named by its kind and what it is of: `logits`, `pooled.cls.4`, `hidden.3`. In one file all parts of a kind
have the same number of rows for an example.

A shard is a safetensors file, written whole or not at all and never changed: `uids` [examples], `counts.KIND`
[examples], and every part as [rows, width], example after example. Its metadata hold a checksum of all tensors. It is
compared once, on opening; after that the file is mapped, and only the pages that hold what is asked for are read.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from limbeck.core.files import atomic
from limbeck.teachers.shard import DamagedError, spans

Array = NDArray[Any]
Ints = NDArray[np.int64]
_TYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "I64": np.int64}


class Ragged(NamedTuple):
    """What is kept of some examples."""

    uids: Ints  # [examples]
    counts: Mapping[str, Array]  # kind → [examples] rows of each
    parts: Mapping[str, Array]  # name → [rows, width]
    layers: int  # of the model that showed it

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())


class Index(NamedTuple):
    """Where the rows of each example lie, sorted by uid."""

    uids: Ints
    shard: Ints  # number of the shard
    start: Ints  # first row in the shard
    rows: Ints

    def find(self, uids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """[examples] the place of each, and whether it is there."""
        places = np.searchsorted(self.uids, uids)
        there = places < len(self.uids)
        there[there] = self.uids[places[there]] == uids[there]
        return places, there

    def at(self, places: Ints) -> Index:
        return Index(*(column[places] for column in self))


def kind_of(part: str) -> str:
    return part.partition(".")[0]


def join(pieces: Sequence[Ragged]) -> Ragged:
    """The examples of all pieces, which hold the same parts."""
    first = pieces[0]
    return Ragged(
        np.concatenate([piece.uids for piece in pieces]),
        {kind: np.concatenate([piece.counts[kind] for piece in pieces]) for kind in first.counts},
        {name: np.concatenate([piece.parts[name] for piece in pieces]) for name in first.parts},
        first.layers,
    )


def write_ragged(path: Path, given: Ragged) -> None:
    counts = {f"counts.{kind}": count.astype(np.int32) for kind, count in given.counts.items()}
    tensors: dict[str, Array] = {"uids": given.uids, **counts, **given.parts}
    metadata = {"layers": str(given.layers)}
    with atomic(path) as part:
        save_file(tensors, part, {**metadata, "checksum": _checksum(tensors, metadata)})


def open_ragged(path: Path) -> Ragged:
    """The file, mapped. A DamagedError if it is not what was written."""
    try:
        tensors, metadata = _map(path)
        checksum = metadata.pop("checksum", "")
        if checksum != _checksum(tensors, metadata):
            raise DamagedError(path)
        tensors, _ = _map(path)  # anew: the pages that were compared need not stay in memory
        return Ragged(
            tensors.pop("uids").copy(),
            {name.partition(".")[2]: tensors.pop(name) for name in sorted(tensors) if kind_of(name) == "counts"},
            tensors,
            int(metadata["layers"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(path) from error


def index_of(shards: Iterable[tuple[int, Ragged]], kind: str) -> Index:
    """Where the rows of a kind lie in these numbered shards. Of an example that is there twice, the first one."""
    columns: list[list[Ints]] = [[np.empty(0, np.int64)] for _ in Index._fields]
    for number, shard in shards:
        count = shard.counts[kind].astype(np.int64)
        found = (shard.uids, np.full(len(count), number), np.cumsum(count) - count, count)
        for column, piece in zip(columns, found, strict=True):
            column.append(piece)
    together = [np.concatenate(column) for column in columns]
    _, first = np.unique(together[0], return_index=True)
    return Index(*(column[first] for column in together))


def gather(parts: Mapping[int, Array], where: Index) -> Array:
    """[rows, width] of one part, example after example; `parts` gives it by the number of its shard."""
    some = next(iter(parts.values()))
    found = np.empty((where.rows.sum(), some.shape[1]), some.dtype)
    before = np.cumsum(where.rows) - where.rows
    for number in np.unique(where.shard):
        here = where.shard == number
        rows = where.rows[here]
        found[spans(before[here], rows)] = parts[number][spans(where.start[here], rows)]
    return found


def _map(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Tensors that read from the file when they are looked at, and the metadata."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    begin = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8:begin])
    metadata = header.pop("__metadata__")
    end = max(about["data_offsets"][1] for about in header.values())
    if begin + end != len(mapped):
        raise DamagedError(path)
    return {
        name: np.ndarray(about["shape"], _TYPES[about["dtype"]], mapped, begin + about["data_offsets"][0])
        for name, about in header.items()
    }, metadata


def _checksum(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    digest = blake2b(digest_size=16)
    shapes = [f"{name}: {array.dtype} {array.shape}" for name, array in sorted(tensors.items())]
    digest.update("\n".join([*shapes, *(f"{name}: {word}" for name, word in sorted(metadata.items()))]).encode())
    for _, array in sorted(tensors.items()):
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
