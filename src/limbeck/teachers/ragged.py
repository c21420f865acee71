"""Shards of ragged arrays: each example has some rows of every part, and one part is read without the others.

A part is named by its kind and what it is of: `logits`, `pooled.cls.4`, `hidden.3`. In one shard all parts of a kind
have the same number of rows for an example.

A shard is a safetensors file: `uids` [examples], `counts.KIND` [examples], and every part as [rows, width], example
after example. It is mapped: only the pages that hold what is asked for are read.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from limbeck.teachers.shards import ShardFolder

Array = NDArray[Any]
Ints = NDArray[np.int64]
_TYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


class Ragged(NamedTuple):
    """What is kept of some examples."""

    uids: Ints  # [examples]
    counts: Mapping[str, Array]  # kind → [examples] rows of each
    parts: Mapping[str, Array]  # name → [rows, width]
    layers: int = 0  # of the model that showed it

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in self.parts.values())


class Where(NamedTuple):
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

    def at(self, places: Ints) -> Where:
        return Where(*(column[places] for column in self))


class RaggedFolder(ShardFolder[Ragged]):
    """Shards of ragged arrays as one table."""

    suffix = ".safetensors"

    def refresh(self) -> None:
        super().refresh()
        self._tables: dict[tuple[object, ...], Where] = {}

    def _write(self, content: bytes) -> Path:
        self._tables = {}
        return super()._write(content)

    def _parse(self, content: mmap.mmap) -> Ragged:
        return from_bytes(content)

    def _holding(self, part: str) -> dict[Path, Ragged]:
        """The shards that have this part; of an example that is in several, the first one's is served."""
        return {path: shard for path, shard in self.shards.items() if part in shard.parts}

    def _where(self, part: str) -> Where:
        """Worked out once for parts of a kind that lie in the same shards, as the layers of one request do."""
        holding, kind = self._holding(part), kind_of(part)
        key = (kind, *holding)
        if key not in self._tables:
            self._tables[key] = _where([(shard.uids, shard.counts[kind]) for shard in holding.values()])
        return self._tables[key]

    def _gather(self, part: str, where: Where) -> Array:
        """[rows, width] of one part, example after example."""
        sources = [shard.parts[part] for shard in self._holding(part).values()]
        found = np.empty((where.rows.sum(), sources[0].shape[1]), sources[0].dtype)
        before = np.cumsum(where.rows) - where.rows
        for number in np.unique(where.shard):
            here = where.shard == number
            rows = where.rows[here]
            found[_spans(before[here], rows)] = sources[number][_spans(where.start[here], rows)]
        return found


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


def to_bytes(ragged: Ragged) -> bytes:
    counts = {f"counts.{kind}": count.astype(np.int32) for kind, count in ragged.counts.items()}
    tensors: dict[str, Array] = {"uids": ragged.uids, **counts, **ragged.parts}
    content: bytes = save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}, {"layers": str(ragged.layers)}
    )
    return content


def from_bytes(content: mmap.mmap) -> Ragged:
    """Arrays that read from the file when they are looked at."""
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    layers = int(header.pop("__metadata__")["layers"])
    tensors = {
        name: np.ndarray(about["shape"], _TYPES[about["dtype"]], content, begin + about["data_offsets"][0])
        for name, about in header.items()
    }
    counts = {name.partition(".")[2]: tensors.pop(name) for name in sorted(tensors) if kind_of(name) == "counts"}
    return Ragged(tensors.pop("uids").copy(), counts, tensors, layers)


def _where(shards: Sequence[tuple[Ints, Array]]) -> Where:
    """Where the rows of a kind lie, by the uids of each shard and how many rows each of them has."""
    columns: list[list[Ints]] = [[np.empty(0, np.int64)] for _ in Where._fields]
    for number, (uids, counts) in enumerate(shards):
        rows = counts.astype(np.int64)
        found = (uids, np.full(len(rows), number), np.cumsum(rows) - rows, rows)
        for column, piece in zip(columns, found, strict=True):
            column.append(piece)
    together = [np.concatenate(column) for column in columns]
    _, first = np.unique(together[0], return_index=True)
    return Where(*(column[first] for column in together))


def _spans(starts: Ints, lengths: Ints) -> Ints:
    """Every index of the spans, one span after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())
