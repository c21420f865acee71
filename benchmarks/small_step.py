"""What the trainer costs a model whose step is short, and what a held mask costs one whose step is long.

LeNet-300-100 at batch 60, by the one trainer and by a bare PyTorch loop with the same optimiser, with a mask held at
every step and without. MiniLM-L6 at batch 32 on sentences of about 25 tokens, with a mask and without.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel, TrainerCallback, set_seed
from transformers.modeling_outputs import SequenceClassifierOutput

from common import (
    MAX_LENGTH,
    SEED,
    Finding,
    Limit,
    each_turn,
    finish,
    flags,
    make_distiller,
    median_of,
    sentences,
    settle,
    steps_only,
    turn_by_turn,
)
from limbeck.core.compress import Mask
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher
from limbeck.data.sources.demo import demo_model
from limbeck.data.text.examples import encode
from limbeck.objectives import Labels
from limbeck.passes.magnitude import Magnitude
from limbeck.students.load import load
from limbeck.training.callbacks import HoldMask, Watch
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller

PIXELS, CLASSES, ROWS, BATCH, RATE = 784, 10, 55_000, 60, 1.2e-3  # Frankle and Carbin 2019
PRUNED = 0.8
SENTENCES, TEXT_BATCH = 1_000, 32
TASK = TaskInfo(kind="classify", labels=tuple("0123456789"))
SETTINGS = {"batch_size": BATCH, "learning_rate": RATE, "warmup": 0.0, "decay": "constant", "weight_decay": 0.0}


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(PIXELS, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, CLASSES))


class LeNet(PreTrainedModel):
    config_class = PretrainedConfig
    main_input_name = "pixel_values"

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__(config)
        self.layers = layers()
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        return None

    def forward(self, pixel_values: Tensor) -> SequenceClassifierOutput:
        return SequenceClassifierOutput(logits=self.layers(pixel_values))


class Digits:
    """Noise in the shape of MNIST."""

    def __init__(self, rows: int) -> None:
        draw = torch.Generator().manual_seed(SEED)
        self.pixels = torch.rand(rows, PIXELS, generator=draw)
        self.labels = torch.randint(0, CLASSES, (rows,), generator=draw)
        self.lengths = [1] * rows
        self.uids, self.has_label = torch.arange(rows), torch.ones(rows, dtype=torch.bool)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[0] for name, column in self.batch(np.array([index])).items()}

    def batch(self, indices: np.ndarray) -> dict[str, Tensor]:
        rows = torch.from_numpy(indices)
        columns = {"pixel_values": self.pixels, "labels": self.labels, "uids": self.uids, "has_label": self.has_label}
        return {name: column[rows] for name, column in columns.items()}


class Clock(TrainerCallback):
    """Seconds of CPU time per step, without the first few."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last, self.seconds = first, last, 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.first:
            self.start = time.process_time()
        if state.global_step == self.last:
            self.seconds = (time.process_time() - self.start) / (self.last - self.first)


def pruned(model: nn.Module) -> Mask:
    return Magnitude(fraction=PRUNED).apply(model, Mask()).mask


