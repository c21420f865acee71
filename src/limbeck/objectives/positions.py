"""Logits over token positions: where no answer can lie, nothing is compared, at any temperature and precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limbeck.core.trace import Batch

if TYPE_CHECKING:
    from torch import Tensor


def mask_positions(logits: Tensor, batch: Batch, fill: float) -> Tensor:
    """[rows, outputs] with `fill` at positions where no answer can lie; logits of other tasks are unchanged."""
    if batch.task.kind != "answer":
        return logits
    return logits.masked_fill(~batch.predicted.repeat_interleave(2, 0), fill)


def count_positions(batch: Batch) -> Tensor:
    """[rows] the number of positions at which the start, or the end, of an answer can lie."""
    return batch.predicted.sum(1).repeat_interleave(2)
