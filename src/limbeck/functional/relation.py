"""Relations between the tokens of a text: distributions over its tokens, one per token and head, and their KL.

    relation   R = softmax( X·Xᵀ / √(width / heads) )   X: queries, keys or values of all heads, concatenated
    attention  A = softmax( scores )                    scores: scaled, before the mask

Keys at padding have probability 0, and queries at padding have no row. Both are removed before the formula, so padding
may hold anything, NaN included.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from limbeck.core.errors import MismatchError
from limbeck.functional.divergence import kl
from limbeck.functional.softmax import wide


def relation(x: Tensor, present: Tensor, heads: int) -> Tensor:
    """log R [batch, heads, length, length] of x [batch, own heads, length, own head size]; present [batch, length].

    The model's own heads are concatenated and split into `heads`, so models of any width and heads can be compared."""
    batch, own_heads, length, own_size = x.shape
    width = own_heads * own_size
    if width % heads:
        raise MismatchError(
            f"{heads} relation heads do not divide a width of {width}", "choose a number of heads that divides it"
        )
    # Padding becomes 0: in the gradient of a product even a weight of 0 lets NaN through.
    clean = wide(x).masked_fill(~present[:, None, :, None], 0.0)
    split = clean.transpose(1, 2).reshape(batch, length, heads, width // heads).transpose(1, 2)
    return _without_padding(split @ split.transpose(2, 3) / sqrt(width // heads), present).log_softmax(-1)


def relation_kl(teacher: Tensor, student: Tensor, present: Tensor, heads: int) -> Tensor:
    """KL( R of the teacher ‖ R of the student ), the mean over heads, for each present token: [tokens]."""
    return _mean_over_heads(relation(teacher, present, heads), relation(student, present, heads), present)


def attention_kl(teacher_scores: Tensor, student_scores: Tensor, present: Tensor) -> Tensor:
    """KL( A of the teacher ‖ A of the student ), the mean over heads, for each present token: [tokens].

    Scores are [batch, heads, length, length], present [batch, length]."""
    return _mean_over_heads(
        _without_padding(teacher_scores, present), _without_padding(student_scores, present), present
    )


def _without_padding(scores: Tensor, present: Tensor) -> Tensor:
    """Scores whose softmax is 0 at padding. The lowest number, not −∞, keeps a text of padding alone finite."""
    scores = wide(scores)
    return scores.masked_fill(~present[:, None, None, :], torch.finfo(scores.dtype).min)


def _mean_over_heads(teacher: Tensor, student: Tensor, present: Tensor) -> Tensor:
    """[batch, heads, length, length] twice, scores or their log-probabilities → [tokens]."""
    return kl(teacher.transpose(1, 2)[present].detach(), student.transpose(1, 2)[present]).mean(-1)
