"""The only training loop: a transformers.Trainer whose loss is an Objective.

Three things differ from a plain Trainer. The order of examples depends on (seed, epoch) alone, so a run that resumes
in the middle of an epoch sees what an unbroken one would. The loss of a step with several micro-batches divides by the
rows of the whole step, over all processes. A checkpoint counts only once it is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    set_seed,
)
from transformers.trainer_callback import PrinterCallback

from limbeck.core.forward import forward
from limbeck.core.objective import Objective, Rows
from limbeck.core.record import CurvePoint
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ONLY_LOGITS, Batch, Request, Teacher, Trace
from limbeck.data.batches import Buckets, Dataset, to_batch
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.students.model_folder import quiet
from limbeck.students.sizes import shape_of
from limbeck.training import fast_loop
from limbeck.training.allocator import kept_memory
from limbeck.training.arguments import DevMetric, check_loggers, training_arguments
from limbeck.training.bridges import bridges_of
from limbeck.training.callbacks import COMPLETE, MarkComplete, without_prefix
from limbeck.training.denormals import flushed_denormals
from limbeck.training.progressive import freeze_above, freeze_encoder, slow_below
from limbeck.training.schedule import Schedule
from limbeck.training.standardise import Scale, standardised

_ROWS: tuple[Rows, ...] = ("has_label", "in_loss", "present", "examples")
_SPEED = ("runtime", "samples_per_second", "steps_per_second")  # what a Trainer adds to dev metrics


class ObjectiveTrainer(Trainer):
    """A Trainer whose loss is an Objective. A subclass sets the attributes below before it builds its Trainer."""

    objective: Objective
    teacher: Teacher
    task: TaskInfo
    scale: Scale | None = None  # of a regression, while its model answers in standard units
    dev_loss: bool = True  # the teacher has outputs for dev; else only metrics are computed there
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
        trace = forward(model, batch, self._request, self.task.vocab_size)
        if bridges := bridges_of(getattr(model, "module", model)):
            trace = replace(trace, bridges=bridges)
        if not (model.training or self.dev_loss):
            answers = self.scale.restored(trace.logits) if self.scale else trace.logits
            return (answers.new_zeros(()), {"logits": answers}) if return_outputs else answers.new_zeros(())
        rows: dict[Rows, Tensor] | None = None
        if num_items_in_batch is not None:
            rows = dict(zip(_ROWS, num_items_in_batch, strict=True))
        teacher, logits = self.teacher_trace(inputs, batch), trace.logits
        if self.scale is not None:
            batch = replace(batch, labels=self.scale.standardised(batch.labels))
            teacher = replace(teacher, logits=self.scale.standardised(teacher.logits))
            logits = self.scale.restored(logits)
        total, terms = weighted_sum(self.objective, trace, teacher, batch, rows)
        if model.training:
            self._steps += self.accelerator.sync_gradients  # true for the last micro-batch of a step
            for name, value in terms.items():
                before = self._terms.get(name)
                self._terms[name] = value.detach() if before is None else before + value.detach()
            if self.accelerator.num_processes > 1:
                # Gradients are averaged over processes, while `rows` already counts all of theirs.
                total = total * self.accelerator.num_processes
        return (total, {"logits": logits}) if return_outputs else total

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Tensor]], device: torch.device) -> Tensor:
        """The number of rows of each sort in the whole optimiser step, over all processes, in the order of _ROWS."""
        counts = []
        for inputs in batch_samples:
            batch = self.batch_of(inputs)
            marked = [int(x.count_nonzero()) for x in (batch.has_label, batch.in_loss)]
            present = batch.inputs.get("attention_mask")
            counts.append([*marked, 0 if present is None else int(present.sum()), len(batch.uids)])
        rows = torch.tensor([sum(count) for count in zip(*counts, strict=True)], device=device)
        if self.accelerator.num_processes > 1:
            rows = self.accelerator.gather(rows).view(-1, len(_ROWS)).sum(0)
        return rows

    def floating_point_ops(self, inputs: dict[str, Tensor]) -> int:
        """As in Trainer, which counts the parameters anew at every step."""
        main = inputs.get(getattr(self.model, "main_input_name", "input_ids"))
        return 0 if main is None else 6 * main.numel() * self.weights

    @cached_property
    def weights(self) -> int:
        """How many the model has, without embeddings."""
        return int(self.model.num_parameters(exclude_embeddings=True)) if hasattr(self.model, "num_parameters") else 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the mean of each unweighted term since the last log to the training loss."""
        if "loss" in logs and self._terms:
            logs |= {f"term_{name}": (value / max(self._steps, 1)).item() for name, value in self._terms.items()}
            self._terms, self._steps = {}, 0
        if not self.dev_loss:
            logs.pop("eval_loss", None)
        super().log(logs, start_time)


