"""Softmax over a large vocabulary, of which a loss often looks at a few tokens only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from limbeck.core.trace import Chunk

# Logits of one chunk, and the tokens it has at least: fewer make the products slow, more make the peak high.
# Measured in benchmarks/chunked.py.
ELEMENTS = 5_000_000
LEAST = 32


def chunk_size(vocabulary: int) -> int:
    """Tokens of a chunk, a multiple of 16."""
    return max(ELEMENTS // vocabulary // 16 * 16, LEAST)


def wide(x: Tensor) -> Tensor:
    """At least float32: T < 1 and large vocabularies overflow half precision."""
    return x if x.dtype == torch.float64 else x.float()


def log_softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """log softmax(logits / T) of [n, vocabulary], in float32 at least. A `pick` from it is cheap to differentiate.

    It can be differentiated once: the gradient overwrites the result, so that the two never exist at once."""
    log_q: Tensor = _LogSoftmax.apply(logits, temperature)  # type: ignore[no-untyped-call]
    return log_q


def pick(log_q: Tensor, ids: Tensor) -> Tensor:
    """log_q [n, vocabulary] at ids [n, k]. If log_q comes from `log_softmax`, the gradient is k numbers per row."""
    return log_q.gather(-1, ids, sparse_grad=getattr(log_q.grad_fn, "takes_sparse", False))


@dataclass(frozen=True)
class LeanChunk(Chunk):
    """A chunk whose log-probabilities cost little to differentiate at a few tokens."""

    def log_q(self, temperature: float = 1.0) -> Tensor:
        key = ("student", temperature)
        if key not in self._made:
            self._made[key] = log_softmax(self.logits, temperature)
        return self._made[key]


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        scores = wide(logits)
        log_q = (scores if temperature == 1 else scores / temperature).log_softmax(-1)
        ctx.save_for_backward(log_q)
        ctx.temperature, ctx.takes_sparse = temperature, True
        return log_q

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        (log_q,) = ctx.saved_tensors
        if not slope.is_sparse:
            return log_q.exp_().mul_(-slope.sum(-1, keepdim=True)).add_(slope).div_(ctx.temperature), None
        (rows, ids), values = slope._indices(), slope._values() / ctx.temperature
        sums = values.new_zeros(len(log_q)).index_add_(0, rows, values)
        return log_q.exp_().mul_(-sums[:, None]).index_put_((rows, ids), values, accumulate=True), None
