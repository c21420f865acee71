"""Means over the rows that count."""

from __future__ import annotations

from torch import Tensor

from limbeck.core.objective import Mean


def masked_mean(values: Tensor, mask: Tensor) -> Mean:
    """Sum of `values` [rows] where `mask` [rows] holds, and how many. Masked values may be anything, NaN included."""
    return Mean(values[mask].sum(), mask.sum())
