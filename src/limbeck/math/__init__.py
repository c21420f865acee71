"""Pure functions over plain tensors, loaded on first use so that reading a knob never loads torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limbeck.math.divergence import (
        binary_kl,
        cross_entropy,
        entropy,
        hard_binary_cross_entropy,
        hard_cross_entropy,
        kl,
        squared_distance,
    )
    from limbeck.math.mean import masked_mean

__all__ = [
    "binary_kl",
    "cross_entropy",
    "entropy",
    "hard_binary_cross_entropy",
    "hard_cross_entropy",
    "kl",
    "masked_mean",
    "squared_distance",
]

_HOMES = {"masked_mean": "mean"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'divergence')}"), name)
