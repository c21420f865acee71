"""Which tokens of a block are predicted, and what stands in their place: BERT's, whole-word and DistilBERT's masks.

A mask is decided by the tokens themselves, the seed and the round: neither the order of training, nor the batch, nor
the number of processes changes it. Equal blocks have equal masks within a round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import shake_128
from math import ceil

import numpy as np

from limbeck.core.errors import KnobError, ModelError
from limbeck.data.language.pack import Blocks
from limbeck.data.settings import MaskSettings

GROUP = 32  # consecutive blocks that share one count of rare tokens; DistilBERT shares it in a batch, which may vary
_RARITY = 0.7  # a token seen n times has the weight n^-0.7; DistilBERT code


@dataclass(frozen=True)
class Masked:
    inputs: np.ndarray  # [length] int32: what the model reads
    chosen: np.ndarray  # [length] bool: the tokens to be predicted, those left as they are among them


class Masker:
    """Masks blocks. `special_ids` are never chosen, nor are the tokens that the blocks mark as special.

    `counts` says how often each token occurs in the training blocks; only rare masking reads it."""

    def __init__(
        self,
        settings: MaskSettings,
        mask_id: int | None,
        vocabulary: int,
        special_ids: Collection[int] = (),
        counts: np.ndarray | None = None,
    ) -> None:
        if mask_id is None:
            raise ModelError(
                "the tokenizer has no mask token",
                "use --task generate for causal LMs, or a masked LM",
            )
        if settings.hidden + settings.random > 1 + 1e-9:
            raise KnobError(
                f"mask.hidden = {settings.hidden} and mask.random = {settings.random} are parts of the same tokens, "
                "but together more than all of them",
                "lower one of them; what is left of 1 stays unchanged",
            )
        self.settings = settings
        self.mask_id = mask_id
        self.vocabulary = vocabulary
        self._special = np.zeros(vocabulary, dtype=bool)
        self._special[[token for token in special_ids if token < vocabulary]] = True
        self._together = 1
        if settings.kind == "rare":
            if counts is None:
                raise ValueError("rare masking needs the counts of tokens")
            self._together = GROUP
            self._weights = rarity(counts, vocabulary)
        self._latest: tuple[Blocks, int, int, Masked] | None = None

    def check(self, blocks: Blocks) -> None:
        """Refuses blocks that cannot be masked this way."""
        if len(blocks.ids) and blocks.ids.max() >= self.vocabulary:
            raise ModelError(
                f"the tokenizer gives token {blocks.ids.max()}, but the model knows only {self.vocabulary} tokens",
                "use the tokenizer that belongs to the model",
            )
        if self.settings.kind == "whole-word" and len(blocks.inside) != len(blocks.ids):
            raise ModelError(
                "the tokenizer does not say which pieces make up a word, so whole words cannot be masked",
                "use a fast tokenizer, or mask.kind = token",
            )

    def mask(self, blocks: Blocks, index: int, round: int) -> Masked:
        """The mask of one block in this round."""
        first = index - index % self._together
        masked = self._masked(blocks, first, round)
        own = slice(blocks.offsets[index] - blocks.offsets[first], blocks.offsets[index + 1] - blocks.offsets[first])
        return Masked(masked.inputs[own], masked.chosen[own])

    def _masked(self, blocks: Blocks, first: int, round: int) -> Masked:
        """Of the blocks that are masked together. The latest are cached: blocks mostly come in order."""
        latest = self._latest
        if latest and latest[0] is blocks and latest[1:3] == (first, round):
            return latest[3]
        last = min(first + self._together, len(blocks))
        tokens = slice(int(blocks.offsets[first]), int(blocks.offsets[last]))
        ids = blocks.ids[tokens]
        free = ~(blocks.special[tokens] | self._special[ids])
        order, fate, other = _draws(ids, self.settings.seed, round)
        places = self._places(order, ids, free, blocks.inside[tokens])
        chosen = np.zeros(len(ids), dtype=bool)
        chosen[places] = True
        masked = Masked(self._replaced(ids, places, fate[places], other[places]), chosen)
        if self._together > 1:
            self._latest = (blocks, first, round, masked)
        return masked

    def _places(self, order: np.ndarray, ids: np.ndarray, free: np.ndarray, inside: np.ndarray) -> np.ndarray:
        share = self.settings.share
        if self.settings.kind == "rare":
            return _first(-np.log1p(-order) / self._weights[ids], free, ceil(share * len(ids)))
        count = predictions(len(ids), share)
        if self.settings.kind == "whole-word":
            return _first_words(order, free, inside, count)
        return _first(order, free, count)

    def _replaced(self, ids: np.ndarray, places: np.ndarray, fate: np.ndarray, other: np.ndarray) -> np.ndarray:
        hidden, random = self.settings.hidden, self.settings.random
        instead = np.where(
            fate < hidden, self.mask_id, np.where(fate < hidden + random, other * self.vocabulary, ids[places])
        )
        inputs = ids.astype(np.int32)
        inputs[places] = instead
        return inputs


def predictions(length: int, share: float) -> int:
    """Tokens predicted in a block of this length, special tokens counted: BERT's rule, with Python's rounding."""
    return max(1, round(share * length))


def count_tokens(blocks: Blocks, vocabulary: int) -> np.ndarray:
    """[vocabulary] how often each token occurs."""
    return np.bincount(blocks.ids, minlength=vocabulary)


def rarity(counts: np.ndarray, vocabulary: int) -> np.ndarray:
    """[vocabulary] count^-0.7; a token that was never seen weighs as one seen once."""
    seen = np.ones(vocabulary)
    known = counts[:vocabulary]
    seen[: len(known)] = np.maximum(known, 1)
    return seen**-_RARITY


def _draws(ids: np.ndarray, seed: int, round: int) -> np.ndarray:
    """[3, tokens] uniform in [0, 1): a hash of the tokens, so the same on every machine and with every NumPy."""
    name = shake_128(f"limbeck mask {seed} {round} ".encode() + ids.astype("<i4").tobytes())
    return np.frombuffer(name.digest(12 * len(ids)), dtype="<u4").reshape(3, -1) * 2.0**-32


def _first(order: np.ndarray, free: np.ndarray, count: int) -> np.ndarray:
    """The places of the `count` free tokens that come first.

    With order ~ Exp(1) / weight, this is sampling without replacement in proportion to the weights."""
    places = np.flatnonzero(free)
    return places[np.argpartition(order[places], count)[:count]] if count < len(places) else places


def _first_words(order: np.ndarray, free: np.ndarray, inside: np.ndarray, count: int) -> np.ndarray:
    """The places of whole words, each taken in its turn unless it would exceed the count."""
    begins = free.copy()
    begins[1:] &= ~(
        inside[1:].astype(bool) & free[:-1]
    )  # after a special token a word begins, even with an inner piece
    starts = np.flatnonzero(begins)
    places = np.flatnonzero(free)
    words = (np.cumsum(begins) - 1)[places]  # the word that each free token belongs to
    sizes = np.bincount(words, minlength=len(starts)).tolist()
    taken = np.zeros(len(starts), dtype=bool)
    for word in np.argsort(order[starts], kind="stable").tolist():
        if sizes[word] <= count:
            taken[word] = True
            count -= sizes[word]
    return places[taken[words]]
