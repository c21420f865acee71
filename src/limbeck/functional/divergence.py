"""Distances between teacher and student, one number per row.

From logits, with the softmax in float32 at least: `kl`, `binary_kl` and the cross-entropies. From log-probabilities
[n, classes] of a teacher P and a student Q: `skewed_kl`, `kl_family`, `jsd` and `scaled_jsd`, which are all made of one
KL, that from a distribution to a mixture of itself and another.

Every divergence is 0 at equality. What is not is called a cross-entropy.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from limbeck.functional.softmax import wide

_FLOOR = -1e30  # stands for −∞, so that 0 · log 0 is 0 in value and gradient


def kl(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """KL( softmax(teacher/T) ‖ softmax(student/T) ), [..., classes] → [...]."""
    log_p = _log_softmax(teacher, temperature)
    log_q = _log_softmax(student, temperature)
    return _expected(log_p.exp(), log_p - log_q)


def cross_entropy(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """−Σ p log q, which is kl plus the teacher's entropy: same gradient, never 0 at equality."""
    return _expected(_log_softmax(teacher, temperature).exp(), -_log_softmax(student, temperature))


def entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    return cross_entropy(logits, logits, temperature)


def binary_kl(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """Sum over labels of the KL between two Bernoulli distributions with these logits, [..., labels] → [...]."""
    t, s = wide(teacher) / temperature, wide(student) / temperature
    p = t.sigmoid()
    on = p * (F.logsigmoid(t) - F.logsigmoid(s))
    off = (1 - p) * (F.logsigmoid(-t) - F.logsigmoid(-s))
    return (on + off).sum(-1)


def hard_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
    """−log q(label), [rows, classes] and [rows] → [rows]; `weights` are [classes].

    Smoothed by ε: (1 − ε) · w(y) · −log q(y) + ε · mean over classes of w(c) · −log q(c)."""
    return F.cross_entropy(wide(logits), labels, weights, reduction="none", label_smoothing=smoothing)


def hard_binary_cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Mean over labels of the binary cross-entropy, [rows, labels] twice → [rows]; `weights` [labels] of what is on.

    Smoothed by ε, what is on counts 1 − ε/2 and what is off ε/2."""
    targets = labels.to(wide(logits).dtype)
    targets = targets * (1 - smoothing) + smoothing / 2 if smoothing else targets
    return F.binary_cross_entropy_with_logits(wide(logits), targets, reduction="none", pos_weight=weights).mean(-1)


def squared_distance(teacher: Tensor, student: Tensor) -> Tensor:
    """Mean squared difference over the last axis, [..., outputs] → [...]."""
    return (wide(student) - wide(teacher)).square().mean(-1)


def cosine_distance(teacher: Tensor, student: Tensor) -> Tensor:
    """1 − cos of the angle between the last axes, [..., width] → [...]; from 0 to 2, whatever the lengths."""
    return 1 - F.cosine_similarity(wide(student), wide(teacher), dim=-1)


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    return F.log_softmax(wide(logits) / temperature, -1)


def _expected(weights: Tensor, values: Tensor) -> Tensor:
    """Σ w·v with 0·∞ = 0: a class the teacher rules out (logit −∞) costs nothing."""
    return torch.where(weights > 0, weights * values, 0.0).sum(-1)


def skewed_kl(log_a: Tensor, log_b: Tensor, skew: float = 0.0) -> Tensor:
    """KL( A ‖ skew·A + (1 − skew)·B ): KL(A ‖ B) at skew 0, 0 at skew 1; never above −log skew."""
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
    """`jsd` divided by β(1 − β): forward KL at β = 0, reverse KL at β = 1, continuous between."""
    if beta in (0, 1):
        return kl_family(log_p, log_q, reverse=beta)
    log_p, log_q = _finite(log_p), _finite(log_q)
    return _skewed_kl(log_p, log_q, beta) / (1 - beta) + _skewed_kl(log_q, log_p, 1 - beta) / beta


def _skewed_kl(log_a: Tensor, log_b: Tensor, skew: float) -> Tensor:
    if skew == 0 and not log_a.requires_grad:
        divergence: Tensor = _KLFromFixed.apply(log_a, log_b)  # type: ignore[no-untyped-call]
        return divergence
    log_ratio = log_b - log_a
    if skew > 0:
        # Log of mixture / A. Computed from B / A, it keeps its digits where the mixture is nearly A.
        log_ratio = (log_ratio + _log(1 - skew)).logaddexp(log_a.new_tensor(math.log(skew)))
    return -(log_a.exp() * log_ratio).sum(-1)


class _KLFromFixed(torch.autograd.Function):
    """KL(A ‖ B) for an A without gradient. It saves nothing but log A, which exists anyway."""

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
    """Copies only where it must: these tensors are as large as the vocabulary."""
    return x.clamp(min=_FLOOR) if x.numel() and x.amin() < _FLOOR else x


def _log(x: float) -> float:
    return math.log(x) if x > 0 else _FLOOR
