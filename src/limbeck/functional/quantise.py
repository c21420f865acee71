"""Uniform integer quantisation of weights: by channel, or by groups of a channel.

    symmetric   s = max|x| / (2^(b−1) − 1)          q = round(x / s)                    from −(2^(b−1) − 1)
    affine      s = (max x − min x) / (2^b − 1)     q = clip(round(x / s) + z),   z = round(−2^(b−1) − min x / s)

Rounding is half to even. 0 is within the range, and is exact in both: a pruned weight and a row of padding stay 0.
The error is at most s / 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from limbeck.core.integers import dequantise


@dataclass(frozen=True)
class Quantised:
    codes: Tensor  # [rows, width] int8
    scales: Tensor  # [rows, groups]
    zeros: Tensor | None  # [rows, groups] int8, of the affine form
    group: int = 0

    @property
    def numbers(self) -> Tensor:
        """[rows, width]: what the codes stand for."""
        return dequantise(self.codes, self.scales, self.zeros, self.group)


def quantise(x: Tensor, bits: int = 8, group: int = 0, affine: bool = False) -> Quantised:
    """[rows, width] → codes of `bits` bits; a scale for each row, or for each `group` of places in it.

    The last group may be shorter."""
    width = x.shape[-1]
    size = group or width
    x = torch.nn.functional.pad(x, (0, -width % size))  # zeros change no range that has 0
    x = x.reshape(*x.shape[:-1], -1, size)
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if affine:
        low, high = x.amin(-1).clamp(max=0), x.amax(-1).clamp(min=0)
        scales = _positive((high - low) / (highest - lowest))
        zeros = (lowest - low / scales).round()
    else:
        lowest = -highest
        scales = _positive(x.abs().amax(-1) / highest)
        zeros = torch.zeros_like(scales)
    codes = ((x / scales[..., None]).round() + zeros[..., None]).clamp(lowest, highest).to(torch.int8)
    return Quantised(codes.flatten(-2)[..., :width], scales, zeros.to(torch.int8) if affine else None, group)


def _positive(scales: Tensor) -> Tensor:
    """A group of zeros has the scale 1."""
    return torch.where(scales > 0, scales, torch.ones_like(scales))
