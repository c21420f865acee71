"""Distances between two answers, one number per row. Logits in, softmax taken in float32 at least.

`kl` and `binary_kl` are 0 at equality. What is not is called a cross-entropy.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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
    """Sum over labels of the KL of two coins with these logits, [..., labels] → [...]."""
    t, s = wide(teacher) / temperature, wide(student) / temperature
    p = t.sigmoid()
    heads = p * (F.logsigmoid(t) - F.logsigmoid(s))
    tails = (1 - p) * (F.logsigmoid(-t) - F.logsigmoid(-s))
    return (heads + tails).sum(-1)


def hard_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """−log q(label), [rows, classes] and [rows] → [rows]."""
    return F.cross_entropy(wide(logits), labels, reduction="none")


def hard_binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over labels of −log of the right side of each coin, [rows, labels] twice → [rows]."""
    return F.binary_cross_entropy_with_logits(wide(logits), labels.to(wide(logits).dtype), reduction="none").mean(-1)


def squared_distance(teacher: Tensor, student: Tensor) -> Tensor:
    """Mean squared difference over the last axis, [..., outputs] → [...]."""
    return (wide(student) - wide(teacher)).square().mean(-1)


def cosine_distance(teacher: Tensor, student: Tensor) -> Tensor:
    """1 − cos of the angle between the last axes, [..., width] → [...]; from 0 to 2, blind to length."""
    return 1 - F.cosine_similarity(wide(student), wide(teacher), dim=-1)


def wide(x: Tensor) -> Tensor:
    """At least float32: T < 1 and large vocabularies overflow half precision."""
    return x if x.dtype == torch.float64 else x.float()


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    return F.log_softmax(wide(logits) / temperature, -1)


def _expected(weights: Tensor, values: Tensor) -> Tensor:
    """Σ w·v with 0·∞ = 0: a class the teacher rules out (logit −∞) costs nothing."""
    return torch.where(weights > 0, weights * values, 0.0).sum(-1)
