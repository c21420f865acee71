"""A teacher's answers, kept on disk: asked once, served to every epoch, seed and student.

A cache is a folder of `answers-….safetensors` shards and `cache.json`, which holds the fingerprints of teacher,
tokenizer and data. Of each example it keeps the logits (float32) and, of the layers that are asked for, one state for
the text or one for each of its tokens (float16, or float32); padding is not kept. Answers are found by uid, so
shuffling, bucketing and resuming cannot pair an answer with another example.

A shard is written whole or not at all; a cache that was cut short is completed, one that meets a larger ask is asked
for the rest, and one that was made for something else is refused. Shards are mapped, not loaded: a cache may be larger
than memory. Opening one reads it once, about 1 GB/s, to compare every shard with its checksum. One that differs is
renamed to `.damaged`, and its examples are asked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limbeck.core.errors import MismatchError
from limbeck.core.files import write_text
from limbeck.core.forward import NOWHERE
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import Teacher
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import ONLY_LOGITS, Request, Want
from limbeck.teachers.parts import Precision, hidden_part, parts_of, pooled_part, taken, uids_of
from limbeck.teachers.ragged import Index, Ragged, gather, index_of, join, kind_of, open_ragged, write_ragged
from limbeck.teachers.shard import DamagedError

FORMAT = 2
KEEPABLE = Want.LOGITS | Want.POOLED | Want.HIDDEN
ROWS_PER_SHARD, BYTES_PER_SHARD = 2048, 2**26  # whichever is reached first


class Cache:
    """The folder. `fill` asks for what is missing, `teacher` serves what is there."""

    def __init__(
        self,
        folder: Path | str,
        fingerprints: Mapping[str, str],
        ask: Request = ONLY_LOGITS,
        dtype: Precision = "float16",
    ) -> None:
        if ask.want & ~KEEPABLE:
            raise MismatchError(
                f"a cache keeps {KEEPABLE} of a teacher, but the objective wants {ask.want}",
                "ask the teacher at every step, with --teacher-cache.live",
            )
        self.folder, self.fingerprints = Path(folder), dict(fingerprints)
        self.request, self.dtype = ask, dtype
        self.damaged: list[Path] = []
        self._shards: dict[Path, Ragged] = {}
        self._indexes: dict[tuple[str, ...], Index] = {}
        _settle(self.folder / "cache.json", self.fingerprints)
        self._refresh()

    @property
    def uids(self) -> Tensor:
        """Of the examples of which everything asked for is there, sorted."""
        first = self._index("logits").uids
        return torch.from_numpy(first[self._holds(first)])

    def lacks(self, uids: Tensor) -> Tensor:
        """[rows] bool: those of `uids` of which something asked for is not there yet."""
        return torch.from_numpy(~self._holds(uids.numpy()))

    def fill(
        self,
        teacher: Teacher,
        batches: Iterable[Batch],
        rows_per_shard: int = ROWS_PER_SHARD,
        on_rows: Callable[[int], None] = lambda rows: None,
        bytes_per_shard: int = BYTES_PER_SHARD,
    ) -> None:
        """Asks `teacher` about every batch; what is answered is on disk after each shard."""
        if self.request.pooled and getattr(teacher, "request", self.request).pool != self.request.pool:
            raise MismatchError("cache and teacher pool the states of a text differently", "give both the same Request")
        held: list[Ragged] = []
        done = 0
        for batch in batches:
            held.append(taken(teacher.answer(batch), batch, self.request, self.dtype))
            done += len(batch.uids)
            many = sum(len(piece.uids) for piece in held)
            if many >= rows_per_shard or sum(piece.bytes for piece in held) >= bytes_per_shard:
                self._write(held)
                held = []
            on_rows(done)
        if held:
            self._write(held)
        self._refresh()

    def teacher(self, ask: Request | None = None) -> CachedTeacher:
        """One that shows all that the cache was asked to keep, or some of it."""
        return CachedTeacher(self, ask or self.request)

    def read(self, part: str, uids: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.int64]]:
        """[rows, width] of one part, example after example, and how many rows each example has."""
        index = self._index(part)
        places, there = index.find(uids)
        if not len(index.uids) or not there.all():
            raise MismatchError(
                f"the teacher's cache in {self.folder} has no answer ({part}) for some of the examples",
                "fill the cache with the same data, or give another folder with --teacher-cache.cache",
            )
        where = index.at(places)
        parts = {number: shard.parts[part] for number, shard in self._holding(part)}
        return torch.from_numpy(gather(parts, where)).float(), where.rows

    @property
    def layers(self) -> int:
        """Of the teacher, where something of its layers is kept."""
        return max((shard.layers for shard in self._shards.values()), default=0)

    def _holds(self, uids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.logical_and.reduce([self._index(part).find(uids)[1] for part in parts_of(self.request)])

    def _holding(self, part: str) -> list[tuple[int, Ragged]]:
        """The shards that have this part as it is asked for; kept at another precision, it counts as lacking."""
        dtype = np.dtype("float32" if part == "logits" else self.dtype)
        shards = enumerate(self._shards.values())
        return [(number, shard) for number, shard in shards if part in shard.parts and shard.parts[part].dtype == dtype]

    def _index(self, part: str) -> Index:
        """Shared by parts of a kind that lie in the same shards, as the layers of one ask do."""
        holding = self._holding(part)
        key = (kind_of(part), *(str(number) for number, _ in holding))
        if key not in self._indexes:
            self._indexes[key] = index_of(holding, kind_of(part))
        return self._indexes[key]

    def _write(self, held: list[Ragged]) -> None:
        """Writes the parts that some of these examples lack."""
        whole = join(held)
        parts = {name: rows for name, rows in whole.parts.items() if not self._index(name).find(whole.uids)[1].all()}
        if parts:
            counts = {kind: whole.counts[kind] for kind in map(kind_of, parts)}
            numbers = [int(path.stem.split("-")[1]) for path in self._paths()]
            path = self.folder / f"answers-{max(numbers, default=-1) + 1:05d}.safetensors"
            write_ragged(path, whole._replace(counts=counts, parts=parts))

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("answers-*.safetensors"))

    def _refresh(self) -> None:
        """Opens the shards that are new. A damaged one is set aside, so that its rows are asked again."""
        for path in self._paths():
            if path in self._shards or path in self.damaged:
                continue
            try:
                self._shards[path] = open_ragged(path)
            except DamagedError:
                self.damaged.append(path)
                with suppress(OSError):  # in a folder that cannot be written it is left out all the same
                    path.rename(path.with_suffix(".damaged"))
        self._indexes = {}


class CachedTeacher(Teacher):
    """Answers from the disk; the network is not needed."""

    def __init__(self, cache: Cache, ask: Request = ONLY_LOGITS) -> None:
        self.cache, self.request = cache, ask
        self.has = ask.want | Want.LOGITS

    def answer(self, batch: Batch) -> Trace:
        device = batch.uids.device

        def of_layers(asked: tuple[int, ...], show: Callable[[int], Tensor]) -> tuple[Tensor, ...]:
            every = range(max(self.cache.layers, *asked) + 1) if asked else ()
            return tuple(show(layer).to(device) if layer in asked else torch.empty(0, device=device) for layer in every)

        return Trace(
            logits=self._logits(batch).to(device),
            hidden=of_layers(self.request.hidden, lambda layer: self._hidden(layer, batch)),
            pooled=of_layers(self.request.pooled, lambda layer: self._pooled(layer, batch)),
        )

    def look_up(self, wanted: Tensor) -> Tensor:
        """Logits of these uids in their order: [rows, outputs], of places [places of all texts, outputs]."""
        return self.cache.read("logits", wanted.numpy())[0]

    def _logits(self, batch: Batch) -> Tensor:
        logits, counts = self.cache.read("logits", uids_of(batch))
        if batch.task.kind == "tag":
            self._check(batch.predicted, counts)
        if batch.task.kind == "answer":
            logits = self._spread(logits, counts, batch.predicted, NOWHERE).transpose(1, 2).flatten(0, 1)
        return logits

    def _pooled(self, layer: int, batch: Batch) -> Tensor:
        return self.cache.read(pooled_part(self.request, layer), uids_of(batch))[0]

    def _hidden(self, layer: int, batch: Batch) -> Tensor:
        states, counts = self.cache.read(hidden_part(layer), uids_of(batch))
        return self._spread(states, counts, batch.inputs["attention_mask"].bool(), 0.0)

    def _spread(self, rows: Tensor, counts: NDArray[np.int64], places: Tensor, elsewhere: float) -> Tensor:
        """[batch, length, width]: the rows at their places."""
        self._check(places, counts)
        out = rows.new_full((*places.shape, rows.shape[1]), elsewhere)
        out[places.cpu()] = rows
        return out

    def _check(self, places: Tensor, counts: NDArray[np.int64]) -> None:
        found = places.sum(1).numpy(force=True)
        if (found != counts).any():
            raise MismatchError(
                f"{(found != counts).sum()} of {len(found)} texts have another number of tokens than the teacher's "
                f"cache in {self.cache.folder} has answers for",
                "give the student the teacher's tokenizer and the same max_length",
            )


def estimate(
    ask: Request,
    shape: Shape,
    task: TaskInfo,
    lengths: Sequence[int],
    dtype: Precision = "float16",
    places: Sequence[int] | None = None,
) -> int:
    """Bytes that a cache of texts of these lengths takes on disk.

    `places` says how many places of each text are asked, in a task of places; else every token counts as one."""
    texts, tokens = len(lengths), sum(lengths)
    rows = sum(lengths if places is None else places) if task.in_windows else texts
    logits = 4 * rows * task.outputs
    state = np.dtype(dtype).itemsize * shape.hidden
    kinds = {kind_of(part) for part in parts_of(ask)}
    data = logits + state * (texts * len(ask.pooled) + tokens * len(ask.hidden)) + texts * (8 + 4 * len(kinds))
    shards = ceil(max(texts / ROWS_PER_SHARD, data / BYTES_PER_SHARD))
    return data + shards * (_BYTES_OF_METADATA + _BYTES_PER_TENSOR * (1 + len(kinds) + len(parts_of(ask))))


_BYTES_OF_METADATA, _BYTES_PER_TENSOR = 96, 74  # of a shard's header


def _settle(index: Path, fingerprints: Mapping[str, str]) -> None:
    """Writes what the answers are of, or compares it with what is written."""
    if index.exists():
        _check(index, fingerprints)
        return
    if any(index.parent.glob("answers-*.safetensors")):
        raise MismatchError(
            f"{index.parent} holds answers, but not the {index.name} that says of what",
            f"delete {index.parent} and run again",
        )
    write_text(index, json.dumps({"format": FORMAT, "fingerprints": dict(fingerprints)}, indent=1) + "\n")


def _check(index: Path, expected: Mapping[str, str]) -> None:
    """Refuses a cache that was made for something else, and says for what."""
    try:
        found = json.loads(index.read_text(encoding="utf-8"))
        format_, fingerprints = found["format"], found["fingerprints"]
    except (ValueError, KeyError, TypeError):
        raise MismatchError(
            f"{index} is not the index of a teacher cache", f"delete {index.parent} and run again"
        ) from None
    if format_ != FORMAT:
        raise MismatchError(
            f"{index.parent} was written in format {format_}, this version reads {FORMAT}", "delete it and run again"
        )
    other = [what for what in expected if fingerprints.get(what) != expected[what]]
    if other:
        raise MismatchError(
            f"the teacher cache in {index.parent} was made with another {' and another '.join(other)}",
            f"delete {index.parent}, or give another folder with --teacher-cache.cache",
        )
