"""Bridges: linear maps from the student's width to the teacher's.

They train and go into checkpoints as a part of the student, and are removed before it is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

from limbeck.students.narrow import stream_of

_NAME = "limbeck_bridges"
_DOT = "|"  # a module's name holds no dots
M = TypeVar("M", bound=nn.Module)


def add_bridges(model: nn.Module, widths: Mapping[str, tuple[int, int]]) -> None:
    """Name → (width of the student, width of the teacher); fresh from torch's current seed.

    A student whose width is directions of its teacher's states starts with the way back."""
    maps = {name.replace(".", _DOT): nn.Linear(*width) for name, width in widths.items()}
    stream = stream_of(model)
    for linear in maps.values():
        if stream and linear.weight.shape == stream.way.shape:
            linear.weight.data.copy_(stream.way)
            linear.bias.data.copy_(stream.rest)
    if widths:
        model.add_module(_NAME, nn.ModuleDict(maps))


def bridges_of(model: nn.Module) -> dict[str, nn.Module]:
    maps = getattr(model, _NAME, None)
    return {} if maps is None else {name.replace(_DOT, "."): linear for name, linear in maps.items()}


def drop_bridges(model: M) -> M:
    if hasattr(model, _NAME):
        delattr(model, _NAME)
    return model
