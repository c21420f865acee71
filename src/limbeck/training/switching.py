"""Tells teachers what dev says of their student, so that they step back in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainingArguments

from limbeck.core.trace import Teacher
from limbeck.teachers.switch import Switch


class Switching(TrainerCallback):
    """At every evaluation on dev.

    Where the switches stand follows from the last evaluation in the training log. A checkpoint keeps the log, so that a
    resumed run begins where it left off, and a new one with every teacher on, whoever learnt from them before."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        measured = [entry for entry in state.log_history if any(name.startswith("eval_") for name in entry)]
        self.switch.update(_dev(measured[-1] if measured else {}))

    def on_evaluate(
        self, args: TrainingArguments, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        self.switch.update(_dev(metrics or {}))


def switching(teacher: Teacher) -> list[TrainerCallback]:
    """What a training needs beside its teacher."""
    return [Switching(teacher)] if isinstance(teacher, Switch) else []


def _dev(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix("eval_"): value for name, value in metrics.items() if name.startswith("eval_")}
