"""Rows of logits over places: where no answer can lie, nothing is compared, at any temperature and in any precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limbeck.core.trace import Batch

if TYPE_CHECKING:
    from torch import Tensor


def within(logits: Tensor, batch: Batch, elsewhere: float) -> Tensor:
    """[rows, outputs] with `elsewhere` where no answer can lie; of other kinds of task as they are."""
    if batch.task.kind != "answer":
        return logits
    return logits.masked_fill(~batch.predicted.repeat_interleave(2, 0), elsewhere)


def places(batch: Batch) -> Tensor:
    """[rows] how many places each end of an answer may lie at."""
    return batch.predicted.sum(1).repeat_interleave(2)
