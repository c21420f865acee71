"""Blocks as the examples of a language model: what it reads, what it is to say, and which tokens it is asked about.

An example is named by its question: the tokens after masking, the segments and the places asked about. Another mask is
another question with another uid, so an answer kept for one mask is never served for the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limbeck.core.task import Kind, TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.blocks import Blocks
from limbeck.data.encode import to_batch
from limbeck.data.masking import Masker

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Question:
    """One block as it is put to a model."""

    inputs: np.ndarray  # [length] int32
    labels: np.ndarray  # [length] int32 token ids; 0 where not labelled
    has_label: np.ndarray  # [length] bool
    predicted: np.ndarray  # [length] bool: the tokens both models speak of


class Tokens(ABC):
    """A map-style dataset without state: index = round · len + block, so the sampler chooses the round."""

    kind: Kind
    rounds: int  # different questions per block; 0 for a new one every epoch

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.lengths: list[int] = blocks.lengths.tolist()

    @abstractmethod
    def question(self, block: int, round: int) -> Question: ...

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index < 0 or not self.lengths or 0 < self.rounds * len(self) <= index:
            raise IndexError(f"row {index} of {len(self)} blocks, {self.rounds or 'any number of'} rounds")
        round, block = divmod(index, len(self))
        question = self.question(block, round)
        row: dict[str, Any] = {
            "input_ids": question.inputs.tolist(),
            "attention_mask": [1] * self.lengths[block],
            "labels": question.labels.tolist(),
            "has_label": question.has_label.tolist(),
            "predicted": question.predicted.tolist(),
            "uids": self.uid(block, question),
        }
        if len(self.blocks.types):
            row["token_type_ids"] = self.blocks.types[self.blocks.tokens(block)].tolist()
        if len(self.blocks.next_sentence_label):
            row["next_sentence_label"] = int(self.blocks.next_sentence_label[block])
        return row

    def all_uids(self) -> np.ndarray:
        """[rounds · blocks] int64, of every index; those of one round where there is no end of rounds."""
        return np.concatenate([uids_of(self, round) for round in range(self.rounds or 1)])

    def uid(self, block: int, question: Question) -> int:
        """63 bits over all that the teacher's answer depends on."""
        types = self.blocks.types[self.blocks.tokens(block)]
        name = blake2b(f"{len(question.inputs)} {len(types)} ".encode(), digest_size=8, person=self.kind.encode())
        name.update(question.inputs.astype("<i4").tobytes())
        name.update(types.astype("i1").tobytes())
        name.update(np.packbits(question.predicted).tobytes())
        return int.from_bytes(name.digest(), "big") >> 1


class MaskedTokens(Tokens):
    """For masked models. Asked are the chosen tokens, or all: every token that is not padding, special ones too."""

    kind: Kind = "mask-fill"

    def __init__(self, blocks: Blocks, masker: Masker, ask: Literal["masked", "all"], rounds: int) -> None:
        super().__init__(blocks)
        masker.check(blocks)
        self.masker = masker
        self.ask = ask
        self.rounds = rounds

    def question(self, block: int, round: int) -> Question:
        masked = self.masker.mask(self.blocks, block, round)
        labels = np.where(masked.chosen, self.blocks.ids[self.blocks.tokens(block)], 0)
        predicted = np.ones_like(masked.chosen) if self.ask == "all" else masked.chosen
        return Question(masked.inputs, labels, masked.chosen, predicted)


class NextTokens(Tokens):
    """For causal models: every token is asked for the next one, the last of a block for none."""

    kind: Kind = "generate"
    rounds = 1

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(blocks)
        # the end of a text is a word like any other here: only `learnt` takes a token out
        self._learnt = blocks.learnt if len(blocks.learnt) else np.ones(len(blocks.ids), dtype=bool)

    def question(self, block: int, round: int) -> Question:
        place = self.blocks.tokens(block)
        inputs = self.blocks.ids[place]
        predicted = np.zeros(len(inputs), dtype=bool)
        predicted[:-1] = self._learnt[place][1:]
        labels = np.zeros_like(inputs)
        labels[:-1] = inputs[1:]
        return Question(inputs, np.where(predicted, labels, 0), predicted, predicted)


def uids_of(dataset: Tokens, round: int = 0) -> np.ndarray:
    """[blocks] int64: the name of every question of a round."""
    return np.fromiter(
        (dataset.uid(block, dataset.question(block, round)) for block in range(len(dataset))), np.int64, len(dataset)
    )


def asked_counts(dataset: Tokens, round: int = 0) -> np.ndarray:
    """[blocks] int64: tokens asked about in every question of a round."""
    return np.fromiter(
        (np.count_nonzero(dataset.question(block, round).predicted) for block in range(len(dataset))),
        np.int64,
        len(dataset),
    )


class TokenCollator:
    """Rows become one padded batch. Padding is where a row has ended: the padding token may also be a word."""

    def __init__(self, pad_id: int, task: TaskInfo) -> None:
        self.pad_id = pad_id
        self.task = task

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        import torch

        width = max(len(row["input_ids"]) for row in rows)
        tensors = {}
        for name in rows[0]:
            if name in ("uids", "next_sentence_label"):
                column = np.array([row[name] for row in rows], dtype=np.int64)
            else:
                kind = bool if name in ("has_label", "predicted") else np.int64
                column = np.full((len(rows), width), self.pad_id if name == "input_ids" else 0, dtype=kind)
                for line, row in zip(column, rows, strict=True):
                    line[: len(row[name])] = row[name]
            tensors[name] = torch.from_numpy(column)
        return tensors


def token_batches(dataset: Tokens, collator: TokenCollator, size: int, round: int = 0) -> Iterator[Batch]:
    """Every block once, longest first: little padding, and a shortage of memory shows at once."""
    order = np.argsort([-length for length in dataset.lengths], kind="stable").tolist()
    for start in range(0, len(order), size):
        rows = [dataset[round * len(dataset) + block] for block in order[start : start + size]]
        yield to_batch(collator(rows), collator.task)
