"""Texts become token ids, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from limbeck.data.ragged import spans
from limbeck.data.text.examples import Examples

_CHUNK = 2000  # texts handed to the tokenizer at once: bounds the memory its Python lists take


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
        chosen = np.asarray(indices, dtype=np.int64)
        flat, offsets = spans(self._offsets[chosen], np.diff(self._offsets)[chosen])
        columns = {name: tokens[flat] for name, tokens in self._columns.items()}
        return Encoded(self.examples.take(chosen), columns, offsets, 0)

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
    """Tokens of every text, at most max_length of them, or model_max_length if that is less."""
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
