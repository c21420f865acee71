"""Pure functions over plain tensors, loaded on first use so that reading a knob never loads torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limbeck.functional.divergence import (
        binary_kl,
        cosine_distance,
        cross_entropy,
        entropy,
        hard_binary_cross_entropy,
        hard_cross_entropy,
        kl,
        squared_distance,
    )
    from limbeck.functional.mean import masked_mean
    from limbeck.functional.mixture import jsd, kl_family, scaled_jsd, skewed_kl
    from limbeck.functional.softmax import log_softmax, pick
    from limbeck.functional.truncated import draw, drawn_cross_entropy, top_of, truncated_loss

__all__ = [
    "binary_kl",
    "cosine_distance",
    "cross_entropy",
    "draw",
    "drawn_cross_entropy",
    "entropy",
    "hard_binary_cross_entropy",
    "hard_cross_entropy",
    "jsd",
    "kl",
    "kl_family",
    "log_softmax",
    "masked_mean",
    "pick",
    "scaled_jsd",
    "skewed_kl",
    "squared_distance",
    "top_of",
    "truncated_loss",
]

_HOMES = {
    "draw": "truncated",
    "drawn_cross_entropy": "truncated",
    "jsd": "mixture",
    "kl_family": "mixture",
    "log_softmax": "softmax",
    "masked_mean": "mean",
    "pick": "softmax",
    "scaled_jsd": "mixture",
    "skewed_kl": "mixture",
    "top_of": "truncated",
    "truncated_loss": "truncated",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'divergence')}"), name)
