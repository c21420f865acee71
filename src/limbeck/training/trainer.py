"""The only training loop: a transformers.Trainer whose loss is an Objective.

Three things differ from a plain Trainer. The order of examples depends on (seed, epoch) alone, so a run that resumes
in the middle of an epoch sees what an unbroken one would. The loss of a step with several micro-batches divides by the
rows of the whole step. A checkpoint counts only once it is complete.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    ProgressCallback,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.integrations import get_reporting_integration_callbacks
from transformers.trainer_callback import PrinterCallback

from limbeck.core.errors import KnobError
from limbeck.core.files import write_text
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import CurvePoint
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import Teacher
from limbeck.core.want import ONLY_LOGITS, Request
from limbeck.data.batches import Buckets, Dataset
from limbeck.students.reading import quiet
from limbeck.students.sizes import shape_of
from limbeck.training.focus import freeze_above, slow_below
from limbeck.training.objective_trainer import ObjectiveTrainer
from limbeck.training.schedule import Schedule

COMPLETE = "complete"  # written last into a checkpoint folder


class Distiller(ObjectiveTrainer):
    """A Trainer that asks a teacher. Callbacks, loggers and launchers of transformers work unchanged."""

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
        best: bool = True,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        """Dev metrics come from `compute_metrics`, given all logits, or from `dev_metrics`, given the model.

        `request` is what the objective looks at in the student; `focus` the one layer that learns, 0 for all. Without
        `best` nothing is measured on the way and the last weights stay: for stages that do not train the answers."""
        schedule = schedule.at_width(shape_of(model).hidden, task)
        self.objective, self.teacher, self.task, self.schedule = objective, teacher, task, schedule
        self._dev_metrics, self._request, self._focus = dev_metrics, request, focus
        self._clock = MarkComplete()
        check_loggers(schedule)
        super().__init__(
            model=model,
            args=_arguments(schedule, task, folder, seed, len(train), best),
            train_dataset=train,
            eval_dataset=dev,
            data_collator=collate,
            compute_metrics=compute_metrics,
            callbacks=[*(_stopping(schedule) if best else []), self._clock, *callbacks],
        )
        for noisy in (ProgressCallback, PrinterCallback):
            self.remove_callback(noisy)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Trains from the seed, whatever was drawn between building and training."""
        set_seed(self.args.seed)
        stopped = freeze_above(self.model, self._focus) if self._focus else []
        try:
            with quiet():
                return super().train(*args, **kwargs)
        finally:
            for parameter in stopped:
                parameter.requires_grad_(True)

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
        """The newest checkpoint that was written to its end; half-written ones are removed."""
        found = sorted(Path(self.args.output_dir).glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        whole = [path for path in found if (path / COMPLETE).exists()]
        for path in found:
            if path not in whole:
                shutil.rmtree(path)
        return str(whole[-1]) if whole else None

    @property
    def seconds(self) -> float:
        """Time spent training, over all resumed parts."""
        return self._clock.seconds

    def curve(self) -> list[CurvePoint]:
        """The training log as points: loss and terms as they were logged, dev metrics where they were measured."""
        points: dict[int, dict[str, Any]] = {}
        for entry in self.state.log_history:
            point = points.setdefault(entry["step"], {"step": entry["step"], "epoch": entry.get("epoch", 0.0)})
            if "loss" in entry:
                point["loss"] = entry["loss"]
                point["terms"] = {name[5:]: value for name, value in entry.items() if name.startswith("term_")}
            if any(name.startswith("eval_") for name in entry):
                skip = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
                point["dev"] = {
                    name[5:]: value for name, value in entry.items() if name.startswith("eval_") and name not in skip
                }
        return [CurvePoint(**point) for _, point in sorted(points.items())]


class MarkComplete(TrainerCallback):
    """Marks a checkpoint once Trainer has written all of it, with the seconds of training behind it."""

    def __init__(self) -> None:
        self._before, self._start = 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        return self._before + time.perf_counter() - self._start

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        marker = Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE
        self._before, self._start = float(marker.read_text()) if marker.exists() else 0.0, time.perf_counter()

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            write_text(folder / COMPLETE, str(self.seconds))


class Watch(TrainerCallback):
    """Tells a Watcher how far a stage has come; `part` is where this training begins in it and its share of it."""

    def __init__(
        self,
        watcher: Watcher = Silent(),  # noqa: B008
        stage: str = "train",
        metric: str = "",
        part: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.watcher, self.stage, self.metric, self.part = watcher, stage, metric, part
        self._dev = ""

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        start, share = self.part
        self.watcher.at(self.stage, start + share * state.global_step / max(state.max_steps, 1), self._dev)

    def on_evaluate(
        self, args: TrainingArguments, state: Any, control: Any, metrics: dict[str, float] | None = None, **_: Any
    ) -> None:
        value = (metrics or {}).get(f"eval_{self.metric}")
        self._dev = f"dev {self.metric} {value:.3f}" if value is not None else ""


def check_loggers(schedule: Schedule) -> None:
    """Refuses a logger that is unknown or not installed; early enough that nothing has been asked or written."""
    try:
        for logger in get_reporting_integration_callbacks(_loggers(schedule)):
            logger()
    except (RuntimeError, ValueError) as error:
        raise KnobError(
            f"knob 'train.report_to' cannot be '{schedule.report_to}': {error}",
            "install the logger's package, or leave the knob at none",
        ) from None


def _loggers(schedule: Schedule) -> list[str]:
    names = [name.strip() for name in schedule.report_to.split(",")]
    return [name for name in names if name not in ("", "none")]


def _stopping(schedule: Schedule) -> list[TrainerCallback]:
    return [EarlyStoppingCallback(schedule.patience)] if schedule.patience else []


def _arguments(schedule: Schedule, task: TaskInfo, folder: Path, seed: int, rows: int, best: bool) -> TrainingArguments:
    steps_per_epoch = -(-rows // (schedule.batch_size * schedule.accumulate))
    every = -(-steps_per_epoch // schedule.evals_per_epoch)
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=schedule.epochs,
        per_device_train_batch_size=schedule.batch_size,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=schedule.accumulate,
        learning_rate=schedule.learning_rate,
        warmup_steps=schedule.warmup,
        lr_scheduler_type={"constant": "constant_with_warmup"}.get(schedule.decay, schedule.decay),
        weight_decay=schedule.weight_decay,
        max_grad_norm=schedule.max_grad_norm,
        eval_strategy="steps" if best else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=max(every // 5, 1),
        load_best_model_at_end=best,
        metric_for_best_model=f"eval_{task.metric}",
        greater_is_better=task.higher_is_better,
        restore_callback_states_from_checkpoint=True,
        label_names=["labels", "has_label"],
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        bf16=schedule.precision == "bf16",
        fp16=schedule.precision == "fp16",
        seed=seed,
        disable_tqdm=True,
        report_to=_loggers(schedule),
        use_cpu=not torch.accelerator.is_available(),  # else bf16 is refused where there is no GPU
    )
