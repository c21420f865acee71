"""An epoch of a small model, whose step takes less time than what transformers' own loop does around it.

Everything but the epoch is the Trainer's: optimiser, schedule, callbacks, log, evaluations, checkpoints. Weights,
losses and the state of a checkpoint are those of the ordinary epoch to the bit, so either may resume what the other
began.
What is left out has no effect here: accelerate's wrappers for other devices and several processes, a DataLoader's
workers, and counts that are the same at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import AdamW
from transformers import Trainer

from limbeck.data.batches import collated

# Products of a weight and a number in the forward pass of a step. Where there are more, a step takes a tenth of a
# second on one core, and the two milliseconds that the ordinary loop adds do not matter.
MOST_PRODUCTS = 1e9
_UNCLIPPED = 0.999  # below this share of the limit, rounding cannot make clipping change a gradient


def fits(trainer: Any) -> bool:
    """Whether the epochs of this training can be the fast ones. The same answer on every machine."""
    args, accelerator = trainer.args, trainer.accelerator
    return (
        accelerator.num_processes == 1
        and accelerator.device.type == "cpu"
        and accelerator.mixed_precision == "no"
        and args.gradient_accumulation_steps == 1
        and type(trainer).training_step is Trainer.training_step
        and products(trainer) <= MOST_PRODUCTS
    )


def products(trainer: Any) -> float:
    """Of a weight and a number, in the forward pass of one step; embeddings are looked up, not multiplied."""
    lengths = trainer.train_dataset.lengths
    return float(trainer.weights * trainer.args.train_batch_size * sum(lengths) / max(len(lengths), 1))


def run_epoch(
    trainer: Any,
    model: nn.Module,
    epoch: int,
    *,
    steps_in_epoch: int,
    trial: Any,
    ignore_keys_for_eval: list[str] | None,
    start_time: float,
    resume_from_checkpoint: str | None,
    epochs_trained: int,
    steps_trained_in_current_epoch: int,
    **_: Any,
) -> None:
    """What Trainer._run_epoch does."""
    args, state, events = trainer.args, trainer.state, trainer.callback_handler
    resumed = resume_from_checkpoint is not None and epoch == epochs_trained
    first = steps_trained_in_current_epoch if resumed else 0
    batches = _batches(trainer, epoch)
    if resumed:
        trainer._load_rng_state(resume_from_checkpoint)
    if not first:
        torch.empty((), dtype=torch.int64).random_()  # a DataLoader draws a seed for its workers, though it has none
    trainer.accelerator.gradient_state._set_sync_gradients(True)
    trainer.optimizer._opt_called = True  # _update goes past it, and the scheduler would warn
    model.train()
    parameters = list(model.parameters())
    gradients: list[Tensor] = []
    norm, rate = None, None

    def log_save_evaluate() -> None:
        shown = get_total_norm(gradients) if norm is None and trainer.control.should_log else norm
        trainer._maybe_log_save_evaluate(
            trainer._tr_loss, shown, model, trial, epoch, ignore_keys_for_eval, start_time, learning_rate=rate
        )
        if not model.training:
            model.train()

    for step in range(first, steps_in_epoch):
        inputs = batches(step)
        rows = trainer._get_num_items_in_batch([inputs], args.device)
        trainer.control = events.on_step_begin(args, state, trainer.control)
        loss = trainer.compute_loss(model, inputs, num_items_in_batch=rows)
        gradients.clear()  # before new ones are made, which then take their place in memory
        loss.backward()
        gradients += [parameter.grad for parameter in parameters if parameter.grad is not None]
        finite = _add_loss(trainer, loss.detach())
        trainer.current_flos += float(trainer.floating_point_ops(inputs))
        rate = trainer._get_learning_rate()
        norm = _update(trainer, parameters, gradients, finite)
        state.global_step += 1
        state.epoch = epoch + (step + 1) / steps_in_epoch
        trainer.control = events.on_step_end(args, state, trainer.control)
        log_save_evaluate()
        if trainer.control.should_epoch_stop or trainer.control.should_training_stop:
            break
    trainer.control = events.on_epoch_end(args, state, trainer.control)
    log_save_evaluate()


def _update(trainer: Any, parameters: list[nn.Parameter], gradients: list[Tensor], finite: bool) -> Tensor | None:
    """One step of optimiser and schedule → the gradients' norm where it must be known now.

    It is logged now and then; if nothing is clipped and the optimiser leaves gradients as they are, it can wait."""
    args, events = trainer.args, trainer.callback_handler
    optimizer = trainer.optimizer.optimizer  # accelerate's wrapper searches the disk for a package at every step
    now = args.max_grad_norm > 0 or not finite or not isinstance(optimizer, AdamW)
    norm = _clip(parameters, gradients, args.max_grad_norm) if now else None
    trainer.control = events.on_pre_optimizer_step(args, trainer.state, trainer.control)
    optimizer.step()
    trainer.control = events.on_optimizer_step(args, trainer.state, trainer.control)
    trainer.lr_scheduler.step()
    for parameter in parameters:
        parameter.grad = None
    return norm


def _batches(trainer: Any, epoch: int) -> Callable[[int], dict[str, Tensor]]:
    """Step → the batch that the DataLoader gives at that step of the epoch."""
    data, collate, size = trainer.train_dataset, trainer.data_collator, trainer.args.train_batch_size
    sampler = trainer._get_train_sampler()
    sampler.set_epoch(epoch)
    order = np.fromiter(sampler, np.int64, len(sampler))

    return lambda step: collated(data, collate, order[step * size : (step + 1) * size])


def _add_loss(trainer: Any, loss: Tensor) -> bool:
    """Whether the loss is a number; one that is not counts as the mean of those before it."""
    finite = math.isfinite(loss.item())
    if not finite:
        loss = trainer._tr_loss / (1 + trainer.state.global_step - trainer._globalstep_last_logged)
    trainer._tr_loss += loss
    return finite


def _clip(parameters: list[nn.Parameter], gradients: list[Tensor], most: float) -> Tensor:
    """The norm of the gradients before they are clipped; 0 for never, as TrainingArguments has it."""
    norm = get_total_norm(gradients)
    limit = most if most > 0 else math.inf
    if not norm.item() < _UNCLIPPED * limit:
        clip_grads_with_norm_(parameters, limit, norm)
    return norm
