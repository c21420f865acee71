"""Divergences between a teacher P and a student Q with a mixture of the two in between, from log-probabilities.

All are made of one: the KL from a distribution to a mixture of itself and another. Both arguments are [n, classes],
the result is [n] and 0 at equality.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_FLOOR = -1e30  # stands for −∞, so that 0 · log 0 is 0 in value and gradient


def skewed_kl(log_a: Tensor, log_b: Tensor, skew: float = 0.0) -> Tensor:
    """KL( A ‖ skew·A + (1 − skew)·B ): KL(A ‖ B) at 0, fading to 0 at 1; never above −log skew."""
    return _skewed_kl(_finite(log_a), _finite(log_b), skew)


def kl_family(log_p: Tensor, log_q: Tensor, reverse: float = 0.0, skew: float = 0.0) -> Tensor:
    """(1 − reverse)·KL( P ‖ skew·P + (1 − skew)·Q ) + reverse·KL( Q ‖ (1 − skew)·P + skew·Q ).

    Forward KL at (0, 0), reverse at (1, 0), Jensen–Shannon at (½, ½)."""
    log_p, log_q = _finite(log_p), _finite(log_q)
    if reverse == 0:
        return _skewed_kl(log_p, log_q, skew)
    if reverse == 1:
        return _skewed_kl(log_q, log_p, skew)
    return (1 - reverse) * _skewed_kl(log_p, log_q, skew) + reverse * _skewed_kl(log_q, log_p, skew)


def jsd(log_p: Tensor, log_q: Tensor, beta: float = 0.5) -> Tensor:
    """β·KL(P ‖ M) + (1 − β)·KL(Q ‖ M) with M = β·P + (1 − β)·Q. It vanishes at both ends of β."""
    return beta * (1 - beta) * scaled_jsd(log_p, log_q, beta)


def scaled_jsd(log_p: Tensor, log_q: Tensor, beta: float = 0.5) -> Tensor:
    """The same divided by β(1 − β): forward KL at β = 0, reverse KL at β = 1, continuous between."""
    if beta in (0, 1):
        return kl_family(log_p, log_q, reverse=beta)
    log_p, log_q = _finite(log_p), _finite(log_q)
    return _skewed_kl(log_p, log_q, beta) / (1 - beta) + _skewed_kl(log_q, log_p, 1 - beta) / beta


def _skewed_kl(log_a: Tensor, log_b: Tensor, skew: float) -> Tensor:
    if skew == 0 and not log_a.requires_grad:
        return _KLFromFixed.apply(log_a, log_b)
    log_ratio = log_b - log_a
    if skew > 0:
        # Of the mixture to A. Made from the ratio, it keeps its digits where the mixture is nearly A.
        log_ratio = (log_ratio + _log(1 - skew)).logaddexp(log_a.new_tensor(math.log(skew)))
    return -(log_a.exp() * log_ratio).sum(-1)


class _KLFromFixed(torch.autograd.Function):
    """KL(A ‖ B) of an A that is not learned. It keeps nothing for the gradient but log A, which is there anyway."""

    @staticmethod
    def forward(ctx: Any, log_a: Tensor, log_b: Tensor) -> Tensor:
        ctx.save_for_backward(log_a)
        return (log_a - log_b).mul_(log_a.exp()).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor]:
        (log_a,) = ctx.saved_tensors
        return None, log_a.exp().mul_(-slope[..., None])


def _finite(x: Tensor) -> Tensor:
    """Copied only if it must be: these tensors are as large as the vocabulary."""
    return x.clamp(min=_FLOOR) if x.numel() and x.amin() < _FLOOR else x


def _log(x: float) -> float:
    return math.log(x) if x > 0 else _FLOOR
