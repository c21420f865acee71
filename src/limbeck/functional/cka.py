"""Centred kernel alignment: the similarity of two sets of features, up to rotation and scale, in any widths.

    CKA = HSIC(X, Y) / √( HSIC(X, X) · HSIC(Y, Y) ),   X and Y centred over the rows

    biased     HSIC = ‖XᵀY‖²
    unbiased   HSIC = ‖XᵀY‖² − n/(n − 2) · Σ_i |x_i|²|y_i|² + Σ_i |x_i|² · Σ_i |y_i|² / ((n − 1)(n − 2))

Both omit the factor that depends on n alone, which cancels in the ratio. The unbiased form is Song's estimator, whose
kernels are centred first: that does not change it, makes their rows sum to 0, and leaves these three terms.
"""

from __future__ import annotations

import torch
from torch import Tensor

from limbeck.functional.softmax import wide


def linear_cka(x: Tensor, y: Tensor, unbiased: bool = True) -> Tensor:
    """[rows, width] and [rows, other width] → []; biased from 0 to 1, unbiased from −1 to 1.

    With fewer rows than the estimator needs (unbiased 4, biased 2) it is 1: they cannot be told apart."""
    if len(x) < (4 if unbiased else 2):
        return 1 + wide(x[:0]).sum()
    with torch.autocast(x.device.type, enabled=False):  # half precision would lose what the corrections cancel
        x, y = _unit(wide(x)), _unit(wide(y))
        own = _hsic(x, x, unbiased) * _hsic(y, y, unbiased)
        return _hsic(x, y, unbiased) / own.clamp(min=torch.finfo(own.dtype).eps ** 2).sqrt()


def _unit(x: Tensor) -> Tensor:
    """Centred over the rows, with norm 1, so that no product grows with the number of rows."""
    x = x - x.mean(0)
    norm: Tensor = x.norm()
    return x / norm.clamp(min=torch.finfo(x.dtype).tiny)


def _hsic(x: Tensor, y: Tensor, unbiased: bool) -> Tensor:
    """Up to a factor that depends on the number of rows alone; both sides centred."""
    cross = (x.T @ y).square().sum()
    if not unbiased:
        return cross
    n = len(x)
    norms_x, norms_y = x.square().sum(1), y.square().sum(1)
    diagonal = n / (n - 2) * (norms_x * norms_y).sum()
    return cross - diagonal + norms_x.sum() * norms_y.sum() / ((n - 1) * (n - 2))
