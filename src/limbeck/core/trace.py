"""What a model is shown, and what it showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limbeck.core.task import Task
from limbeck.core.want import Want

if TYPE_CHECKING:
    from torch import Tensor


def _nothing() -> Tensor:
    import torch

    return torch.empty(0)


@dataclass(frozen=True)
class Trace:
    """What a model showed for one batch. Absent is empty, never None."""

    logits: Tensor = field(default_factory=_nothing)  # [batch, outputs]
    hidden: tuple[Tensor, ...] = ()  # embeddings, then one [batch, length, width] per layer
    attention: tuple[Tensor, ...] = ()  # one [batch, heads, length, length] per layer
    values: tuple[Tensor, ...] = ()  # one [batch, heads, length, width / heads] per layer

    @property
    def has(self) -> Want:
        shown = Want.LOGITS if self.logits.numel() else Want.NOTHING
        for part, want in ((self.hidden, Want.HIDDEN), (self.attention, Want.ATTENTION), (self.values, Want.VALUES)):
            if part:
                shown |= want
        return shown


@dataclass(frozen=True)
class Batch:
    """Examples as tensors. `uids` name them wherever they go."""

    task: Task
    uids: Tensor  # [batch] int64
    labels: Tensor  # [batch] class ids, [batch, labels] of 0/1, or [batch] numbers; anything where not labelled
    labelled: Tensor  # [batch] bool: the row has a label
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # what the model's forward takes

    @property
    def counted(self) -> Tensor:
        """[batch] bool: the rows a soft term speaks of, which is every row of a classification batch."""
        import torch

        return torch.ones_like(self.labelled)
