"""Bridges: linear maps from the student's width to the teacher's.

They train and go into checkpoints as a part of the student, and are removed before it is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

_NAME = "limbeck_bridges"
_DOT = "|"  # a module's name holds no dots
M = TypeVar("M", bound=nn.Module)


def add_bridges(model: nn.Module, widths: Mapping[str, tuple[int, int]]) -> None:
    """Name → (width of the student, width of the teacher); fresh from torch's current seed."""
    if widths:
        maps = {name.replace(".", _DOT): nn.Linear(*width) for name, width in widths.items()}
        model.add_module(_NAME, nn.ModuleDict(maps))


def bridges_of(model: nn.Module) -> dict[str, nn.Module]:
    maps = getattr(model, _NAME, None)
    return {} if maps is None else {name.replace(_DOT, "."): linear for name, linear in maps.items()}


def drop_bridges(model: M) -> M:
    if hasattr(model, _NAME):
        delattr(model, _NAME)
    return model
