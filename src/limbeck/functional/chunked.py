"""Losses over a large vocabulary, a few tokens at a time.

Projection, softmax and loss are done for one chunk of tokens after another, and the gradient with them, in the forward
pass: what is kept is the gradient of features, weight and bias, and no [tokens, vocabulary] tensor ever exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from limbeck.core.trace import Projection

Each = Callable[[Tensor, slice], Tensor]  # logits [n, vocabulary] of the tokens in the slice → [terms] sums over tokens

# Logits of one chunk, and the tokens it has at least: fewer make the products slow, more make the peak high.
# Measured in benchmarks/chunked.py.
ELEMENTS = 5_000_000
LEAST = 32


def chunked(student: Projection, each: Each, weights: Tensor, size: int = 0) -> tuple[Tensor, Tensor]:
    """Σ over chunks and terms of weights · each(logits, tokens), and the unweighted sums of the terms, detached.

    The total is differentiable once, with respect to features, weight and bias."""
    features, weight, bias = student.features, student.weight, student.bias
    if not weight.numel():  # the logits are there already
        sums = each(features, slice(0, len(features))) if len(features) else features.sum() * weights
        return (weights * sums).sum(), sums.detach()
    if torch.is_autocast_enabled(features.device.type):  # what a linear layer would do by itself
        dtype = torch.get_autocast_dtype(features.device.type)
        features, weight, bias = features.to(dtype), weight.to(dtype), bias.to(dtype)
    total, terms = _Chunked.apply(features, weight, bias, each, weights, size or chunk_size(len(weight)))
    return total, terms


def chunk_size(vocabulary: int) -> int:
    """Tokens of a chunk, a multiple of 16."""
    return max(ELEMENTS // vocabulary // 16 * 16, LEAST)


class _Head:
    """The projection, room for the logits of one chunk, and the gradients that are asked for, summed chunk by chunk."""

    def __init__(self, projection: tuple[Tensor, Tensor, Tensor], needed: tuple[bool, bool, bool], size: int) -> None:
        self.projection = features, weight, _ = projection
        # One room for all chunks: given back and asked for again, memory of this size falls to pieces.
        self.room = features.new_empty(min(size, len(features)), len(weight))
        # Many small sums: half precision would lose the later ones.
        self.sums = [_zeros(x) if need else None for x, need in zip(projection, needed, strict=True)]

    def logits(self, tokens: slice) -> Tensor:
        features, weight, bias = self.projection
        part, out = features[tokens], self.room[: tokens.stop - tokens.start]
        return torch.addmm(bias, part, weight.T, out=out) if bias.numel() else torch.mm(part, weight.T, out=out)

    def add(self, slope: Tensor, tokens: slice) -> None:
        """`slope` [n, vocabulary] is the gradient of the logits of these tokens."""
        features, weight, _ = self.projection
        of_features, of_weight, of_bias = self.sums
        if of_features is not None:
            of_features[tokens] = slope @ weight
        if of_weight is not None and of_weight.dtype == slope.dtype:
            of_weight.addmm_(slope.T, features[tokens])
        elif of_weight is not None:
            of_weight += slope.T @ features[tokens]
        if of_bias is not None and of_bias.numel():
            of_bias += slope.sum(0, dtype=of_bias.dtype)

    def gradients(self) -> list[Tensor]:
        return [g.to(x.dtype) for g, x in zip(self.sums, self.projection, strict=True) if g is not None]


class _Logits(torch.autograd.Function):
    """Where the graph of a chunk begins, and where its gradient arrives."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, head: _Head, tokens: slice) -> Tensor:
        ctx.head, ctx.tokens = head, tokens
        return head.logits(tokens)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        ctx.head.add(slope, ctx.tokens)
        return None, None, None


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, each: Each, weights: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        ctx.needed = ctx.needs_input_grad[:3]
        head = _Head((features, weight, bias), ctx.needed, size)
        start = weights.new_zeros((), requires_grad=any(ctx.needed))
        terms = torch.zeros_like(weights)
        for first in range(0, len(features), size):
            tokens = slice(first, min(first + size, len(features)))
            with torch.enable_grad():
                sums = each(_Logits.apply(start, head, tokens), tokens)
                if sums.requires_grad:
                    torch.autograd.grad((weights * sums).sum(), start, allow_unused=True)
            terms = terms + sums.detach()
        ctx.save_for_backward(*head.gradients())
        ctx.mark_non_differentiable(terms)
        return (weights * terms).sum(), terms

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> Any:
        kept = iter(ctx.saved_tensors)
        found = [next(kept) if need else None for need in ctx.needed]
        if scale != 1:  # under mixed precision the loss is scaled; else this would copy for nothing
            found = [None if g is None else g * scale for g in found]
        return (*found, None, None, None)


def _zeros(like: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
