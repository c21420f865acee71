"""Rows of different length in one flat array: row i holds the values from offsets[i] to offsets[i + 1]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def flatten(rows: Sequence[Sequence[int]] | Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """[values] int32, and [rows + 1] offsets."""
    parts = (np.asarray(row, dtype=np.int32) for row in rows)
    return np.concatenate([np.empty(0, np.int32), *parts]), np.cumsum([0, *map(len, rows)])


def spans(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The indices of all values of these spans, and the offsets that the spans have among them."""
    offsets = np.append(0, np.cumsum(lengths))
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1]), offsets
