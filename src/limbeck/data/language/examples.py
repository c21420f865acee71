"""Blocks as the examples of a language model: inputs, labels, and the tokens that are predicted.

A uid is of the tokens after masking, the segments and the positions predicted. Another mask is another example with
another uid, so an output cached for one mask never serves the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from limbeck.core.task import Kind
from limbeck.data.language.masking import Masker
from limbeck.data.language.pack import Blocks
from limbeck.data.uids import block_uid


@dataclass(frozen=True)
class MaskedExample:
    """One block as a model reads it."""

    inputs: np.ndarray  # [length] int32
    labels: np.ndarray  # [length] int32 token ids; 0 where not labelled
    has_label: np.ndarray  # [length] bool
    predicted: np.ndarray  # [length] bool: the tokens that both models predict


class Tokens(ABC):
    """A map-style dataset without state: index = round · len + block, so the sampler chooses the round."""

    kind: Kind
    rounds: int  # different examples per block; 0 for a new one every epoch

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.lengths: list[int] = blocks.lengths.tolist()

    @abstractmethod
    def example(self, block: int, round: int) -> MaskedExample: ...

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index < 0 or not self.lengths or 0 < self.rounds * len(self) <= index:
            raise IndexError(f"row {index} of {len(self)} blocks, {self.rounds or 'any number of'} rounds")
        round, block = divmod(index, len(self))
        example = self.example(block, round)
        row: dict[str, Any] = {
            "input_ids": example.inputs.tolist(),
            "attention_mask": [1] * self.lengths[block],
            "labels": example.labels.tolist(),
            "has_label": example.has_label.tolist(),
            "predicted": example.predicted.tolist(),
            "uids": self._uid(block, example),
        }
        if len(self.blocks.types):
            row["token_type_ids"] = self.blocks.types[self.blocks.tokens(block)].tolist()
        if len(self.blocks.next_sentence_label):
            row["next_sentence_label"] = int(self.blocks.next_sentence_label[block])
        return row

    @cached_property
    def uids(self) -> np.ndarray:
        """[rounds · blocks] int64: of every index; of round 0 alone, where rounds are without number."""
        return np.concatenate([self.round_uids(round) for round in range(self.rounds or 1)])

    def round_uids(self, round: int) -> np.ndarray:
        """[blocks] int64."""
        blocks = range(len(self))
        return np.array([self._uid(block, self.example(block, round)) for block in blocks], dtype=np.int64)

    @property
    def pieces(self) -> np.ndarray:
        """[n] int32: every token id of the texts, once."""
        return np.unique(self.blocks.ids)

    @property
    def predicted_counts(self) -> np.ndarray:
        """[rounds · blocks] int64: tokens predicted in the example of every index."""
        found = (self.example(block, round) for round in range(self.rounds or 1) for block in range(len(self)))
        return np.array([np.count_nonzero(example.predicted) for example in found], dtype=np.int64)

    def scored_tokens(self) -> np.ndarray:
        """[tokens] int32: every label of round 0."""
        found = (self.example(block, 0) for block in range(len(self)))
        return np.concatenate([np.empty(0, np.int32), *(one.labels[one.has_label & one.predicted] for one in found)])

    @abstractmethod
    def text_tokens(self) -> np.ndarray:
        """[tokens] int32: every token that could be a label."""

    def _uid(self, block: int, example: MaskedExample) -> int:
        return block_uid(self.kind, example.inputs, self.blocks.types[self.blocks.tokens(block)], example.predicted)


class MaskedTokens(Tokens):
    """For masked LMs. Predicted are the masked tokens, or all that are not padding, special ones too."""

    kind: Kind = "mask-fill"

    def __init__(self, blocks: Blocks, masker: Masker, ask: Literal["masked", "all"], rounds: int) -> None:
        super().__init__(blocks)
        masker.check(blocks)
        self.masker = masker
        self.ask = ask
        self.rounds = rounds

    def example(self, block: int, round: int) -> MaskedExample:
        masked = self.masker.mask(self.blocks, block, round)
        labels = np.where(masked.chosen, self.blocks.ids[self.blocks.tokens(block)], 0)
        predicted = np.ones_like(masked.chosen) if self.ask == "all" else masked.chosen
        return MaskedExample(masked.inputs, labels, masked.chosen, predicted)

    def text_tokens(self) -> np.ndarray:
        return self.blocks.ids[~self.blocks.special]


class NextTokens(Tokens):
    """For causal LMs: every token predicts the next one, the last of a block none."""

    kind: Kind = "generate"
    rounds = 1

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks)
        # the end of a text is a word like any other here: only `learnt` takes a token out
        self._learnt = blocks.learnt if len(blocks.learnt) else np.ones(len(blocks.ids), dtype=bool)

    def example(self, block: int, round: int) -> MaskedExample:
        place = self.blocks.tokens(block)
        inputs = self.blocks.ids[place]
        predicted = np.zeros(len(inputs), dtype=bool)
        predicted[:-1] = self._learnt[place][1:]
        labels = np.zeros_like(inputs)
        labels[:-1] = inputs[1:]
        return MaskedExample(inputs, np.where(predicted, labels, 0), predicted, predicted)

    def text_tokens(self) -> np.ndarray:
        """All that is learnt but for the first token of a block, which nothing predicts."""
        learnt = self._learnt.copy()
        learnt[self.blocks.offsets[:-1]] = False
        return self.blocks.ids[learnt]
