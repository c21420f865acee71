"""A transformers.Trainer whose loss is an Objective, whatever its batches look like.

The loss of a step with several micro-batches divides by the rows of the whole step, over all processes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer

from limbeck.core.forward import forward
from limbeck.core.objective import Objective, Rows
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Teacher, Trace
from limbeck.data.batches import to_batch
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.training.bridges import bridges_of

_ROWS: tuple[Rows, ...] = ("has_label", "in_loss", "present", "examples")


class ObjectiveTrainer(Trainer):
    """What a subclass sets before its Trainer is built: objective, teacher, task, and what is asked of the student."""

    objective: Objective
    teacher: Teacher
    task: TaskInfo
    _request: Request
    loss_is_scaled_for_ga = True

    def __init__(self, **arguments: Any) -> None:
        self._terms: dict[str, Tensor] = {}  # sums over the steps since the last log
        self._steps = 0
        super().__init__(**arguments)

    def batch_of(self, inputs: dict[str, Tensor]) -> Batch:
        return to_batch(inputs, self.task)

    def teacher_trace(self, inputs: dict[str, Tensor], batch: Batch) -> Trace:
        return self.teacher.answer(batch)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        batch = self.batch_of(inputs)
        shown = forward(model, batch, self._request, self.task.vocab_size)
        shown = replace(shown, bridges=bridges_of(getattr(model, "module", model)))
        rows: dict[Rows, Tensor] | None = None
        if num_items_in_batch is not None:
            rows = dict(zip(_ROWS, num_items_in_batch, strict=True))
        total, terms = weighted_sum(self.objective, shown, self.teacher_trace(inputs, batch), batch, rows)
        if model.training:
            self._steps += self.accelerator.sync_gradients  # true for the last micro-batch of a step
            for name, value in terms.items():
                self._terms[name] = self._terms.get(name, torch.zeros_like(value)) + value.detach()
            # Gradients are averaged over processes, while `rows` already counts all of theirs.
            total = total * self.accelerator.num_processes
        return (total, {"logits": shown.logits}) if return_outputs else total

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Tensor]], device: torch.device) -> Tensor:
        """How many rows of each sort the whole optimiser step has, over all processes."""
        counts = [_counts(self.batch_of(inputs)) for inputs in batch_samples]
        rows = torch.tensor(counts, device=device).sum(0)
        return self.accelerator.gather(rows).view(-1, len(_ROWS)).sum(0)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the mean of each unweighted term since the last log to the training loss."""
        if "loss" in logs and self._terms:
            logs |= {f"term_{name}": (value / max(self._steps, 1)).item() for name, value in self._terms.items()}
            self._terms, self._steps = {}, 0
        super().log(logs, start_time)


def _counts(batch: Batch) -> tuple[int, int, int, int]:
    """In the order of _ROWS."""
    present = batch.inputs.get("attention_mask", batch.uids[:0])
    return int(batch.has_label.sum()), int(batch.in_loss.sum()), int(present.sum()), len(batch.uids)
