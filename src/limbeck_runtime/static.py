"""A static model in NumPy: vectors of pieces and n-grams are looked up and averaged, one hidden layer makes the logits.

It computes what limbeck/students/networks/static.py computes, which says what an n-gram's row is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limbeck_runtime.folder import CONFIG, VECTORS, UnusableError

MULTIPLIER, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
SCALE = ".scale"  # behind the name of a table in small integers: one factor per row
Array = NDArray[Any]


@dataclass(frozen=True)
class _Named:
    name: str


class Table:
    """Rows in float, or in small integers with a factor for each."""

    def __init__(self, rows: Array, scale: Array | None) -> None:
        self.rows, self.scale = rows, scale

    def __call__(self, numbers: Array) -> Array:
        """[numbers, width] in float32."""
        found: Array = self.rows[numbers].astype(np.float32)
        return found if self.scale is None else found * self.scale[numbers][:, None]


class StaticNetwork:
    """What runs as a session of ONNX Runtime does."""

    def __init__(self, folder: Path) -> None:
        self.config, tensors = _opened(folder)
        self.pairs, self.segments = bool(self.config["pairs"]), bool(self.config["segments"])
        self.pieces = Table(tensors["pieces.weight"], tensors.get(f"pieces{SCALE}"))
        self.is_word = np.ones(len(self.pieces.rows), dtype=bool)
        self.is_word[[token for token in self.config["unread_ids"] if token < len(self.is_word)]] = False
        self.longest, self.last = int(self.config["longest_ngram"]), np.uint64(self.config["buckets"] - 1)
        if self.longest > 1:
            self.ngrams = Table(tensors["ngrams.weight"], tensors.get(f"ngrams{SCALE}"))
            keys = tensors.get("keys", np.arange(len(self.is_word)))
            self.keys = keys.astype(np.uint64)
            # The hash of every piece as the first of an n-gram, which depends on it and n alone.
            self.begun = {n: mixed(np.uint64(n), self.keys) for n in range(2, self.longest + 1)}
        self.layers = [
            (np.ascontiguousarray(tensors[f"{name}.weight"].astype(np.float32).T), tensors[f"{name}.bias"])
            for name in ("hidden", "classifier")
        ]

    def get_inputs(self) -> list[Any]:
        return [_Named("input_ids"), _Named("attention_mask"), *[_Named("token_type_ids")] * self.segments]

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[NDArray[np.float32]]:
        """[texts, outputs]"""
        ids = feeds["input_ids"]
        read, mask = self.is_word[ids], feeds.get("attention_mask")
        read = read if mask is None else read & (mask != 0)
        if self.pairs:
            second = self._second(ids, feeds.get("token_type_ids"))
            one, two = self.pool(ids, read & ~second), self.pool(ids, read & second)
            features = np.concatenate([one, two, np.abs(one - two), one * two], axis=1)
        else:
            features = self.pool(ids, read)
        (hidden, first), (classifier, last) = self.layers
        return [np.maximum(features @ hidden + first, 0) @ classifier + last]

    def _second(self, ids: Array, segments: Array | None) -> Array:
        if self.segments and segments is not None:
            return np.asarray(segments == 1)
        return np.asarray((ids == self.config["separator_id"]).cumsum(1) > 0)

    def pool(self, ids: Array, read: Array) -> Array:
        """[texts, length] → [texts, width]; `read` says which tokens are part of the text."""
        counts, tokens = read.sum(1), ids[read]  # text after text
        parts = [_means([(self.pieces(tokens), counts)], len(ids))]
        if self.longest > 1:
            ngrams = [(self.ngrams(rows), counts) for rows, counts in self._ngrams(tokens, counts)]
            parts.append(_means(ngrams, len(ids)))
        return np.concatenate(parts, axis=1)

    def _ngrams(self, tokens: Array, counts: Array) -> Iterator[tuple[Array, Array]]:
        """For every n: the rows of the n-grams, text after text, and how many each text has."""
        keys = self.keys[tokens]
        for n in range(2, self.longest + 1):
            count = max(len(tokens) - n + 1, 0)
            state = self.begun[n][tokens[:count]]
            for at in range(1, n):
                state = mixed(state, keys[at : at + count])
            rows = (state & self.last).astype(np.int64)
            if len(counts) > 1:  # none begins in one text and ends in another
                texts = np.repeat(np.arange(len(counts)), counts)
                rows = rows[texts[:count] == texts[len(texts) - count :]]
            yield rows, np.maximum(counts - n + 1, 0)


def mixed(state: Array | np.uint64, key: Array) -> Array:
    """A step of the hash, in unsigned integers of 64 bits; overflow wraps around."""
    state = (state ^ key) * MULTIPLIER
    return np.asarray(state ^ (state >> HALF))


def _means(groups: Sequence[tuple[Array, Array]], texts: int) -> Array:
    """[texts, width] over the vectors of all groups, each with how many of them every text has; 0 where there are none.

    Of one text NumPy's own sum is the fastest."""
    if texts == 1:
        sums = sum(vectors.sum(0, keepdims=True) for vectors, _ in groups)
    else:
        sums = np.zeros((texts, groups[0][0].shape[1]), dtype=np.float32)
        for vectors, counts in groups:
            there = counts > 0
            if there.any():
                sums[there] += np.add.reduceat(vectors, (np.cumsum(counts) - counts)[there], axis=0)
    total = np.maximum(sum(counts for _, counts in groups), 1).astype(np.float32)
    return np.asarray(sums / total[:, None])


def _opened(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise UnusableError(
            f"{folder / VECTORS} is read by safetensors, which is not here", "pip install safetensors"
        ) from None
    try:
        config = dict(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        return config, load_file(folder / VECTORS)
    except Exception as error:  # the Rust side raises its own
        raise UnusableError(f"{folder} cannot be opened: {error}", "export the model again") from None
