"""Texts become token ids, once; batches are padded to their own longest row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.corpus import Examples
from limbeck.data.rows import Collate, Dataset

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK = 2000  # texts handed to the tokenizer at once: bounds the memory its Python lists take
_ABOUT = (
    "uids",
    "labels",
    "has_label",
    "predicted",
    "next_sentence_label",
)  # what is said of a row, beside what the model reads


class Encoded:
    """A map-style dataset over flat arrays: row i has the tokens from offsets[i] to offsets[i + 1]."""

    def __init__(
        self, examples: Examples, columns: Mapping[str, np.ndarray], offsets: np.ndarray, truncated: int
    ) -> None:
        self.examples = examples
        self.truncated = truncated
        self.lengths: list[int] = np.diff(offsets).tolist()
        self._columns = columns
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def uids(self) -> np.ndarray:
        return self.examples.uids

    @property
    def labels(self) -> np.ndarray:
        return self.examples.labels

    @property
    def has_label(self) -> np.ndarray:
        return self.examples.has_label

    def take(self, indices: Sequence[int] | np.ndarray) -> Encoded:
        """Some of the rows; how many of them were cut is not counted again."""
        spans = [slice(self._offsets[index], self._offsets[index + 1]) for index in indices]
        columns = {
            name: np.concatenate([tokens[:0], *(tokens[span] for span in spans)])
            for name, tokens in self._columns.items()
        }
        offsets = np.cumsum([0, *(span.stop - span.start for span in spans)])
        return Encoded(self.examples.take(indices), columns, offsets, 0)

    def with_labels(self, labels: np.ndarray) -> Encoded:
        """The same rows, all with a label."""
        examples = replace(self.examples, labels=labels, has_label=np.ones(len(self), dtype=bool))
        return Encoded(examples, self._columns, self._offsets, self.truncated)

    def __getitem__(self, index: int) -> dict[str, Any]:
        start, stop = self._offsets[index], self._offsets[index + 1]
        row: dict[str, Any] = {name: tokens[start:stop].tolist() for name, tokens in self._columns.items()}
        row["attention_mask"] = [1] * int(stop - start)
        row["uids"] = int(self.examples.uids[index])
        row["labels"] = self.examples.labels[index].tolist()
        row["has_label"] = bool(self.examples.has_label[index])
        return row


def encode(examples: Examples, tokenizer: Any, max_length: int) -> Encoded:
    """Tokens of every text, at most max_length of them, or fewer if the tokenizer says its model reads fewer."""
    longest = min(max_length, tokenizer.model_max_length)
    pieces: dict[str, list[np.ndarray]] = {}
    lengths: list[int] = []
    for start in range(0, len(examples), _CHUNK):
        rows = _tokens(examples, start, start + _CHUNK, tokenizer, truncation="longest_first", max_length=longest)
        lengths += map(len, rows["input_ids"])
        for name, lists in rows.items():
            pieces.setdefault(name, []).append(np.fromiter((t for tokens in lists for t in tokens), dtype=_kind(name)))
    columns = {name: np.concatenate(parts) for name, parts in pieces.items()}
    full = examples.take([row for row, length in enumerate(lengths) if length >= longest])
    return Encoded(examples, columns, np.cumsum([0, *lengths]), _longer_than(longest, full, tokenizer))


def _tokens(examples: Examples, start: int, stop: int, tokenizer: Any, **how: Any) -> dict[str, list[list[int]]]:
    pairs = examples.pairs[start:stop] if examples.pairs else None
    # not padded, whatever the tokenizer's own file says; the mask of unpadded rows is all ones and not kept
    found = tokenizer(
        examples.texts[start:stop], pairs, padding=False, return_attention_mask=False, verbose=False, **how
    )
    return {name: found[name] for name in ("input_ids", "token_type_ids") if name in found}


def _kind(name: str) -> type[np.generic]:
    return np.int32 if name == "input_ids" else np.int8


def _longer_than(longest: int, full: Examples, tokenizer: Any) -> int:
    """How many of the rows that fill the length were cut to it."""
    chunks = range(0, len(full), _CHUNK)
    rows = (_tokens(full, start, start + _CHUNK, tokenizer, truncation=False)["input_ids"] for start in chunks)
    return sum(len(tokens) > longest for chunk in rows for tokens in chunk)


class Collator:
    """Rows become one padded batch of tensors."""

    def __init__(self, tokenizer: Any, task: TaskInfo) -> None:
        if tokenizer.pad_token_id is None:
            raise ModelError(
                "the tokenizer has no padding token, so texts of different length cannot share a batch",
                "set tokenizer.pad_token and config.pad_token_id, and save both with the model",
            )
        self.tokenizer = tokenizer
        self.task = task

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        import torch

        inputs = {name: [row[name] for row in rows] for name in rows[0] if name not in _ABOUT}
        padded = self.tokenizer.pad(inputs, padding=True, return_tensors="pt")
        return {
            **padded,
            "uids": torch.tensor([row["uids"] for row in rows], dtype=torch.int64),
            "labels": torch.tensor(
                [row["labels"] for row in rows],
                dtype=torch.int64 if self.task.kind == "classify" else torch.float32,
            ),
            "has_label": torch.tensor([row["has_label"] for row in rows], dtype=torch.bool),
        }


def to_batch(tensors: Mapping[str, Tensor], task: TaskInfo) -> Batch:
    """What a collator gives, of texts, tokens or places."""
    inputs = {name: tensor for name, tensor in tensors.items() if name not in _ABOUT}
    return Batch(task, inputs=inputs, **{name: tensors[name] for name in _ABOUT if name in tensors})


def batches(rows: Dataset, collator: Collate, size: int, indices: np.ndarray | None = None) -> Iterator[Batch]:
    """Every row once, or those of `indices`, longest first: little padding, and a shortage of memory shows at once.

    Rows with several masks have the index round · len + row; rounds come one after another."""
    chosen = np.arange(len(rows)) if indices is None else indices
    lengths, rounds = np.asarray(rows.lengths)[chosen % max(len(rows), 1)], chosen // max(len(rows), 1)
    order = chosen[np.lexsort((-lengths, rounds))].tolist()
    for start in range(0, len(order), size):
        yield to_batch(collator([rows[index] for index in order[start : start + size]]), collator.task)
