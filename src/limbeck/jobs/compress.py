"""Compression of a model in hand: one pass after another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from limbeck.core.compress import NO_CALIBRATION, Calibration, Mask, Pass

if TYPE_CHECKING:
    from torch import nn

M = TypeVar("M", bound="nn.Module")


def compress(model: M, passes: Sequence[Pass], calibration: Calibration = NO_CALIBRATION) -> M:
    """A smaller copy of `model`, after each of the passes in turn. Some passes look at rows (`calibration`).

    Weights that are 0 are pruned already: they stay 0 and count as gone. To train the copy and keep it sparse, hold
    `Mask.of(small)` with the callback `HoldMask`.

    Example:

        import limbeck
        from torch import nn

        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
        small = limbeck.compress(model, [limbeck.Magnitude(0.5)])
        assert limbeck.Mask.of(small).remaining == 40
        assert limbeck.Mask.of(model).remaining == 80
    """
    small = copy.deepcopy(model)
    mask = Mask.of(small)
    for one in passes:
        mask = one.apply(small, mask, calibration).mask
    return small
