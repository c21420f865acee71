"""What a cache keeps of a Trace: named parts, each some rows of every example, without padding.

logits           of a text one row; of places one for each place that is asked
pooled.POOL.N    one row, the state of layer N for the whole text
hidden.N         a row for each token, its state after layer N
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Request
from limbeck.teachers.ragged import Array, Ints, Ragged

if TYPE_CHECKING:
    from torch import Tensor

Precision = Literal["float16", "float32"]  # of states; logits are float32
FLOAT16_MOST = 65504.0


def parts_of(ask: Request) -> list[str]:
    """Names of what is kept. Logits always: they take few bytes, and dev and test are judged by them."""
    pooled = [pooled_part(ask, layer) for layer in ask.pooled]
    return ["logits", *pooled, *(hidden_part(layer) for layer in ask.hidden)]


def pooled_part(ask: Request, layer: int) -> str:
    return f"pooled.{ask.pool}.{layer}"


def hidden_part(layer: int) -> str:
    return f"hidden.{layer}"


def uids_of(batch: Batch) -> Ints:
    uids: Ints = batch.uids.numpy(force=True)
    return uids


def taken(shown: Trace, batch: Batch, ask: Request, dtype: Precision) -> Ragged:
    """What is kept of a batch."""
    one = batch.uids.new_ones(len(batch.uids))
    logits, places = _logits(shown.logits, batch)
    counts, parts = {"logits": places}, {"logits": logits.float().numpy(force=True)}
    if len(logits) != places.sum():
        raise MismatchError(
            f"the teacher gave {len(logits)} rows of logits, the batch asks for {places.sum()}",
            "give a teacher that shows logits of this task",
        )
    for layer in ask.pooled:
        counts["pooled"] = one
        parts[pooled_part(ask, layer)] = _states(shown.pooled, layer, one.bool(), dtype)
    for layer in ask.hidden:
        present = batch.inputs["attention_mask"].bool()
        counts["hidden"] = present.sum(1)
        parts[hidden_part(layer)] = _states(shown.hidden, layer, present, dtype)
    layers = max(len(shown.hidden), len(shown.pooled), 1) - 1
    return Ragged(uids_of(batch), {kind: count.numpy(force=True) for kind, count in counts.items()}, parts, layers)


def _logits(logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Rows of logits, and how many of them each text has."""
    if batch.task.over_vocabulary:
        raise MismatchError(f"a cache keeps no words, and the task is {batch.task.kind}", "keep them in a Store")
    if batch.task.kind == "answer":  # [2 · batch, length] → [places, 2]
        logits = logits.unflatten(0, (-1, 2)).transpose(1, 2)[batch.predicted]
    return logits, batch.predicted.sum(1) if batch.task.in_windows else batch.uids.new_ones(len(batch.uids))


def _states(shown: tuple[Tensor, ...], layer: int, present: Tensor, dtype: Precision) -> Array:
    """[rows, width] states of a layer, chosen before they are looked at: at padding may stand anything."""
    if layer >= len(shown) or not shown[layer].numel():
        raise MismatchError(f"the teacher does not show layer {layer}", "give cache and teacher the same Ask")
    states = shown[layer][present.to(shown[layer].device)]
    if dtype == "float16" and (states.abs() > FLOAT16_MOST).any():
        raise KnobError(
            f"states of layer {layer} exceed {FLOAT16_MOST:.0f}, the most float16 holds", "keep them as float32"
        )
    found: Array = states.float().numpy(force=True).astype(dtype)
    return found
