"""Pairs of texts as the examples of a translator: what it reads, what it has written, and what it is to write next.

An example is named by source and target: another target is another question, so an answer kept for one is never served
for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.task import Kind, TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.encode import batches
from limbeck.data.tokens import TokenCollator

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK = 2000  # texts handed to the tokenizer at once: bounds the memory its Python lists take
Tokens = Sequence[Sequence[int]] | Sequence[np.ndarray]  # of each row


class Sequences:
    """A map-style dataset over flat arrays. Every target token is asked for, the end of the text too."""

    kind: Kind = "translate"
    rounds = 1

    def __init__(self, sources: Tokens, targets: Tokens, start: int, truncated: int = 0) -> None:
        self.start = start  # what a decoder reads before the first token
        self.truncated = truncated  # rows of which a text was cut
        self._sources, self._source_offsets = _flat(sources)
        self._targets, self._target_offsets = _flat(targets)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        self.lengths: list[int] = (np.diff(self._source_offsets) + np.diff(self._target_offsets)).tolist()
        self.uids = np.fromiter(map(self._uid, range(len(self))), np.int64, len(self))

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

    def _uid(self, index: int) -> int:
        """63 bits over all that an answer depends on; the lengths keep [1, 2], [3] apart from [1], [2, 3]."""
        source, target = self.source(index), self.target(index)
        name = blake2b(f"{self.start} {len(source)} {len(target)} ".encode(), digest_size=8, person=b"translate")
        name.update(source.astype("<i4").tobytes())
        name.update(target.astype("<i4").tobytes())
        return int.from_bytes(name.digest(), "big") >> 1


def _flat(rows: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """All tokens in one array, and where each row starts."""
    offsets = np.cumsum([0, *map(len, rows)])
    return np.concatenate([np.empty(0, np.int32), *(np.asarray(row, dtype=np.int32) for row in rows)]), offsets


def encode_sequences(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Any, start: int, max_length: int
) -> Sequences:
    """Tokens of every text, at most max_length of each side, or fewer if the tokenizer says its model reads fewer."""
    longest = min(max_length, tokenizer.model_max_length)
    read, cut = _tokens(lambda texts, **how: tokenizer(texts, **how), sources, longest)
    written, also_cut = _tokens(lambda texts, **how: tokenizer(text_target=texts, **how), targets, longest)
    return Sequences(read, written, start, truncated=len(cut | also_cut))


def _tokens(
    tokenize: Callable[..., Mapping[str, Any]], texts: Sequence[str], longest: int
) -> tuple[list[np.ndarray], set[int]]:
    """Of each text, and which texts are cut. Only these are asked for twice: the tokenizer knows what must end them."""
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


class SequenceCollator:
    """Rows become one batch, each side padded to its own longest row."""

    def __init__(self, pad_id: int, task: TaskInfo) -> None:
        self.pad_id = pad_id
        self.task = task
        self._pad = TokenCollator(pad_id, task)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        read = ("input_ids", "attention_mask", "uids")
        said = ("labels", "has_label", "predicted")
        source = self._pad([{name: row[name] for name in read} for row in rows])
        target = self._pad(
            [{"input_ids": row["decoder_input_ids"], **{name: row[name] for name in said}} for row in rows]
        )
        return {**source, "decoder_input_ids": target.pop("input_ids"), **target}


def sequence_batches(dataset: Sequences, collator: SequenceCollator, size: int) -> Iterator[Batch]:
    """Every row once, longest first."""
    return batches(dataset, collator, size)
