"""How long, how fast, when to stop."""

from __future__ import annotations

from typing import Literal, Self

from limbeck.core.device import DeviceName
from limbeck.core.knob import Settings, knob
from limbeck.core.process import world_size
from limbeck.core.task import TaskInfo

BestBy = Literal["auto", "labels", "agreement", "both"]


class Schedule(Settings):
    epochs: float = knob(
        3.0, "passes over the training rows at most; early stopping may end sooner", above=0, short="--epochs"
    )
    max_steps: int = knob(
        0, "optimiser steps of each training, instead of epochs; 0: as epochs say", at_least=0, short="--max-steps"
    )
    batch_size: int = knob(32, "rows per step on each device", at_least=1, short="--batch-size")
    accumulate: int = knob(1, "micro-batches per optimiser step; means are over the whole step", at_least=1)
    optimizer: Literal["adamw", "sgd"] = knob(
        "adamw", "adamw (Adam where weight_decay is 0), or sgd with momentum", source="BERT"
    )
    momentum: float = knob(0.9, "of sgd", at_least=0, below=1)
    learning_rate: float = knob(
        0.0,
        "peak learning rate; 0 takes 5e-5 (language models: 2e-4) at width 768, more for narrower ones, "
        "and 1e-3 for a model without a width",
        at_least=0,
        source="BERT, 2e-5 to 5e-5 for texts at 768, 1e-4 for words; DistilBERT code, 5e-4 for words",
        short="--learning-rate",
    )
    warmup: float = knob(0.1, "share of the steps in which the rate rises", at_least=0, below=1, source="BERT, 10 %")
    decay: Literal["linear", "cosine", "constant"] = knob("linear", "how the rate falls after warm-up", source="BERT")
    weight_decay: float = knob(0.01, "of all weights but biases and norms", at_least=0, source="BERT")
    max_grad_norm: float = knob(1.0, "gradients are clipped to this norm; 0 for never", at_least=0, source="BERT")
    evals_per_epoch: int = knob(2, "dev measurements and checkpoints per epoch", at_least=1)
    eval_steps: int = knob(
        0, "steps from one dev measurement to the next, instead of so many per epoch; 0: by evals_per_epoch", at_least=0
    )
    patience: int = knob(4, "dev measurements without improvement before training stops; 0 for never", at_least=0)
    keep: Literal["best", "last"] = knob("best", "weights that a training ends with: the best on dev, or the last")
    best_by: BestBy = knob(
        "auto",
        "what tells the best weights on dev; labels: the metric; agreement: with the teacher, on rows without labels "
        "too; both: the mean of the two; auto: labels where dev has any, else agreement",
    )
    hold_zeros: bool = knob(True, "weights of a pruned model that are 0 stay 0")
    bucket: bool = knob(True, "put texts of like length into one batch; faster, same examples per epoch")
    precision: Literal["fp32", "bf16", "fp16"] = knob(
        "fp32",
        "arithmetic of the forward pass; bf16 pays on a GPU and on processors with AVX512-BF16 or AMX, fp16 on a GPU",
    )
    report_to: str = knob(
        "none", "loggers of transformers.Trainer, comma-separated, such as tensorboard, wandb, mlflow", free=True
    )
    device: DeviceName = knob(
        "auto",
        "where teacher and student run and are evaluated; auto: a GPU if there is one",
        free=True,
        short="--device",
    )
    threads: int = knob(0, "CPU threads; 0 leaves the choice to torch", at_least=0, free=True)

    def at_width(self, hidden: int, task: TaskInfo) -> Self:
        """With the learning rate settled for a model of this width; 0 for one that has none."""
        peak = 2e-4 if task.over_vocabulary else 5e-5
        return self if self.learning_rate else self.but(learning_rate=peak * 768 / hidden if hidden else 1e-3)

    def steps_per_epoch(self, rows: int) -> int:
        return -(-rows // (self.batch_size * self.accumulate * world_size()))

    def over(self, rows: int) -> Self:
        """With the epochs that `max_steps` make of so many rows."""
        return self.but(epochs=self.max_steps / self.steps_per_epoch(rows)) if self.max_steps and rows else self
