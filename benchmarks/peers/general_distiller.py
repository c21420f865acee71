"""The peer's turn: TextBrewer's GeneralDistiller over given rows, in given orders. Runs in an environment of its own.

A job as JSON file in argv, the measured seconds as one JSON line on stdout. Nothing of TextBrewer is changed; it is
given the batches, the optimiser (fused AdamW), the linear schedule and the clipping that Limbeck's side uses, and it
neither logs to TensorBoard nor saves checkpoints.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)
from transformers.utils import logging
from witness import Witness

from textbrewer import DistillationConfig, GeneralDistiller, TrainingConfig  # type: ignore


class GivenOrders(Sampler[int]):
    """One given order of rows per epoch."""

    def __init__(self, orders: list[list[int]]) -> None:
        self.orders, self.epoch = orders, 0

    def __len__(self) -> int:
        return len(self.orders[0])

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter(self.orders[self.epoch - 1])


def loader(job: dict[str, Any], witness: Witness) -> DataLoader[Any]:
    rows = json.loads(Path(job["rows"]).read_text())
    # A Witness gives dicts: TextBrewer tells a batch of named tensors by its type being dict itself.
    return DataLoader(rows, job["batch_size"], sampler=GivenOrders(job["orders"]), collate_fn=witness)


def optimiser(model: Any, job: dict[str, Any]) -> torch.optim.Optimizer:
    """No decay for biases and norms, as in transformers.Trainer."""
    kept = [p for name, p in model.named_parameters() if "bias" in name or "norm" in name.lower()]
    decayed = [p for name, p in model.named_parameters() if not ("bias" in name or "norm" in name.lower())]
    groups = [{"params": decayed, "weight_decay": job["weight_decay"]}, {"params": kept, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=job["learning_rate"], fused=True)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    teacher = AutoModelForSequenceClassification.from_pretrained(job["teacher"])
    student = AutoModelForSequenceClassification.from_pretrained(job["student"])
    witness = Witness(DataCollatorWithPadding(AutoTokenizer.from_pretrained(job["student"])))
    batches = loader(job, witness)
    steps = len(batches) * len(job["orders"])
    distiller = GeneralDistiller(
        train_config=TrainingConfig(device="cpu", output_dir=job["folder"], log_dir=None, ckpt_frequency=0),
        distill_config=DistillationConfig(
            temperature=job["temperature"], kd_loss_weight=job["soft_weight"], hard_label_weight=job["label_weight"]
        ),
        model_T=teacher,
        model_S=student,
        adaptor_T=lambda batch, outputs: {"logits": outputs.logits},
        adaptor_S=lambda batch, outputs: {"logits": outputs.logits, "losses": outputs.loss},
    )
    start = time.perf_counter()
    with distiller:
        distiller.train(
            optimiser(student, job),
            batches,
            num_epochs=len(job["orders"]),
            scheduler_class=get_linear_schedule_with_warmup,
            scheduler_args={"num_warmup_steps": math.ceil(steps * job["warmup"]), "num_training_steps": steps},
            max_grad_norm=job["max_grad_norm"],
        )
    seconds = time.perf_counter() - start
    sys.stdout.write("\n" + json.dumps({"epochs_seconds": seconds, "digest": witness.digest}) + "\n")


if __name__ == "__main__":
    main()
