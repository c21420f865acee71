"""The same features, heads and words for everyone whose loss is measured. Needs torch only: a peer has its own
environment."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    features: Tensor  # [tokens, width]
    weight: Tensor  # [vocabulary, width]
    teacher_features: Tensor  # [tokens, width]
    teacher_weight: Tensor  # [vocabulary, width]
    words: Tensor  # [tokens]

    def slopes(self) -> tuple[Tensor, Tensor]:
        assert self.features.grad is not None
        assert self.weight.grad is not None
        return self.features.grad, self.weight.grad

    def forget(self) -> None:
        self.features.grad = self.weight.grad = None


def make(job: dict[str, Any]) -> Inputs:
    """Drawn in place, so that making them needs no more memory than having them."""
    torch.manual_seed(job["seed"])
    tokens, width, vocabulary = job["tokens"], job["width"], job["vocabulary"]

    def normal(*shape: int, std: float) -> Tensor:
        return torch.empty(*shape).normal_(std=std)

    words = torch.randint(vocabulary, (tokens,))
    features, weight = normal(tokens, width, std=1.0), normal(vocabulary, width, std=0.1)
    taught = job["loss"] != "plain"
    return Inputs(
        features.requires_grad_(),
        weight.requires_grad_(),
        normal(tokens, width, std=1.0) if taught else torch.empty(0),
        normal(vocabulary, width, std=0.1) if taught else torch.empty(0),
        words,
    )


def measure(job: dict[str, Any], inputs: Inputs, loss: Callable[[Inputs], Tensor]) -> dict[str, float]:
    """Forward and backward, once to warm up and then as often as the job says; none at all to see what lies idle."""
    seconds, value = [], 0.0
    for _ in range(job["steps"]):
        inputs.forget()
        start = time.perf_counter()
        total = loss(inputs)
        total.backward()
        seconds.append(time.perf_counter() - start)
        value = total.item()
        del total
    if not seconds:
        return {}
    of_features, of_weight = (slope.norm().item() for slope in inputs.slopes())
    return {
        "seconds": statistics.median(seconds[1:] or seconds),
        "loss": value,
        "slope_of_features": of_features,
        "slope_of_weight": of_weight,
    }


def serve(loss_of: Callable[[dict[str, Any]], Callable[[Inputs], Tensor]], file: Path) -> None:
    """The whole of a child: the job as JSON file, what was measured as one JSON line on stdout."""
    job = json.loads(file.read_text())
    torch.set_num_threads(job["threads"])
    loss = loss_of(job)
    sys.stdout.write("\n" + json.dumps(measure(job, make(job), loss)) + "\n")
