"""Small integers that stand for weights: codes, two of four bits in a byte, and the way back to numbers.

w = (q − z) · s        one s, and where there is one one z, for each group of a row; without groups one for the row
"""

from __future__ import annotations

import torch
from torch import Tensor


def pack(codes: Tensor) -> Tensor:
    """[…, width] int8 from −8 to 7 → […, ⌈width / 2⌉ ] uint8: the first of a pair in the lower half of the byte."""
    even = torch.nn.functional.pad(codes, (0, codes.shape[-1] % 2))
    positive = (even + 8).to(torch.uint8)
    return positive[..., ::2] | (positive[..., 1::2] << 4)


def unpack(packed: Tensor, width: int) -> Tensor:
    """The codes that were packed: […, width] int8."""
    both = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    return both[..., :width].to(torch.int8) - 8


def dequantise(codes: Tensor, scales: Tensor, zeros: Tensor | None = None, group: int = 0) -> Tensor:
    """[…, width] codes and […, groups] scales and zero points → […, width] numbers of the scales' type."""
    found = codes.to(scales.dtype)
    if zeros is not None:
        found = found - _spread(zeros, group, codes.shape[-1]).to(scales.dtype)
    return found * _spread(scales, group, codes.shape[-1])


def _spread(of_groups: Tensor, group: int, width: int) -> Tensor:
    """One value per group → one per place, or one for all; the last group may be shorter."""
    return of_groups.repeat_interleave(group, -1)[..., :width] if group else of_groups