def by_trainer(digits: Digits, steps: int, masked: bool) -> dict[str, float]:
    """One part in five warms up."""
    set_seed(SEED)
    model, clock = LeNet(PretrainedConfig(num_labels=CLASSES)), Clock(steps // 5, steps)
    with tempfile.TemporaryDirectory() as folder:
        Distiller(
            model,
            objective=1.0 * Labels(),
            teacher=NoTeacher(),
            task=TASK,
            schedule=Schedule(max_steps=steps, max_grad_norm=0.0, patience=0, **SETTINGS),
            train=digits,
            dev=digits,
            collate=lambda rows: {name: torch.stack([row[name] for row in rows]) for name in rows[0]},
            folder=Path(folder),
            seed=SEED,
            best=False,
            callbacks=[*([HoldMask(pruned(model))] if masked else []), Watch(), clock, steps_only()],
        ).train()
    return {"seconds": clock.seconds}


def by_hand(digits: Digits, steps: int, masked: bool) -> dict[str, float]:
    """The same size of batch, optimiser and kernel; nothing is logged, watched or counted."""
    set_seed(SEED)
    model = layers().train()
    held = [(dict(model.named_parameters())[name], live.float()) for name, live in pruned(model).live.items()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    order, start = torch.randperm(len(digits)), 0.0
    for step in range(steps):
        if step == steps // 5:
            start = time.process_time()
        rows = order[(step * BATCH) % (len(digits) - BATCH) :][:BATCH]
        loss = F.cross_entropy(model(digits.pixels[rows]), digits.labels[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for weight, live in held if masked else ():
                weight.mul_(live)
    return {"seconds": (time.process_time() - start) / (steps - steps // 5)}


class Encoder:
    """MiniLM with a fresh head, and sentences."""

    def __init__(self) -> None:
        set_seed(SEED)
        self.corpus = sentences(SENTENCES)
        task = self.corpus.task
        self.model, self.tokenizer = load(demo_model(), task.kind, task, new_head=True)
        self.train = encode(self.corpus.train, self.tokenizer, MAX_LENGTH)
        self.mask = pruned(self.model)

    def step(self, steps: int, masked: bool) -> dict[str, float]:
        """The first step warms up."""
        clock = Clock(1, steps)
        with tempfile.TemporaryDirectory() as folder:
            trainer = make_distiller(
                self.model,
                self.tokenizer,
                self.corpus,
                self.train,
                objective=1.0 * Labels(),
                teacher=NoTeacher(),
                schedule=Schedule(max_steps=steps, batch_size=TEXT_BATCH),
                folder=Path(folder),
            )
            for callback in [*([HoldMask(self.mask)] if masked else []), clock]:
                trainer.add_callback(callback)
            trainer.train()
        return {"seconds": clock.seconds}


def measure(args: argparse.Namespace) -> Finding:
    steps, turns, text_steps, text_turns = (20, 2, 2, 2) if args.quick else (500, 15, 5, 9)
    settle(args.threads)
    digits, encoder = Digits(2_000 if args.quick else ROWS), Encoder()
    run = {
        "trainer": lambda: by_trainer(digits, steps, False),
        "bare": lambda: by_hand(digits, steps, False),
        "trainer, mask": lambda: by_trainer(digits, steps, True),
        "bare, mask": lambda: by_hand(digits, steps, True),
    }
    texts = {
        "minilm": lambda: encoder.step(text_steps, False),
        "minilm, mask": lambda: encoder.step(text_steps, True),
    }
    found = turn_by_turn(list(run), turns, lambda kind: run[kind]())
    found |= turn_by_turn(list(texts), text_turns, lambda kind: texts[kind]())
    step = {kind: median_of(turns_of, "seconds") for kind, turns_of in found.items()}
    ratios = {
        "lenet_trainer_over_bare_step": step["trainer"] / step["bare"],
        "lenet_trainer_over_bare_step_with_mask": step["trainer, mask"] / step["bare, mask"],
        "minilm_step_with_mask_over_without": step["minilm, mask"] / step["minilm"],
    }
    lenet = {"lenet_batch": BATCH, "learning_rate": RATE, "steps": steps, "turns": turns}
    minilm = {"minilm_batch": TEXT_BATCH, "text_steps": text_steps, "text_turns": text_turns}
    return Finding(
        figures={
            **{f"{kind.replace(', ', '_')}_step_milliseconds": 1e3 * seconds for kind, seconds in step.items()},
            **ratios,
        },
        limits=tuple(Limit(name, at_most=1.1 if "minilm" in name else 1.3) for name in ratios),
        knobs={**lenet, **minilm, "pruned": PRUNED, "threads": args.threads},
        notes=(
            "CPU time; ratios of medians, in turns in one process",
            "LeNet-300-100 on noise in the shape of MNIST; fused AdamW, no decay, warm-up or clipping in both loops",
            "the bare loop takes batches by index, computes cross-entropy, steps, and multiplies by float masks",
            "the trainer also logs loss and terms five times an evaluation, and reports progress at every step",
        ),
        seconds=each_turn(found),
        corpus=encoder.corpus,
    )


def main() -> int:
    parser = flags(__doc__ or "")
    parser.set_defaults(threads=1)
    args = parser.parse_args()
    return finish("small_step", measure(args), args)


if __name__ == "__main__":
    sys.exit(main())
