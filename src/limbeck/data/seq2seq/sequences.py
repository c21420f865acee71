"""Parallel texts as the examples of a seq2seq model: encoder input, decoder input, labels.

A uid is of source and target: another target is another example, so an output cached for one never serves the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from limbeck.core.task import Kind
from limbeck.data.ragged import flatten
from limbeck.data.uids import pair_uid

_CHUNK = 2000  # texts handed to the tokenizer at once: bounds the memory its Python lists take
Tokens = Sequence[Sequence[int]] | Sequence[np.ndarray]  # of each row


class Sequences:
    """A map-style dataset over flat arrays. Every target token is predicted, the end of the text too."""

    kind: Kind = "translate"
    rounds = 1

    def __init__(self, sources: Tokens, targets: Tokens, start: int, truncated: int = 0) -> None:
        self.start = start  # what a decoder reads before the first token
        self.truncated = truncated  # rows of which a text was cut
        self._sources, self._source_offsets = flatten(sources)
        self._targets, self._target_offsets = flatten(targets)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        self.lengths: list[int] = (np.diff(self._source_offsets) + np.diff(self._target_offsets)).tolist()
        rows = range(len(self))
        self.uids = np.array([pair_uid(self.kind, start, self.source(i), self.target(i)) for i in rows], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def source(self, index: int) -> np.ndarray:
        return self._sources[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> np.ndarray:
        return self._targets[self._target_offsets[index] : self._target_offsets[index + 1]]

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        source, target = self.source(index).tolist(), self.target(index).tolist()
        return {
            "input_ids": source,
            "attention_mask": [1] * len(source),
            "decoder_input_ids": [self.start, *target][: len(target)],
            "labels": target,
            "has_label": [True] * len(target),
            "predicted": [True] * len(target),
            "uids": int(self.uids[index]),
        }

    def all_uids(self) -> np.ndarray:
        return self.uids

    def take(self, indices: Sequence[int] | np.ndarray) -> Sequences:
        """Some of the rows; how many of them were cut is not counted again."""
        return Sequences([self.source(i) for i in indices], [self.target(i) for i in indices], self.start)


def encode_sequences(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Any, start: int, max_length: int
) -> Sequences:
    """Tokens of every text, at most max_length of each side, or model_max_length if that is less."""
    longest = min(max_length, tokenizer.model_max_length)
    read, cut = _tokens(lambda texts, **how: tokenizer(texts, **how), sources, longest)
    labels, also_cut = _tokens(lambda texts, **how: tokenizer(text_target=texts, **how), targets, longest)
    return Sequences(read, labels, start, truncated=len(cut | also_cut))


def _tokens(
    tokenize: Callable[..., Mapping[str, Any]], texts: Sequence[str], longest: int
) -> tuple[list[np.ndarray], set[int]]:
    """Of each text, and which texts are cut. Only these are tokenised twice: the tokenizer knows what must end them."""
    # not padded, whatever the tokenizer's own file says
    how = {"padding": False, "return_attention_mask": False, "verbose": False}
    found: list[np.ndarray] = []
    for first in range(0, len(texts), _CHUNK):
        rows = tokenize(list(texts[first : first + _CHUNK]), truncation=False, **how)["input_ids"]
        found += [np.array(row, dtype=np.int32) for row in rows]
    cut = [row for row, tokens in enumerate(found) if len(tokens) > longest]
    if cut:
        rows = tokenize([texts[row] for row in cut], truncation=True, max_length=longest, **how)["input_ids"]
        for row, tokens in zip(cut, rows, strict=True):
            found[row] = np.array(tokens, dtype=np.int32)
    return found, set(cut)
