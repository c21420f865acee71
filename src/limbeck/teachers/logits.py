"""A cache of a teacher's logits and states on disk: computed once, served to every epoch, seed and student.

A cache stores the logits of each example (float32) and, for the requested layers, one state for the text or one for
each of its tokens (float16, or float32), without padding. The uid of an example is the key, so shuffling, bucketing and
resuming cannot pair an answer with another example.

logits           one row for a text; in windows, one for each predicted position
pooled.POOL.N    one row, the state of layer N for the whole text
hidden.N         one row for each token, its state after layer N

Every batch is on disk before the teacher runs on the next one: a killed writer loses no more than one batch. Small
shards are merged into large ones. A cache that meets a larger request is filled with the missing parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import NOWHERE
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ONLY_LOGITS, Batch, Request, Teacher, Trace, Want
from limbeck.teachers.shards import Array, Ints, Ragged, RaggedFolder, join, kind_of

CACHEABLE_STATES = Want.LOGITS | Want.POOLED | Want.HIDDEN
ROWS_PER_SHARD, BYTES_PER_SHARD = 2048, 2**26  # whichever is reached first
_BYTES_OF_METADATA, _BYTES_PER_TENSOR = 48, 74  # of a shard's header
FLOAT16_MOST = 65504.0
Precision = Literal["float16", "float32"]  # of states; logits are float32


class LogitsCache(RaggedFolder):
    """The folder. `fill` runs a teacher for what is missing, `teacher` serves what is there."""

    flag = "--teacher-cache.cache"

    def __init__(
        self,
        folder: Path | str,
        fingerprints: Mapping[str, str],
        request: Request = ONLY_LOGITS,
        dtype: Precision = "float16",
    ) -> None:
        if request.want & ~CACHEABLE_STATES:
            raise MismatchError(
                f"a cache keeps {CACHEABLE_STATES} of a teacher, but the objective wants {request.want}",
                "ask the teacher at every step, with --teacher-cache.live",
            )
        self.request, self.dtype = request, dtype
        # Logits in any case: they take few bytes, and dev and test are judged by them.
        parts = {"logits": "float32"}
        parts |= dict.fromkeys((pooled_part(request, layer) for layer in request.pooled), dtype)
        parts |= dict.fromkeys((hidden_part(layer) for layer in request.hidden), dtype)
        super().__init__(folder, {"store": "logits", "fingerprints": dict(fingerprints)}, parts)

    def fill(
        self,
        teacher: Teacher,
        batches: Iterable[Batch],
        rows_per_shard: int = ROWS_PER_SHARD,
        bytes_per_shard: int = BYTES_PER_SHARD,
    ) -> None:
        """Runs `teacher` on every batch and stores the parts that the cache lacks."""
        for _ in self.fill_by_batch(teacher, batches, rows_per_shard, bytes_per_shard):
            pass

    def fill_by_batch(
        self,
        teacher: Teacher,
        batches: Iterable[Batch],
        rows_per_shard: int = ROWS_PER_SHARD,
        bytes_per_shard: int = BYTES_PER_SHARD,
    ) -> Iterator[int]:
        """The same, batch by batch: yields the number of rows done, so that the caller can report progress."""
        if self.request.pooled and getattr(teacher, "request", self.request).pool != self.request.pool:
            raise MismatchError("cache and teacher pool the states of a text differently", "give both the same Request")
        before = {part: self._rows_of(part) for part in self.parts}
        small: dict[Path, Ragged] = {}
        done = 0
        for batch in batches:
            piece = extract(teacher.answer(batch), batch, self.request, self.dtype)
            parts = {name: rows for name, rows in piece.parts.items() if not before[name].find(piece.uids)[1].all()}
            piece = piece._replace(counts={kind: piece.counts[kind] for kind in map(kind_of, parts)}, parts=parts)
            if small and next(iter(small.values())).parts.keys() != parts.keys():
                self._merge(small)
            if parts:
                path = self._add(piece)
                if 2 * piece.bytes < bytes_per_shard:  # to write a large one twice costs more than a file
                    small[path] = piece
            rows, size = sum(len(one.uids) for one in small.values()), sum(one.bytes for one in small.values())
            if rows >= rows_per_shard or size >= bytes_per_shard:
                self._merge(small)
            done += len(batch.uids)
            yield done
        self._merge(small)
        self.refresh()

    def teacher(self, request: Request | None = None) -> CachedTeacher:
        """A teacher that serves all that the cache stores, or some of it."""
        return CachedTeacher(self, request or self.request)

    def get(self, part: str, uids: Ints) -> tuple[Tensor, Ints]:
        """[rows, width] of one part, example after example, and how many rows each example has."""
        table = self._rows_of(part)
        positions, exists = table.find(uids)
        if not len(table.uids) or not exists.all():
            raise MismatchError(
                f"the teacher's cache in {self.folder} has no answer ({part}) for some of the examples",
                "fill the cache with the same data, or give another folder with --teacher-cache.cache",
            )
        where = table.at(positions)
        return torch.from_numpy(self._gather(part, where)).float(), where.rows

    @property
    def layers(self) -> int:
        """Of the teacher, if the cache has states."""
        return max((shard.layers for shard in self.shards.values()), default=0)

    def estimate(
        self, shape: Shape, task: TaskInfo, lengths: Sequence[int], predicted: Sequence[int] | None = None
    ) -> int:
        """Bytes that texts of these lengths take on disk.

        `predicted` says how many positions of each text are predicted, in a task of windows; else every token is."""
        texts, tokens = len(lengths), sum(lengths)
        rows = sum(lengths if predicted is None else predicted) if task.in_windows else texts
        state = np.dtype(self.dtype).itemsize * shape.hidden
        kinds = {kind_of(part) for part in self.parts}
        states = state * (texts * len(self.request.pooled) + tokens * len(self.request.hidden))
        data = 4 * rows * task.outputs + states + texts * (8 + 4 * len(kinds))
        shards = ceil(max(texts / ROWS_PER_SHARD, data / BYTES_PER_SHARD))
        return data + shards * (_BYTES_OF_METADATA + _BYTES_PER_TENSOR * (1 + len(kinds) + len(self.parts)))

    def _merge(self, small: dict[Path, Ragged]) -> None:
        """Replaces shards that this process wrote, and no other merges, by one."""
        if len(small) > 1:
            self._add(join(list(small.values())))
            for path in small:
                self._delete(path)
        small.clear()


class CachedTeacher(Teacher):
    """Answers from the disk, without the network."""

    def __init__(self, cache: LogitsCache, request: Request = ONLY_LOGITS) -> None:
        self.cache, self.request = cache, request
        self.has = request.want | Want.LOGITS

    def answer(self, batch: Batch) -> Trace:
        device, uids = batch.uids.device, batch.uids.numpy(force=True)
        logits = self._logits(batch, uids).to(device)
        hidden, pooled = {}, {}
        for layer in self.request.hidden:
            states, counts = self.cache.get(hidden_part(layer), uids)
            hidden[layer] = self._spread(states, counts, batch.inputs["attention_mask"].bool(), 0.0)
        for layer in self.request.pooled:
            pooled[layer], _ = self.cache.get(pooled_part(self.request, layer), uids)

        def of_layers(states: Mapping[int, Tensor]) -> tuple[Tensor, ...]:
            every = range(max(self.cache.layers, *states) + 1) if states else ()
            return tuple(states.get(layer, torch.empty(0)).to(device) for layer in every)

        return Trace(logits=logits, hidden=of_layers(hidden), pooled=of_layers(pooled))

    def _logits(self, batch: Batch, uids: Ints) -> Tensor:
        logits, counts = self.cache.get("logits", uids)
        if batch.task.kind == "tag":
            self._check(batch.predicted, counts)
        if batch.task.kind == "answer":
            logits = self._spread(logits, counts, batch.predicted, NOWHERE).transpose(1, 2).flatten(0, 1)
        return logits

    def _spread(self, rows: Tensor, counts: Ints, mask: Tensor, fill: float) -> Tensor:
        """[batch, length, width]: the rows at the positions of the mask."""
        self._check(mask, counts)
        out = rows.new_full((*mask.shape, rows.shape[1]), fill)
        out[mask.cpu()] = rows
        return out

    def _check(self, mask: Tensor, counts: Ints) -> None:
        tokens = mask.sum(1).numpy(force=True)
        if (tokens != counts).any():
            raise MismatchError(
                f"{(tokens != counts).sum()} of {len(tokens)} texts have another number of tokens than the teacher's "
                f"cache in {self.cache.folder} has answers for",
                "give the student the teacher's tokenizer and the same max_length",
            )


def pooled_part(request: Request, layer: int) -> str:
    return f"pooled.{request.pool}.{layer}"


def hidden_part(layer: int) -> str:
    return f"hidden.{layer}"


def extract(trace: Trace, batch: Batch, request: Request, dtype: Precision) -> Ragged:
    """What the cache stores of a batch."""
    if batch.task.over_vocabulary:
        raise MismatchError(f"a cache keeps no words, and the task is {batch.task.kind}", "keep them in a TopKCache")
    one = batch.uids.new_ones(len(batch.uids))
    logits, rows = trace.logits, batch.predicted.sum(1) if batch.task.in_windows else one
    if batch.task.kind == "answer":  # [2 · batch, length] → [positions, 2]
        logits = logits.unflatten(0, (-1, 2)).transpose(1, 2)[batch.predicted]
    if len(logits) != rows.sum():
        raise MismatchError(
            f"the teacher gave {len(logits)} rows of logits, the batch asks for {rows.sum()}",
            "give a teacher that shows logits of this task",
        )
    counts, parts = {"logits": rows}, {"logits": logits.float().numpy(force=True)}
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


def _states(states: tuple[Tensor, ...], layer: int, present: Tensor, dtype: Precision) -> Array:
    """[rows, width] states of a layer, selected before they are checked: padding may hold anything."""
    if layer >= len(states) or not states[layer].numel():
        raise MismatchError(f"the teacher does not show layer {layer}", "give cache and teacher the same Request")
    rows = states[layer][present.to(states[layer].device)]
    if dtype == "float16" and (rows.abs() > FLOAT16_MOST).any():
        raise KnobError(
            f"states of layer {layer} exceed {FLOAT16_MOST:.0f}, the most float16 holds", "keep them as float32"
        )
    stored: Array = rows.float().numpy(force=True).astype(dtype)
    return stored
