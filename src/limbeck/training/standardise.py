"""Regression in standard units: what a model learns has mean 0 and variance 1, whatever the units of the labels.

    y′ = (y − mean) / std        W′ = W / std,  b′ = (b − mean) / std

A fresh network answers about 0 and moves by small steps, so that labels around 2,000, or a thousandth apart, are far
away from it and drown or inflate every other term. While it trains, labels, the teacher's outputs and its own are
standardised by the labels of the training rows. Before and after, the final linear layer holds the units of the labels:
a saved model needs nothing but transformers to answer in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from limbeck.training.bridges import bridges_of


@dataclass(frozen=True)
class Scale:
    """Of the labels."""

    mean: float
    std: float

    @classmethod
    def of(cls, labels: np.ndarray) -> Scale:
        """Labels that are all the same, or none at all, are only shifted."""
        values = labels.astype(np.float64)
        return cls(float(values.mean()), float(values.std()) or 1.0) if len(values) else cls(0.0, 1.0)

    def standardised(self, numbers: Tensor) -> Tensor:
        return (numbers - self.mean) / self.std

    def restored(self, numbers: Tensor) -> Tensor:
        return numbers * self.std + self.mean


def final_linear(model: nn.Module) -> nn.Linear | None:
    """The layer whose one output is the model's, whatever its family calls it; None where it has none with a bias."""
    bridges = {id(bridge) for bridge in bridges_of(model).values()}
    found = [
        layer
        for layer in model.modules()
        if isinstance(layer, nn.Linear) and layer.out_features == 1 and id(layer) not in bridges
    ]
    return found[0] if len(found) == 1 and found[0].bias is not None else None


@torch.no_grad()
def restore_units(model: nn.Module, scale: Scale) -> None:
    """A model that answers in standard units now answers in those of the labels."""
    head = final_linear(model)
    assert head is not None
    head.weight.mul_(scale.std)
    head.bias.copy_(scale.restored(head.bias))


@torch.no_grad()
def start_at_mean(model: nn.Module, scale: Scale) -> bool:
    """A head that was never trained, which its bias of 0 tells, starts at the mean of the labels. False: no head."""
    head = final_linear(model)
    if head is not None and not head.bias.any():
        restore_units(model, scale)
    return head is not None


@contextmanager
def standardised(model: nn.Module, scale: Scale) -> Iterator[None]:
    """While it trains, the model answers in standard units."""
    head = final_linear(model)
    assert head is not None
    with torch.no_grad():
        head.weight.div_(scale.std)
        head.bias.copy_(scale.standardised(head.bias))
    try:
        yield
    finally:
        restore_units(model, scale)
