"""A static model in NumPy: vectors of pieces are looked up, filters pass over them, one hidden layer makes the logits.

It computes what limbeck/students/networks/static.py computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limbeck_runtime.folder import CONFIG, VECTORS, UnusableError

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
        self.window = int(self.config["window"])
        self.filters: list[Array] = []  # [width, filters] for each place in the window
        if "filters.weight" in tensors:
            weights = tensors["filters.weight"].astype(np.float32)  # [filters, window · width]
            places = np.split(weights, self.window, axis=1)
            self.filters, self.bias = [np.ascontiguousarray(one.T) for one in places], tensors["filters.bias"]
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
        (texts, length), before = ids.shape, (self.window - 1) // 2
        vectors = np.zeros((texts, length + self.window - 1, self.pieces.rows.shape[1]), dtype=np.float32)
        inner = vectors[:, before : before + length]
        inner[read] = self.pieces(ids[read])
        mean = inner.sum(1) / np.maximum(read.sum(1), 1).astype(np.float32)[:, None]
        if not self.filters:
            return np.asarray(mean)
        found = vectors[:, :length] @ self.filters[0] + self.bias
        for place, weights in enumerate(self.filters[1:], start=1):
            found += vectors[:, place : place + length] @ weights
        found[~read] = 0
        return np.concatenate([mean, np.maximum(found.max(1, initial=0), 0)], axis=1)


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
