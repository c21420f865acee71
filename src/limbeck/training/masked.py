"""Holds a mask while a model trains: after every optimiser step, what does not live is 0 again.

No optimiser, weight decay or momentum revives a weight: whatever a step made of it is undone before the next forward
pass and before any checkpoint.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainingArguments

from limbeck.core.compress import Mask


class HoldMask(TrainerCallback):
    """Also for a stock `transformers.Trainer`: Trainer(…, callbacks=[HoldMask(mask)])."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.mask.hold(model)

    def on_optimizer_step(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.mask.hold(model)
