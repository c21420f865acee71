"""A Schedule in transformers' own words."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from transformers import TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from limbeck.core.device import find_device
from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.training.schedule import Schedule


class DevMetric(NamedTuple):
    """By which the best weights are known."""

    name: str
    higher_is_better: bool = True


def check_loggers(schedule: Schedule) -> None:
    """Refuses a logger that is unknown or not installed, before anything is written."""
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


def training_arguments(
    schedule: Schedule,
    task: TaskInfo,
    folder: Path,
    seed: int,
    rows: int,
    best: bool,
    evals: int,
    metric: DevMetric | None = None,
) -> TrainingArguments:
    metric = metric or DevMetric(task.metric, task.higher_is_better)
    a_pass = schedule.steps_per_epoch(rows)
    steps = schedule.max_steps or int(a_pass * schedule.epochs)
    by_epoch = schedule.eval_steps or -(-a_pass // schedule.evals_per_epoch)
    every = max(steps // evals, 1) if evals else min(by_epoch, schedule.max_steps or max(a_pass, by_epoch))
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=schedule.epochs,
        max_steps=schedule.max_steps or -1,
        per_device_train_batch_size=schedule.batch_size,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=schedule.accumulate,
        learning_rate=schedule.learning_rate,
        warmup_steps=schedule.warmup,  # below 1, a share of all steps
        lr_scheduler_type={"constant": "constant_with_warmup"}.get(schedule.decay, schedule.decay),
        weight_decay=schedule.weight_decay,
        **({"optim": "sgd", "optim_args": f"momentum={schedule.momentum}"} if schedule.optimizer == "sgd" else {}),
        max_grad_norm=schedule.max_grad_norm,
        eval_strategy="steps" if best else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=max(every // 5, 1),
        load_best_model_at_end=best and schedule.keep == "best",
        metric_for_best_model=f"eval_{metric.name}",
        greater_is_better=metric.higher_is_better,
        restore_callback_states_from_checkpoint=True,
        label_names=["labels", "has_label", "uids"],  # uids find the teacher's answers
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        bf16=schedule.precision == "bf16",
        fp16=schedule.precision == "fp16",
        seed=seed,
        disable_tqdm=True,
        report_to=_loggers(schedule),
        use_cpu=find_device(schedule.device).type == "cpu",  # else bf16 is refused where there is no GPU
    )
