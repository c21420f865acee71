"""Training rows of language models and translators in the ids of a trimmed tokenizer, under the uids that they had."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.data.batches import Dataset

_IDS = ("input_ids", "decoder_input_ids", "labels")


class PieceRows(Dataset, Protocol):
    """Rows of a task over the vocabulary."""

    rounds: int

    @property
    def uids(self) -> np.ndarray: ...

    @property
    def pieces(self) -> np.ndarray:
        """[n] int32: every token id that their texts hold, once."""


class Renumbered:
    """`rows` with the ids that they have now: what a teacher made of them before is found by uid, and still fits."""

    def __init__(self, rows: PieceRows, new_ids: np.ndarray) -> None:
        self.rows, self.new_ids = rows, new_ids
        self.lengths, self.rounds = rows.lengths, rows.rounds

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        return {**row, **{name: self.new_ids[row[name]].tolist() for name in _IDS if name in row}}

    @property
    def uids(self) -> np.ndarray:
        return self.rows.uids

    @property
    def pieces(self) -> np.ndarray:
        return self.new_ids[self.rows.pieces]


def ids_before(before: Any, after: Any) -> np.ndarray:
    """[pieces of `after`] int64: the id that each piece of a trimmed tokenizer had before."""
    old = before.get_vocab()
    return np.array([old[piece] for piece in after.convert_ids_to_tokens(range(len(after)))], dtype=np.int64)


def renumbered(rows: PieceRows, before: Any, after: Any) -> Renumbered:
    """From one tokenizer's ids to those of the same one, trimmed.

    Every piece of the texts must be left. A masked model also reads words drawn from the whole vocabulary: in the place
    of one that went stands the mask."""
    old_ids = ids_before(before, after)
    new_ids = np.full(max(int(old_ids.max()), int(rows.pieces.max(initial=0)), len(before)) + 1, -1, dtype=np.int64)
    new_ids[old_ids] = np.arange(len(old_ids))
    if (gone := rows.pieces[new_ids[rows.pieces] < 0]).size:  # a pass keeps the others
        raise MismatchError(
            f"the rows hold the token {gone[0]}, which the tokenizer of {len(before):,} pieces does not have, such "
            "as a decoder_start_token_id of the model's config alone",
            "add the token to the tokenizer, or put the pass 'vocabulary' last",
        )
    new_ids[new_ids < 0] = after.mask_token_id or 0
    return Renumbered(rows, new_ids)
