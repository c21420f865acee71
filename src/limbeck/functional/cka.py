"""Centred kernel alignment: how alike two sets of features are, up to rotation and scale, whatever their widths.

    CKA = HSIC(X, Y) / √( HSIC(X, X) · HSIC(Y, Y) ),   X and Y centred over the rows

    biased     HSIC = ‖XᵀY‖²
    unbiased   HSIC = ‖XᵀY‖² − n/(n − 2) · Σ_i |x_i|²|y_i|² + Σ_i |x_i|² · Σ_i |y_i|² / ((n − 1)(n − 2))

both without the factor that depends on n alone, which the ratio does not see. The unbiased form is Song's estimator;
centring first changes nothing in it but makes every row of the kernels sum to 0, which leaves these three terms.
"""

from __future__ import annotations

import torch
from torch import Tensor

from limbeck.functional.divergence import wide


def linear_cka(x: Tensor, y: Tensor, unbiased: bool = True) -> Tensor:
    """[rows, width] and [rows, other width] → []; biased from 0 to 1, unbiased from −1 to 1.

    It is 1 of fewer rows than the estimator needs (unbiased 4, biased 2): they cannot be told apart."""
    if len(x) < (4 if unbiased else 2):
        return 1 + wide(x[:0]).sum()
    with torch.autocast(x.device.type, enabled=False):  # its products would lose what the corrections must cancel
        x, y = _unit(wide(x)), _unit(wide(y))
        own = _hsic(x, x, unbiased) * _hsic(y, y, unbiased)
        return _hsic(x, y, unbiased) / own.clamp(min=torch.finfo(own.dtype).eps ** 2).sqrt()


def _unit(x: Tensor) -> Tensor:
    """Centred over the rows, and of norm 1, so that no product grows with the number of rows."""
    x = x - x.mean(0)
    return x / x.norm().clamp(min=torch.finfo(x.dtype).tiny)


def _hsic(x: Tensor, y: Tensor, unbiased: bool) -> Tensor:
    """Up to a factor that depends on the number of rows alone; both sides centred."""
    alike = (x.T @ y).square().sum()
    if not unbiased:
        return alike
    n = len(x)
    lengths_x, lengths_y = x.square().sum(1), y.square().sum(1)
    among_themselves = n / (n - 2) * (lengths_x * lengths_y).sum()
    return alike - among_themselves + lengths_x.sum() * lengths_y.sum() / ((n - 1) * (n - 2))
