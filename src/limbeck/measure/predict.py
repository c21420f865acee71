"""Asking a model for its logits, row by row, whatever the order of the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.trace import Batch
from limbeck.measure.answers import Array

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel


def predict(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    rows: Sequence[int] | Array,
    on_batch: Callable[[int], None] | None = None,
) -> Array:
    """float32 logits [n, outputs] in the order of the uids `rows`; regression gives [n, 1].

    Every uid must come in the batches once. `on_batch` hears how many rows are done.
    """
    import torch

    with eval_mode(model), torch.inference_mode():
        return collect(
            lambda batch: model(**batch.to(model.device).inputs).logits,
            batches,
            rows,
            model.config.num_labels,
            on_batch,
        )


def collect(
    say: Callable[[Batch], Tensor],
    batches: Iterable[Batch],
    rows: Sequence[int] | Array,
    outputs: int,
    on_batch: Callable[[int], None] | None = None,
) -> Array:
    """The same of anyone who says logits [batch, outputs] of a batch of texts."""
    uids: list[Array] = [np.empty(0, dtype=np.int64)]
    logits: list[Array] = [np.empty((0, outputs), dtype=np.float32)]
    done = 0
    for batch in batches:
        logits.append(say(batch).float().cpu().numpy())
        uids.append(batch.uids.cpu().numpy())
        done += len(batch.uids)
        if on_batch is not None:
            on_batch(done)
    return _in_order(np.concatenate(uids), np.concatenate(logits), np.asarray(rows, dtype=np.int64))


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _in_order(uids: Array, logits: Array, rows: Array) -> Array:
    order = np.argsort(uids)
    found = uids[order]
    doubles = np.concatenate([found[1:][found[1:] == found[:-1]], _repeated(rows)])
    for wrong, what in (
        (doubles, "more than once"),
        (np.setdiff1d(rows, found), "in no batch"),
        (np.setdiff1d(found, rows), "without being asked for"),
    ):
        if len(wrong):
            raise MismatchError(
                f"{len(wrong)} rows come {what}, the first with uid {wrong[0]}",
                "predict on batches that hold each row of the split once",
            )
    return logits[order[np.searchsorted(found, rows)]]


def _repeated(values: Array) -> Array:
    distinct, counts = np.unique(values, return_counts=True)
    return distinct[counts > 1]
