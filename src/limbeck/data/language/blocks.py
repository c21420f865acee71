"""Blocks of tokens: the examples of a language model, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from limbeck.data.ragged import spans


def _nothing() -> np.ndarray:
    return np.empty(0, dtype=np.int8)


@dataclass(frozen=True)
class Blocks:
    """Block i holds the tokens from offsets[i] to offsets[i + 1]. Columns that are not needed are empty."""

    ids: np.ndarray  # [tokens] int32
    offsets: np.ndarray  # [blocks + 1] int64
    special: np.ndarray  # [tokens] bool: [CLS], [SEP] and the like, put there by the tokenizer: never predicted
    inside: np.ndarray = field(default_factory=_nothing)  # [tokens] bool: goes on with the word of the token before
    learnt: np.ndarray = field(default_factory=_nothing)  # [tokens] bool: to be learnt (chats); empty for all
    types: np.ndarray = field(default_factory=_nothing)  # [tokens] int8: segment, 0 or 1; empty if the model has none
    # [blocks] int8: 0 next sentence, 1 random; empty if no pairs
    next_sentence_label: np.ndarray = field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def tokens(self, index: int) -> slice:
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def take(self, indices: Sequence[int] | np.ndarray) -> Blocks:
        """These blocks, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        flat, offsets = spans(self.offsets[chosen], self.lengths[chosen])
        columns = {
            name: column[flat] if len(column := getattr(self, name)) else column
            for name in ("ids", "special", "inside", "learnt", "types")
        }
        follows = self.next_sentence_label
        return Blocks(offsets=offsets, next_sentence_label=follows[chosen] if len(follows) else follows, **columns)
