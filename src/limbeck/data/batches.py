"""Rows become batches: in which order, and as what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.rows import Collate, Dataset

if TYPE_CHECKING:
    from torch import Tensor

# Fields of a Batch; every other column is what a model's forward takes.
_FIELDS = ("uids", "labels", "has_label", "predicted", "next_sentence_label")


def to_batch(tensors: Mapping[str, Tensor], task: TaskInfo) -> Batch:
    """What a collator returns, as a Batch."""
    inputs = {name: tensor for name, tensor in tensors.items() if name not in _FIELDS}
    return Batch(task, inputs=inputs, **{name: tensors[name] for name in _FIELDS if name in tensors})


def batches(
    dataset: Dataset, collate: Collate, size: int, indices: Sequence[int] | np.ndarray | None = None
) -> Iterator[Batch]:
    """Every row once, or those of `indices`, longest first: little padding, and a shortage of memory shows at once.

    An index is round · len + row, where a dataset has several versions of a row."""
    chosen = np.arange(len(dataset)) if indices is None else np.asarray(indices, dtype=np.int64)
    if not len(chosen):
        return
    lengths = np.asarray(dataset.lengths)[chosen % len(dataset)]
    order = chosen[np.argsort(-lengths, kind="stable")].tolist()
    for start in range(0, len(order), size):
        yield to_batch(collate([dataset[index] for index in order[start : start + size]]), collate.task)


class Buckets:
    """A sampler whose order depends on seed and epoch alone, so that a resumed epoch is the same epoch.

    Row i may have `rounds` versions, used by turns, one each epoch (0: a new one every epoch); that of round r has the
    index r · len + i."""

    def __init__(
        self, lengths: Sequence[int], batch: int, seed: int, span: int = 50, bucket: bool = True, rounds: int = 1
    ) -> None:
        self.lengths = np.asarray(lengths)
        self.batch = batch
        self.seed = seed
        self.span = span
        self.bucket = bucket
        self.rounds = rounds
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        round = self.epoch % self.rounds if self.rounds else self.epoch
        return iter((self.order() + round * len(self)).tolist())

    def order(self) -> np.ndarray:
        """Spans of a shuffled whole are sorted by length and cut into batches; the batches are shuffled."""
        draw = np.random.default_rng([self.seed, self.epoch])
        order = draw.permutation(len(self.lengths))
        if not self.bucket:
            return order
        whole = len(order) - len(order) % self.batch
        # the incomplete batch is set aside before sorting: otherwise it would always hold the longest texts
        body, rest = order[:whole], order[whole:]
        width = self.span * self.batch
        spans = [body[start : start + width] for start in range(0, whole, width)]
        spans = [span[np.argsort(self.lengths[span], kind="stable")] for span in spans]
        batches = np.concatenate(spans).reshape(-1, self.batch) if spans else body.reshape(0, self.batch)
        return np.concatenate([draw.permutation(batches).reshape(-1), rest])
