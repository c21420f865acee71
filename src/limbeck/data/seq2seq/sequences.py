"""Parallel texts as the examples of a seq2seq model: encoder input, decoder input, labels.

A uid is of source and target: another target is another example, so an output cached for one never serves the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limbeck.core.task import Kind
from limbeck.data.text.examples import flatten, tokenise
from limbeck.data.uids import pair_uid

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

    @property
    def pieces(self) -> np.ndarray:
        """[n] int32: every token id of the texts, once."""
        return np.unique(np.concatenate([self._sources, self._targets, [self.start]])).astype(np.int32)

    def take(self, indices: Sequence[int] | np.ndarray) -> Sequences:
        """Some of the rows; how many of them were cut is not counted again."""
        return Sequences([self.source(i) for i in indices], [self.target(i) for i in indices], self.start)


def encode_sequences(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Any, start: int, max_length: int
) -> Sequences:
    """Tokens of every text, at most max_length of each side, or model_max_length if that is less."""
    longest = min(max_length, tokenizer.model_max_length)
    read, cut = tokenise(tokenizer, longest, sources)
    labels, also_cut = tokenise(tokenizer, longest, targets, target=True)
    return Sequences(read["input_ids"], labels["input_ids"], start, truncated=len(cut | also_cut))
