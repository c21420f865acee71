"""Losses over a large vocabulary, a few tokens at a time.

The forward pass computes projection, softmax, loss and gradient for one chunk of tokens after another. It saves the
gradients of features, weight and bias, and no [tokens, vocabulary] tensor ever exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from limbeck.core.objective import Rows, TokenObjective
from limbeck.core.trace import Batch, Projection, Trace
from limbeck.functional.softmax import LeanChunk, chunk_size

Each = Callable[[Tensor, slice], Tensor]  # logits [n, vocabulary] of the tokens in the slice → [terms] sums over tokens


def token_terms(
    terms: list[tuple[float, TokenObjective]],
    student: Trace,
    teacher: Trace,
    batch: Batch,
    rows: Mapping[Rows, Tensor] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The weighted sum of terms over tokens, in one pass over the vocabulary, and each unweighted term.

    Each term is a mean over its rows; `rows` are the counts of the whole optimiser step, if it is larger."""
    predicted = batch.in_loss
    labels, has_label = batch.labels[predicted], batch.has_label[predicted]
    counts = rows or {"has_label": has_label.sum(), "in_loss": predicted.sum()}
    dtype = torch.promote_types(student.tokens.features.dtype, torch.float32)
    share = torch.stack([1 / counts[part.rows].clamp(min=1).to(dtype) for _, part in terms])
    weights = share * share.new_tensor([weight for weight, _ in terms])

    def each(logits: Tensor, tokens: slice) -> Tensor:
        chunk = LeanChunk(logits, labels[tokens], has_label[tokens], teacher, tokens)
        values = [(part, part.each(chunk)) for _, part in terms]
        # Selected, not multiplied by 0: the tokens that are left out may be NaN.
        return torch.stack([(v[chunk.has_label] if part.rows == "has_label" else v).sum() for part, v in values])

    total, sums = chunked(student.tokens, each, weights)
    return total, list(share * sums)


def chunked(student: Projection, each: Each, weights: Tensor, size: int = 0) -> tuple[Tensor, Tensor]:
    """Σ over chunks and terms of weights · each(logits, tokens), and the unweighted sums of the terms, detached.

    The total is differentiable once, with respect to features, weight and bias."""
    features, weight, bias = student.features, student.weight, student.bias
    if not weight.numel():  # the features are the logits
        sums = each(features, slice(0, len(features))) if len(features) else features.sum() * weights
        return (weights * sums).sum(), sums.detach()
    # As a linear layer does. Behind a model that alone ran in mixed precision, features are all that tell of it.
    kind = features.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else features.dtype
    features, weight, bias = features.to(dtype), weight.to(dtype), bias.to(dtype)
    size = size or chunk_size(len(weight))
    total, terms = _Chunked.apply(features, weight, bias, each, weights, size)  # type: ignore[no-untyped-call]
    return total, terms


class _Head:
    """The projection, a buffer for the logits of one chunk, and the needed gradients, summed chunk by chunk."""

    def __init__(self, projection: tuple[Tensor, Tensor, Tensor], needed: tuple[bool, bool, bool], size: int) -> None:
        self.projection = features, weight, _ = projection
        # One buffer for all chunks: freeing and allocating blocks of this size fragments memory.
        self.buffer = features.new_empty(min(size, len(features)), len(weight))
        # In float32 at least: in half precision, many small additions get lost.
        self.sums = [_zeros(x) if need else None for x, need in zip(projection, needed, strict=True)]

    def logits(self, tokens: slice) -> Tensor:
        features, weight, bias = self.projection
        part, out = features[tokens], self.buffer[: tokens.stop - tokens.start]
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
                sums = each(_Logits.apply(start, head, tokens), tokens)  # type: ignore[no-untyped-call]
                if sums.requires_grad:
                    torch.autograd.grad((weights * sums).sum(), start, allow_unused=True)
            terms = terms + sums.detach()
        ctx.save_for_backward(*head.gradients())
        ctx.mark_non_differentiable(terms)
        return (weights * terms).sum(), terms

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> Any:
        saved = iter(ctx.saved_tensors)
        gradients = [next(saved) if need else None for need in ctx.needed]
        if scale != 1:  # mixed precision scales the loss; without it, a product would only copy
            gradients = [None if g is None else g * scale for g in gradients]
        return (*gradients, None, None, None)


def _zeros(like: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
