"""A teacher's logits and states, kept on disk: asked once, served to every epoch, seed and student.

Of each example a cache keeps the logits (float32) and, of the layers that are requested, one state for the text or one
for each of its tokens (float16, or float32); padding is not kept. Answers are found by uid, so shuffling, bucketing and
resuming cannot pair an answer with another example.

logits           of a text one row; of windows one for each position that is predicted
pooled.POOL.N    one row, the state of layer N for the whole text
hidden.N         a row for each token, its state after layer N

Every batch is on disk before the next one is asked: a writer that is killed loses no more than the batch in hand. Small
shards become a large one as they gather. A cache that meets a larger request is filled with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import NOWHERE
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ONLY_LOGITS, Batch, Request, Teacher, Trace, Want
from limbeck.teachers.ragged import Array, Ints, Ragged, RaggedFolder, Where, join, kind_of, to_bytes

KEEPABLE = Want.LOGITS | Want.POOLED | Want.HIDDEN
ROWS_PER_SHARD, BYTES_PER_SHARD = 2048, 2**26  # whichever is reached first
_BYTES_OF_METADATA, _BYTES_PER_TENSOR = 48, 74  # of a shard's header
FLOAT16_MOST = 65504.0
Precision = Literal["float16", "float32"]  # of states; logits are float32


class LogitsCache(RaggedFolder):
    """The folder. `fill` asks for what is missing, `teacher` serves what is there."""

    flag = "--teacher-cache.cache"

    def __init__(
        self,
        folder: Path | str,
        fingerprints: Mapping[str, str],
        request: Request = ONLY_LOGITS,
        dtype: Precision = "float16",
    ) -> None:
        if request.want & ~KEEPABLE:
            raise MismatchError(
                f"a cache keeps {KEEPABLE} of a teacher, but the objective wants {request.want}",
                "ask the teacher at every step, with --teacher-cache.live",
            )
        self.request, self.dtype = request, dtype
        super().__init__(folder, {"store": "logits", "fingerprints": dict(fingerprints)})

    @property
    def uids(self) -> Ints:
        """Of the examples of which everything requested is there, sorted."""
        first = self._where("logits").uids
        return first[~self.lacks(first)]

    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        numbers = np.asarray(uids, np.int64)
        return ~np.logical_and.reduce([self._where(part).find(numbers)[1] for part in parts_of(self.request)])

    def fill(
        self,
        teacher: Teacher,
        batches: Iterable[Batch],
        rows_per_shard: int = ROWS_PER_SHARD,
        on_rows: Callable[[int], None] = lambda rows: None,
        bytes_per_shard: int = BYTES_PER_SHARD,
    ) -> None:
        """Asks `teacher` about every batch and keeps what the cache lacks of the answer."""
        if self.request.pooled and getattr(teacher, "request", self.request).pool != self.request.pool:
            raise MismatchError("cache and teacher pool the states of a text differently", "give both the same Request")
        before = {part: self._where(part) for part in parts_of(self.request)}
        small: dict[Path, Ragged] = {}
        done = 0
        for batch in batches:
            piece = _lacking(extract(teacher.answer(batch), batch, self.request, self.dtype), before)
            if small and next(iter(small.values())).parts.keys() != piece.parts.keys():
                self._merge(small)
            if piece.parts:
                path = self._write(to_bytes(piece))
                if 2 * piece.bytes < bytes_per_shard:  # a large one stays: to write it twice costs more than a file
                    small[path] = piece
            pieces = small.values()
            if (
                sum(len(one.uids) for one in pieces) >= rows_per_shard
                or sum(one.bytes for one in pieces) >= bytes_per_shard
            ):
                self._merge(small)
            done += len(batch.uids)
            on_rows(done)
        self._merge(small)
        self.refresh()

    def teacher(self, request: Request | None = None) -> CachedTeacher:
        """One that shows all that the cache was requested to keep, or some of it."""
        return CachedTeacher(self, request or self.request)

    def get(self, part: str, uids: Ints) -> tuple[Tensor, Ints]:
        """[rows, width] of one part, example after example, and how many rows each example has."""
        table = self._where(part)
        places, there = table.find(uids)
        if not len(table.uids) or not there.all():
            raise MismatchError(
                f"the teacher's cache in {self.folder} has no answer ({part}) for some of the examples",
                "fill the cache with the same data, or give another folder with --teacher-cache.cache",
            )
        where = table.at(places)
        return torch.from_numpy(self._gather(part, where)).float(), where.rows

    @property
    def layers(self) -> int:
        """Of the teacher, where something of its layers is kept."""
        return max((shard.layers for shard in self.shards.values()), default=0)

    def estimate(
        self, shape: Shape, task: TaskInfo, lengths: Sequence[int], predicted: Sequence[int] | None = None
    ) -> int:
        """Bytes that texts of these lengths take on disk.

        `predicted` says how many positions of each text are predicted, in a task of windows; else every token is."""
        texts, tokens = len(lengths), sum(lengths)
        rows = sum(lengths if predicted is None else predicted) if task.in_windows else texts
        state = np.dtype(self.dtype).itemsize * shape.hidden
        parts = parts_of(self.request)
        kinds = {kind_of(part) for part in parts}
        states = state * (texts * len(self.request.pooled) + tokens * len(self.request.hidden))
        data = 4 * rows * task.outputs + states + texts * (8 + 4 * len(kinds))
        shards = ceil(max(texts / ROWS_PER_SHARD, data / BYTES_PER_SHARD))
        return data + shards * (_BYTES_OF_METADATA + _BYTES_PER_TENSOR * (1 + len(kinds) + len(parts)))

    def _holding(self, part: str) -> dict[Path, Ragged]:
        """Kept at another precision than requested, a part counts as lacking."""
        dtype = np.dtype("float32" if part == "logits" else self.dtype)
        return {path: shard for path, shard in super()._holding(part).items() if shard.parts[part].dtype == dtype}

    def _merge(self, small: dict[Path, Ragged]) -> None:
        """One shard for those this process wrote, which nobody else merges."""
        if len(small) > 1:
            self._write(to_bytes(join(list(small.values()))))
            for path in small:
                self._delete(path)
        small.clear()


class CachedTeacher(Teacher):
    """Answers from the disk; the network is not needed."""

    def __init__(self, cache: LogitsCache, request: Request = ONLY_LOGITS) -> None:
        self.cache, self.request = cache, request
        self.has = request.want | Want.LOGITS

    def answer(self, batch: Batch) -> Trace:
        device = batch.uids.device

        def of_layers(layers: tuple[int, ...], show: Callable[[int], Tensor]) -> tuple[Tensor, ...]:
            every = range(max(self.cache.layers, *layers) + 1) if layers else ()
            return tuple(
                show(layer).to(device) if layer in layers else torch.empty(0, device=device) for layer in every
            )

        return Trace(
            logits=self._logits(batch).to(device),
            hidden=of_layers(self.request.hidden, lambda layer: self._hidden(layer, batch)),
            pooled=of_layers(self.request.pooled, lambda layer: self._pooled(layer, batch)),
        )

    def _logits(self, batch: Batch) -> Tensor:
        logits, counts = self.cache.get("logits", batch.uids.numpy(force=True))
        if batch.task.kind == "tag":
            self._check(batch.predicted, counts)
        if batch.task.kind == "answer":
            logits = self._spread(logits, counts, batch.predicted, NOWHERE).transpose(1, 2).flatten(0, 1)
        return logits

    def _pooled(self, layer: int, batch: Batch) -> Tensor:
        return self.cache.get(pooled_part(self.request, layer), batch.uids.numpy(force=True))[0]

    def _hidden(self, layer: int, batch: Batch) -> Tensor:
        states, counts = self.cache.get(hidden_part(layer), batch.uids.numpy(force=True))
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


def parts_of(request: Request) -> list[str]:
    """Names of what is kept. Logits always: they take few bytes, and dev and test are judged by them."""
    pooled = [pooled_part(request, layer) for layer in request.pooled]
    return ["logits", *pooled, *(hidden_part(layer) for layer in request.hidden)]


def pooled_part(request: Request, layer: int) -> str:
    return f"pooled.{request.pool}.{layer}"


def hidden_part(layer: int) -> str:
    return f"hidden.{layer}"


def extract(trace: Trace, batch: Batch, request: Request, dtype: Precision) -> Ragged:
    """What is kept of a batch."""
    one = batch.uids.new_ones(len(batch.uids))
    logits, places = _logits(trace.logits, batch)
    counts, parts = {"logits": places}, {"logits": logits.float().numpy(force=True)}
    if len(logits) != places.sum():
        raise MismatchError(
            f"the teacher gave {len(logits)} rows of logits, the batch asks for {places.sum()}",
            "give a teacher that shows logits of this task",
        )
    for layer in request.pooled:
        counts["pooled"] = one
        parts[pooled_part(request, layer)] = _states(trace.pooled, layer, one.bool(), dtype)
    for layer in request.hidden:
        present = batch.inputs["attention_mask"].bool()
        counts["hidden"] = present.sum(1)
        parts[hidden_part(layer)] = _states(trace.hidden, layer, present, dtype)
    layers = max(len(trace.hidden), len(trace.pooled), 1) - 1
    numbers = {kind: count.numpy(force=True) for kind, count in counts.items()}
    return Ragged(batch.uids.numpy(force=True), numbers, parts, layers)


def _logits(logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Rows of logits, and how many of them each text has."""
    if batch.task.over_vocabulary:
        raise MismatchError(f"a cache keeps no words, and the task is {batch.task.kind}", "keep them in a TopKCache")
    if batch.task.kind == "answer":  # [2 · batch, length] → [places, 2]
        logits = logits.unflatten(0, (-1, 2)).transpose(1, 2)[batch.predicted]
    return logits, batch.predicted.sum(1) if batch.task.in_windows else batch.uids.new_ones(len(batch.uids))


def _states(states: tuple[Tensor, ...], layer: int, present: Tensor, dtype: Precision) -> Array:
    """[rows, width] states of a layer, chosen before they are looked at: at padding may stand anything."""
    if layer >= len(states) or not states[layer].numel():
        raise MismatchError(f"the teacher does not show layer {layer}", "give cache and teacher the same Request")
    rows = states[layer][present.to(states[layer].device)]
    if dtype == "float16" and (rows.abs() > FLOAT16_MOST).any():
        raise KnobError(
            f"states of layer {layer} exceed {FLOAT16_MOST:.0f}, the most float16 holds", "keep them as float32"
        )
    found: Array = rows.float().numpy(force=True).astype(dtype)
    return found


def _lacking(piece: Ragged, before: Mapping[str, Where]) -> Ragged:
    """The parts that some of these examples lack."""
    parts = {name: rows for name, rows in piece.parts.items() if not before[name].find(piece.uids)[1].all()}
    return piece._replace(counts={kind: piece.counts[kind] for kind in map(kind_of, parts)}, parts=parts)
