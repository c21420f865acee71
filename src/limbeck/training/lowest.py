"""The early-stopping iteration: where the loss on dev was lowest, and how good the model was there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainingArguments

from limbeck.core.checksum import read_sealed, write_sealed
from limbeck.core.process import is_main
from limbeck.core.record import Stopped


class AtLowestLoss(TrainerCallback):
    """Tests the weights whenever dev's loss is the lowest so far, and keeps the last such test.

    `file` tells a resumed training what it had found; what it repeats, it finds again."""

    def __init__(self, test: Callable[[Any], Mapping[str, float]], file: Path) -> None:
        self.test, self.file = test, file
        self.found: Stopped | None = None

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        if self.file.exists() and state.global_step:
            self.found = Stopped(**read_sealed(self.file))

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: Any,
        control: Any,
        metrics: Mapping[str, float] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        loss = (metrics or {}).get("eval_loss", (metrics or {}).get("eval_nll"))
        if loss is None or (self.found and loss >= self.found.loss):
            return
        self.found = Stopped(step=state.global_step, loss=loss, quality=dict(self.test(model.eval())))
        if is_main():
            write_sealed(self.file, self.found.model_dump())
