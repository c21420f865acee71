"""Log-softmax over a large vocabulary of which only a few places are looked at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from limbeck.functional.divergence import wide


def log_softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """log softmax(logits / T) of [n, vocabulary], in float32 at least. To `pick` from it is cheap to differentiate.

    Can be differentiated once: the gradient is written over the result, so that the two never stand side by side."""
    log_q: Tensor = _LogSoftmax.apply(logits, temperature)
    return log_q


def pick(log_q: Tensor, ids: Tensor) -> Tensor:
    """log_q [n, vocabulary] at ids [n, k]. The gradient stays k numbers a row where log_q comes from `log_softmax`."""
    return log_q.gather(-1, ids, sparse_grad=getattr(log_q.grad_fn, "takes_sparse", False))


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
