"""Callbacks of training: complete checkpoints, progress, masks and norms held, teachers that step back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainingArguments

from limbeck.core.checksum import FILES, DamagedError, check_files, checksums, read_sealed, write_sealed
from limbeck.core.compress import Mask, in_head, prunable
from limbeck.core.process import barrier
from limbeck.core.progress import Silent, Watcher
from limbeck.core.trace import Teacher
from limbeck.teachers.switch import Switch

COMPLETE = "complete"  # written last into a checkpoint folder


class MarkComplete(TrainerCallback):
    """Marks a checkpoint once Trainer has written all of it, with checksums and the seconds of training so far."""

    def __init__(self) -> None:
        self._before, self._start = 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        return self._before + time.perf_counter() - self._start

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        marker = Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE
        self._before, self._start = read_sealed(marker)["seconds"] if marker.exists() else 0.0, time.perf_counter()

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        barrier()  # every process has files of its own in it
        if state.is_world_process_zero and folder.is_dir():
            write_sealed(folder / COMPLETE, {"seconds": self.seconds, FILES: checksums(folder, leave=COMPLETE)})


def check_checkpoint(folder: Path) -> None:
    """Raises a DamagedError where a resumed training would read something else than was written."""
    check_files(folder, read_sealed(folder / COMPLETE).get(FILES, {}))
    best = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["best_model_checkpoint"]
    if best and Path(best).name != folder.name:
        other = folder.parent / Path(best).name
        if not (other / COMPLETE).exists():
            raise DamagedError(f"{other} is gone")
        check_files(other, read_sealed(other / COMPLETE).get(FILES, {}))


class Watch(TrainerCallback):
    """Reports progress to a Watcher; `part` is where this training begins in its stage, and its share of it.

    An evaluation takes as long as `eval_steps` training steps, about."""

    def __init__(
        self,
        watcher: Watcher = Silent(),  # noqa: B008
        stage: str = "train",
        metric: str = "",
        part: tuple[float, float] = (0.0, 1.0),
        eval_steps: float = 0.0,
    ) -> None:
        self.watcher, self.stage, self.metric, self.part, self.eval_steps = watcher, stage, metric, part, eval_steps
        self._loss = self._dev = ""

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        self._report(args, state, state.global_step - 1)  # the evaluation of this very step is still to come

    def on_log(
        self, args: TrainingArguments, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        if "loss" in (logs or {}):
            self._loss = f"loss {(logs or {})['loss']:.3g}"

    def on_evaluate(
        self, args: TrainingArguments, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        value = (metrics or {}).get(f"eval_{self.metric}")
        self._dev = f"dev {self.metric} {value:.3f}" if value is not None else ""
        self._report(args, state, state.global_step)

    def _report(self, args: TrainingArguments, state: Any, evaluated: int) -> None:
        """At `state`, with the evaluations up to the step `evaluated`."""
        start, share = self.part
        every = int(args.eval_steps or 0) if args.eval_strategy != "no" else 0
        done, whole = (
            step + (evals // every if every else 0) * self.eval_steps
            for step, evals in ((state.global_step, evaluated), (state.max_steps, state.max_steps))
        )
        note = ", ".join(filter(None, [self._loss, self._dev]))
        self.watcher.at(self.stage, start + share * done / max(whole, 1), note)


class HoldMask(TrainerCallback):
    """Holds a mask while a model trains: after every optimiser step, pruned weights are 0 again.

    No optimiser, weight decay or momentum revives a weight: its change is undone before the next forward pass and
    before any checkpoint. It also serves a stock `transformers.Trainer`: Trainer(…, callbacks=[HoldMask(mask)])."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self._hold: Callable[[], None] | None = None

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._hold = self.mask.holder(model)
        self._hold()

    def on_optimizer_step(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._hold = self._hold or self.mask.holder(model)
        self._hold()


class HoldNorm(TrainerCallback):
    """Max-norm: after every optimiser step, the incoming weights of each hidden unit are at most `most` long."""

    def __init__(self, most: float) -> None:
        self.most, self._weights = most, list[Tensor]()

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        head = in_head(model)
        self._weights = [weight for name, weight in prunable(model).items() if name not in head]

    def on_optimizer_step(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        with torch.no_grad():
            for weight in self._weights:
                weight.copy_(torch.renorm(weight, 2, 0, self.most))  # rows are units


class Switching(TrainerCallback):
    """Updates the shares of several teachers at every evaluation on dev.

    The shares follow from the last evaluation in the training log. A checkpoint has the log, so a resumed run begins
    where it stopped, and a new run begins with every teacher on, whoever learnt from them before."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        measured = filter(None, (without_prefix("eval_", entry) for entry in reversed(state.log_history)))
        self.switch.update(next(measured, {}))

    def on_evaluate(
        self, args: TrainingArguments, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        self.switch.update(without_prefix("eval_", metrics or {}))


def switching(teacher: Teacher) -> list[TrainerCallback]:
    """The callbacks that a teacher needs in training."""
    return [Switching(teacher)] if isinstance(teacher, Switch) else []


def without_prefix(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics whose names have this prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
