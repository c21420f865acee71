"""How many parameters a model has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def count_parameters(model: PreTrainedModel) -> tuple[int, int]:
    """All of them, and those outside tables of embeddings; what two names share counts once."""
    every = _elements(model.parameters())
    return every, every - _elements(tables_of(model))


def tables_of(model: PreTrainedModel) -> list[Tensor]:
    """What is looked up and not multiplied, unless a head shares it."""
    from torch import nn

    return [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum({tensor.data_ptr() or id(tensor): tensor.numel() for tensor in tensors}.values())
