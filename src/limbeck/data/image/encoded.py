"""Images as what a network reads, a whole batch at once; those that train may be shifted, otherwise in every epoch."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.image_processor import ImageProcessor
from limbeck.data.image.images import Images, new_images
from limbeck.data.settings import DataSettings, ImageSettings

if TYPE_CHECKING:
    from torch import Tensor

TIMED = 64  # blank images
_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)  # of splitmix64


class EncodedImages:
    """A map-style dataset. With jitter, row i has another shift in every round; its index is round · len + i."""

    truncated = 0

    def __init__(self, examples: Images, processor: ImageProcessor, jitter: int = 0, seed: int = 0) -> None:
        self.examples, self.processor, self.jitter, self.seed = examples, processor, jitter, seed
        self.uids, self.labels, self.has_label = examples.uids, examples.labels, examples.has_label
        self.lengths = [1] * len(examples)
        self.rounds = 0 if jitter else 1  # 0: a new one every epoch

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, indices: Sequence[int] | np.ndarray) -> EncodedImages:
        return EncodedImages(self.examples.take(indices), self.processor, self.jitter, self.seed)

    def with_labels(self, labels: np.ndarray) -> EncodedImages:
        """The same images, all with a label."""
        known = replace(self.examples, labels=labels, has_label=np.ones(len(self), dtype=bool))
        return EncodedImages(known, self.processor, self.jitter, self.seed)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = index % len(self)
        return {
            "pixel_values": self._pixel_values(np.array([index]))[0],
            "uids": int(self.uids[row]),
            "labels": int(self.labels[row]),
            "has_label": bool(self.has_label[row]),
        }

    def batch(self, indices: Sequence[int] | np.ndarray) -> dict[str, Tensor]:
        """What a collator makes of these rows, without a step of Python for each."""
        import torch

        chosen = np.asarray(indices, dtype=np.int64)
        rows = chosen % len(self)
        columns = (self._pixel_values(chosen), self.uids[rows], self.labels[rows], self.has_label[rows])
        names = ("pixel_values", "uids", "labels", "has_label")
        return {name: torch.from_numpy(column) for name, column in zip(names, columns, strict=True)}

    def _pixel_values(self, indices: np.ndarray) -> np.ndarray:
        """float32 [n, 1, height, width]"""
        rounds, rows = np.divmod(indices, len(self))
        images = self.examples.pixels[rows]
        if self.jitter:
            images = shifted(images, *shifts(self.uids[rows], rounds, self.jitter, self.seed))
        return self.processor.pixel_values(images)


def encode_images(images: Images, processor: ImageProcessor, settings: ImageSettings | None = None) -> EncodedImages:
    """With the shifts of `settings`, for training; without, the images as they are."""
    return EncodedImages(images, processor, *((settings.jitter, settings.seed) if settings else ()))


def shifts(uids: np.ndarray, rounds: np.ndarray, most: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """[n] down and [n] right, from -most to most: of (seed, round, uid) alone, so that a resumed run sees the same."""
    drawn = _mixed(uids.astype(np.uint64) ^ _mixed(rounds.astype(np.uint64) ^ _mixed(np.array([seed], np.uint64))))
    width = np.uint64(2 * most + 1)
    return (drawn % width).astype(np.int64) - most, ((drawn >> np.uint64(32)) % width).astype(np.int64) - most


def _mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64: every bit of the result depends on every bit of a value."""
    mixed = values + _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[2]
    return mixed ^ (mixed >> np.uint64(31))


def shifted(images: np.ndarray, down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[n, height, width]; what comes in at an edge is background, 0."""
    most = int(max(np.abs(down).max(initial=0), np.abs(right).max(initial=0)))
    count, height, width = images.shape
    padded = np.zeros((count, height + 2 * most, width + 2 * most), dtype=images.dtype)
    padded[:, most : most + height, most : most + width] = images
    windows = np.lib.stride_tricks.sliding_window_view(padded, images.shape[1:], axis=(1, 2))
    return windows[np.arange(count), most - down, most - right]


def timing_images(settings: DataSettings, processor: ImageProcessor) -> list[tuple[str, str]]:
    """Of the file, as lines of letters; without one, blank images, which take as long."""
    blank = np.zeros((TIMED, processor.height, processor.width), dtype=np.uint8)
    images = new_images(settings).pixels if settings.train else blank
    return [(as_text(image), "") for image in images]


def as_text(image: np.ndarray) -> str:
    """An image as one line, for processes that are handed texts."""
    return f"{image.shape[0]}x{image.shape[1]} {base64.b64encode(image.tobytes()).decode()}"


def from_text(text: str) -> np.ndarray:
    """[height, width] uint8"""
    size, _, pixels = text.partition(" ")
    height, _, width = size.partition("x")
    return np.frombuffer(base64.b64decode(pixels), dtype=np.uint8).reshape(int(height), int(width))