class Distiller(ObjectiveTrainer):
    """The Trainer of Limbeck's own data. Callbacks, loggers and launchers of transformers work unchanged."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        objective: Objective,
        teacher: Teacher,
        task: TaskInfo,
        schedule: Schedule,
        train: Dataset,
        dev: Dataset,
        collate: Callable[[list[dict[str, Any]]], dict[str, Tensor]],
        folder: Path,
        seed: int,
        compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
        dev_metrics: Callable[[PreTrainedModel], dict[str, float]] | None = None,
        request: Request = ONLY_LOGITS,
        focus: int = 0,
        only_head: bool = False,
        best: bool = True,
        best_by: DevMetric | None = None,
        evals: int = 0,
        scale: Scale | None = None,
        dev_loss: bool = True,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        """Dev metrics come from `compute_metrics`, which takes all logits, or `dev_metrics`, which takes the model.

        The best weights are those with the best `best_by`, by default the task's metric.
        `request` is what the objective compares of the student; `focus` the one layer that learns, 0 for all; with
        `only_head` the encoder stays as it is. Without `best` nothing is measured on dev and the last weights stay: for
        stages that do not train the answers. `evals` is the number of dev measurements in all, 0 for `evals_per_epoch`.
        With a `scale` a regression is learnt in standard units; dev metrics and the trained model are in the labels'
        own. Without `dev_loss` the objective is not computed on dev, where the teacher may have nothing to compare."""
        schedule = schedule.at_width(shape_of(model).hidden, task)
        self.objective, self.teacher, self.task, self.schedule = objective, teacher, task, schedule
        self._dev_metrics, self._request, self._focus, self._target_scale = dev_metrics, request, focus, scale
        self.dev_loss, self._clock, self._only_head = dev_loss, MarkComplete(), only_head
        check_loggers(schedule)
        stopping = [EarlyStoppingCallback(schedule.patience)] if best and schedule.patience else []
        super().__init__(
            model=model,
            args=training_arguments(schedule, task, folder, seed, len(train), best, evals, best_by),
            train_dataset=train,
            eval_dataset=dev,
            data_collator=collate,
            compute_metrics=compute_metrics,
            callbacks=[*stopping, self._clock, *callbacks],
        )
        for noisy in (ProgressCallback, PrinterCallback):
            self.remove_callback(noisy)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Trains from the seed, whatever random numbers are drawn between building and training."""
        set_seed(self.args.seed)
        stopped, scale = freeze_above(self.model, self._focus) if self._focus else [], self._target_scale
        stopped += freeze_encoder(self.model) if self._only_head else []
        try:
            self.scale = scale
            units = standardised(self.model, scale) if scale else nullcontext()
            with quiet(), flushed_denormals(), kept_memory(), units:
                return super().train(*args, **kwargs)
        finally:
            self.scale = None
            for parameter in stopped:
                parameter.requires_grad_(True)

    def _run_epoch(self, **epoch: Any) -> None:
        """Small models take a loop that costs less than their step; it trains the same weights."""
        if fast_loop.fits(self):
            fast_loop.run_epoch(self, **epoch)
        else:
            super()._run_epoch(**epoch)

    def create_optimizer(self, model: Any = None) -> Any:
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if fresh and self._focus:
            slow_below(optimizer, self.model, self._focus)
        return optimizer

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        if self._dev_metrics is None:
            return super().evaluate(*args, **kwargs)
        metrics = {f"eval_{name}": value for name, value in self._dev_metrics(self.model).items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)  # type: ignore[has-type]
        return metrics

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        data = self.train_dataset if train_dataset is None else train_dataset
        size = self.args.train_batch_size * self.args.gradient_accumulation_steps
        return Buckets(
            data.lengths, size, seed=self.args.seed, bucket=self.schedule.bucket, rounds=getattr(data, "rounds", 1)
        )

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        lengths = eval_dataset.lengths
        return sorted(range(len(lengths)), key=lambda row: -lengths[row])

    def last_complete_checkpoint(self) -> str | None:
        """The newest complete checkpoint; incomplete ones are removed."""
        folders = sorted(Path(self.args.output_dir).glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        complete = [path for path in folders if (path / COMPLETE).exists()]
        for path in folders if self.is_world_process_zero() else ():
            if path not in complete:
                shutil.rmtree(path)
        self.accelerator.wait_for_everyone()
        return str(complete[-1]) if complete else None

    @property
    def seconds(self) -> float:
        """Time spent training, over all resumed parts."""
        return self._clock.seconds

    def curve(self) -> list[CurvePoint]:
        """The training log as points: loss and terms as logged, dev metrics where measured."""
        points: dict[int, dict[str, Any]] = {}
        for entry in self.state.log_history:
            point = points.setdefault(entry["step"], {"step": entry["step"], "epoch": entry.get("epoch", 0.0)})
            if "loss" in entry:
                point |= {"loss": entry["loss"], "terms": without_prefix("term_", entry)}
            if dev := without_prefix("eval_", entry):
                point["dev"] = {name: value for name, value in dev.items() if name not in _SPEED}
        return [CurvePoint(**point) for _, point in sorted(points.items())]
