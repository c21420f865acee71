"""What the tap costs: a training step that records all attention scores beside one with eager attention.

And a step with the tap installed and nothing asked beside the model's own attention. Recipes that look at no heads do
not install it: they run the model's own code.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification, set_seed

from common import SEED, Finding, Limit, each_turn, finish, flags, median_of, settle, turn_by_turn
from limbeck.core.tap import NAME, Heads, install, tapped
from limbeck.core.trace import Request, Want

LAYERS, WIDTH, HEADS, BATCH, LENGTH = 6, 384, 12, 32, 64
SHAPE = {
    "num_hidden_layers": LAYERS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
}
ALL_SCORES = Request(Want.LOGITS | Want.ATTENTION, heads=tuple(range(1, LAYERS + 1)))
# Kind → the model's attention, and what is asked of the tap.
KINDS = {
    "eager": ("eager", Request()),
    "recording": (NAME, ALL_SCORES),
    "default": ("sdpa", Request()),
    "idle": (NAME, Request()),
}


def texts() -> tuple[dict[str, Tensor], Tensor]:
    """Random tokens, a quarter of them padding on average, and labels."""
    ids = torch.randint(1000, 30000, (BATCH, LENGTH))
    lengths = torch.linspace(LENGTH // 2, LENGTH, BATCH).long()
    present = torch.arange(LENGTH) < lengths[:, None]
    return {"input_ids": ids * present, "attention_mask": present.long()}, torch.arange(BATCH) % 2


def stepper(kind: str, steps: int) -> Callable[[], dict[str, float]]:
    """Some training steps of a model with this kind of attention."""
    set_seed(SEED)
    inputs, labels = texts()
    model = BertForSequenceClassification(BertConfig(**SHAPE)).train()
    attention, ask = KINDS[kind]
    if attention == NAME:
        install(model)
    else:
        model.set_attn_implementation(attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> dict[str, float]:
        start = time.perf_counter()
        for _ in range(steps):
            seen: list[Heads] = []
            with tapped(ask, seen):
                logits = model(**inputs).logits
            F.cross_entropy(logits, labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            if [heads.scores.numel() > 0 for heads in seen] != [True] * len(ask.heads):
                raise SystemExit(f"{kind}: not every layer that was asked for was recorded")
        return {"seconds": (time.perf_counter() - start) / steps}

    return run


def measure(args: argparse.Namespace) -> Finding:
    steps, turns = (1, 2) if args.quick else (4, 15)
    settle(args.threads)
    run = {kind: stepper(kind, steps) for kind in KINDS}
    for kind in KINDS:  # the first steps of a process are slower; they do not count
        run[kind]()
    found = turn_by_turn(list(KINDS), turns, lambda kind: run[kind]())
    step = {kind: median_of(found[kind], "seconds") for kind in KINDS}
    return Finding(
        figures={
            **{f"{kind}_step_seconds": seconds for kind, seconds in step.items()},
            "time_of_recording_over_eager_step": step["recording"] / step["eager"],
            "time_of_idle_over_default_step": step["idle"] / step["default"],
        },
        limits=(Limit("time_of_recording_over_eager_step", at_most=1.15),),
        knobs={**SHAPE, "batch": BATCH, "length": LENGTH, "steps": steps, "turns": turns, "threads": args.threads},
        notes=(
            "forward, backward and AdamW of a BERT in the shape of MiniLM-L6 with fresh weights, dropout on",
            "ratios of medians, four models in turns in one process; recording keeps the scores of all layers",
            "idle: installed, nothing asked; recipes that look at no heads do not install it at all",
        ),
        seconds=each_turn(found),
    )


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    return finish("tap", measure(args), args)


if __name__ == "__main__":
    sys.exit(main())
