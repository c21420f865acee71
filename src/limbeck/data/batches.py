"""Rows become batches: what a dataset and a collator are, how rows are padded, and in which order they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch

if TYPE_CHECKING:
    from torch import Tensor

# Fields of a Batch; every other column is what a model's forward takes.
_FIELDS = ("uids", "labels", "has_label", "predicted", "next_sentence_label")


class Dataset(Protocol):
    """Map-style, as torch has it.

    One of small rows may also have `batch(indices: np.ndarray) -> dict[str, Tensor]`, which gives at once what the
    collator makes of these rows; small models then learn faster (training/fast_loop.py)."""

    lengths: list[int]  # in tokens

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]: ...


class Split(Dataset, Protocol):
    """A dataset whose rows have uids and labels."""

    truncated: int  # texts that were cut

    @property
    def uids(self) -> np.ndarray: ...

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def has_label(self) -> np.ndarray: ...

    def take(self, indices: Sequence[int] | np.ndarray) -> Self: ...


class Collate(Protocol):
    """Rows become one padded batch of tensors."""

    task: TaskInfo

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]: ...


def padding_id(tokenizer: Any) -> int:
    """What fills up a block of text: any token does where there is none for it, since the attention mask hides it."""
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return pad or 0


class Collator:
    """One padded batch from the rows of a dataset of any kind.

    Where a row has ended the attention mask is 0: the padding token may also be a word."""

    def __init__(
        self, pad_id: int, task: TaskInfo, side: Literal["right", "left"] = "right", pad_type_id: int = 0
    ) -> None:
        self.task = task
        self.side = side
        self._fill = {"input_ids": pad_id, "decoder_input_ids": pad_id, "token_type_ids": pad_type_id}

    @classmethod
    def of(cls, tokenizer: Any, task: TaskInfo) -> Self:
        """With the padding token of a tokenizer; whole texts are padded on its padding side as well."""
        if task.level == "image":  # all of one size
            return cls(0, task)
        if task.over_vocabulary:
            return cls(padding_id(tokenizer), task)
        if tokenizer.pad_token_id is None:
            raise ModelError(
                "the tokenizer has no padding token, so texts of different length cannot share a batch",
                "set tokenizer.pad_token and config.pad_token_id, and save both with the model",
            )
        if task.in_windows:  # labels count positions from the left
            return cls(tokenizer.pad_token_id, task)
        return cls(tokenizer.pad_token_id, task, tokenizer.padding_side, tokenizer.pad_token_type_id)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        import torch

        columns = {name: self._column(name, [row[name] for row in rows]) for name in rows[0]}
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def _column(self, name: str, values: list[Any]) -> np.ndarray:
        """[batch], [batch, longest], for the labels of windows [rows of all windows]; of images [batch, 1, h, w]."""
        if name == "pixel_values":
            return np.stack(values)
        dtype = self._dtype(name)
        if np.ndim(values[0]) == 0:
            return np.array(values, dtype=dtype)
        if self.task.in_windows and name in ("labels", "has_label"):
            return np.concatenate(values).astype(dtype, copy=False)
        column = np.full((len(values), max(map(len, values))), self._fill.get(name, 0), dtype=dtype)
        for line, value in zip(column, values, strict=True):
            line[slice(len(value)) if self.side == "right" else slice(len(line) - len(value), None)] = value
        return column

    def _dtype(self, name: str) -> type[np.generic] | type[bool]:
        if name in ("has_label", "predicted"):
            return bool
        return np.float32 if name == "labels" and self.task.kind in ("multilabel", "regress") else np.int64


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
    order = chosen[np.argsort(-lengths, kind="stable")]
    for start in range(0, len(order), size):
        yield to_batch(collated(dataset, collate, order[start : start + size]), collate.task)


def collated(
    dataset: Dataset, collate: Callable[[list[dict[str, Any]]], dict[str, Tensor]], indices: np.ndarray
) -> dict[str, Tensor]:
    """One batch of these rows; at once where the dataset can, else row by row."""
    at_once: Callable[[np.ndarray], dict[str, Tensor]] | None = getattr(dataset, "batch", None)
    return at_once(indices) if at_once else collate([dataset[index] for index in indices.tolist()])


@dataclass(eq=False)
class Buckets:
    """A sampler whose order depends on seed and epoch alone, so that a resumed epoch is the same epoch.

    Row i may have `rounds` versions, used by turns, one each epoch (0: a new one every epoch); that of round r has the
    index r · len + i."""

    lengths: Sequence[int]
    batch: int
    seed: int
    span: int = 50
    bucket: bool = True
    rounds: int = 1
    epoch: int = 0

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
        lengths = np.asarray(self.lengths)
        spans = [span[np.argsort(lengths[span], kind="stable")] for span in spans]
        batches = np.concatenate(spans).reshape(-1, self.batch) if spans else body.reshape(0, self.batch)
        return np.concatenate([draw.permutation(batches).reshape(-1), rest])
