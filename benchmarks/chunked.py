"""The loss over a large vocabulary, in chunks of tokens against all at once: time and peak memory of loss and gradient.

Plain (the words themselves) and with a live teacher, at two sizes of vocabulary; and the generalised Jensen–Shannon
loss beside Liger's chunked one and TRL's dense one, which live in an environment of their own that the first run
installs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from common import HERE, SEED, Finding, Limit, child, each_turn, environment, finish, flags, median_of, turn_by_turn
from limbeck.core.objective import Objective
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Projection, Trace
from limbeck.functional.softmax import chunk_size
from limbeck.measure.machine import peak_of
from limbeck.objectives import GeneralisedJSD, LanguageModeling, WordKD
from limbeck.objectives.weighted_sum import weighted_sum
from peers.projections import Inputs, serve

PEERS = ("liger-kernel==0.8.5", "trl==1.16.0")
IMPORTS = ("liger_kernel.chunked_loss", "trl.experimental.gkd")
PEER_ENGINES = ("liger", "liger_compiled", "trl")
VOCABULARIES = (30_522, 151_936)  # BERT's, Qwen2.5's
WIDTH, BETA = 384, 0.5
OBJECTIVES: dict[str, Objective] = {
    "plain": 1.0 * LanguageModeling(),
    "kl": 1.0 * WordKD(),
    "jsd": BETA * (1 - BETA) * GeneralisedJSD(beta=BETA),  # the weight makes it the paper's
}
PAIRS = [(loss, vocabulary) for vocabulary in VOCABULARIES for loss in ("plain", "kl")]


def chunked(job: dict[str, Any]) -> Callable[[Inputs], Tensor]:
    task = TaskInfo(kind="generate", vocab_size=job["vocabulary"])

    def loss(x: Inputs) -> Tensor:
        every = torch.ones_like(x.words, dtype=torch.bool)[None]
        batch = Batch(task, torch.zeros(1, dtype=torch.int64), x.words[None], every, predicted=every)
        student = Trace(tokens=Projection(x.features, x.weight))
        teacher = Trace(tokens=Projection(x.teacher_features, x.teacher_weight))
        return weighted_sum(OBJECTIVES[job["loss"]], student, teacher, batch)[0]

    return loss


def dense(job: dict[str, Any]) -> Callable[[Inputs], Tensor]:
    """As one writes it with torch alone."""

    def loss(x: Inputs) -> Tensor:
        logits = F.linear(x.features, x.weight)
        if job["loss"] == "plain":
            return F.cross_entropy(logits, x.words)
        teacher = F.linear(x.teacher_features, x.teacher_weight).log_softmax(-1)
        return F.kl_div(logits.log_softmax(-1), teacher, reduction="batchmean", log_target=True)

    return loss


class Bench:
    """Jobs as files, children that do them, and what a child holds when it has nothing to do."""

    def __init__(self, folder: Path, python: Path, tokens: int, steps: int, threads: int) -> None:
        self.folder, self.python, self.threads = folder, python, threads
        self.fields = {"tokens": tokens, "width": WIDTH, "beta": BETA, "seed": SEED, "threads": threads}
        self.steps = steps

    def command(self, engine: str, loss: str, vocabulary: int, steps: int) -> list[str]:
        file = self.folder / f"{engine}-{loss}-{vocabulary}-{steps}.json"
        job = {**self.fields, "engine": engine, "loss": loss, "vocabulary": vocabulary, "steps": steps}
        file.write_text(json.dumps(job))
        if engine in PEER_ENGINES:
            return [str(self.python), str(HERE / "peers" / "jsd.py"), str(file)]
        return [sys.executable, __file__, "--job", str(file)]

    def measure(self, engine: str, loss: str, vocabulary: int) -> dict[str, Any]:
        found = child(self.command(engine, loss, vocabulary, self.steps), self.threads)
        # Two steps, for the second meets what the first left lying about.
        busy, idle = (peak_of(self.command(engine, loss, vocabulary, steps)) for steps in (2, 0))
        return {**found, "megabytes": (busy - idle) / 1e6}

    def compare(self, engines: tuple[str, ...], loss: str, vocabulary: int, turns: int) -> dict[str, list[Any]]:
        print(f"{loss}, {vocabulary:,} words", flush=True)
        return turn_by_turn(engines, turns, lambda engine: self.measure(engine, loss, vocabulary))


def apart(found: dict[str, list[Any]]) -> float:
    """The largest difference of anyone to the first in loss, and, relatively, in the norms of both gradients."""
    (first, *_), *others = found.values()
    return max(
        max(abs(turn["loss"] - first["loss"]) for turns in others for turn in turns),
        *(
            abs(turn[key] / first[key] - 1)
            for key in ("slope_of_features", "slope_of_weight")
            for turns in others
            for turn in turns
        ),
    )


def ratios(found: dict[str, list[Any]], other: str, name: str) -> dict[str, float]:
    ours, theirs = found["chunked"], found[other]
    return {
        f"time_over_{name}": median_of(ours, "seconds") / median_of(theirs, "seconds"),
        f"peak_memory_over_{name}": median_of(ours, "megabytes") / median_of(theirs, "megabytes"),
        f"seconds_of_{name}": median_of(theirs, "seconds"),
        f"megabytes_of_{name}": median_of(theirs, "megabytes"),
    }


def run(args: argparse.Namespace, folder: Path) -> Finding:
    tokens, steps, turns = (96, 2, 1) if args.quick else (2048, 2, 3)
    bench = Bench(
        folder, environment(args.venv, [*PEERS, "torch", "transformers", "numpy"], IMPORTS), tokens, steps, args.threads
    )
    figures, seconds, gaps = {}, {}, []
    for loss, vocabulary in PAIRS:
        # Of the larger vocabulary memory is claimed, which one turn tells.
        often = turns if vocabulary == VOCABULARIES[0] else 1
        found = bench.compare(("chunked", "dense"), loss, vocabulary, often)
        figures |= ratios(found, "dense", f"dense_{loss}_{vocabulary}")
        seconds |= {f"{loss}, {vocabulary}: {key}": value for key, value in each_turn(found).items()}
        gaps.append(apart(found))
    found = bench.compare(("chunked", *PEER_ENGINES), "jsd", VOCABULARIES[0], 1)
    for peer in PEER_ENGINES:
        figures |= ratios(found, peer, peer)
    seconds |= {f"jsd: {key}": value for key, value in each_turn(found).items()}
    gaps.append(apart(found))
    figures["largest_difference_of_loss_or_gradient"] = max(gaps)
    knobs = {"tokens": tokens, "width": WIDTH, "vocabularies": list(VOCABULARIES), "beta": BETA, "steps": steps}
    knobs |= {"turns": turns, "threads": args.threads, "peers": list(PEERS)}
    return tell(figures, seconds, knobs | {"chunks_of_tokens": [chunk_size(v) for v in VOCABULARIES]})


def tell(figures: dict[str, float], seconds: dict[str, float], knobs: dict[str, Any]) -> Finding:
    small, large = VOCABULARIES
    limits = [Limit(f"peak_memory_over_dense_{loss}_{small}", at_most=0.2) for loss in ("plain", "kl")]
    limits += [Limit(f"peak_memory_over_dense_{loss}_{large}", at_most=0.1) for loss in ("plain", "kl")]
    limits += [Limit(f"time_over_dense_{loss}_{small}", at_most=1.0) for loss in ("plain", "kl")]
    return Finding(
        figures=figures,
        limits=(*limits, Limit("largest_difference_of_loss_or_gradient", at_most=1e-4)),
        knobs=knobs,
        notes=(
            "loss and gradient of features and of an untied head without bias; everyone gets the same tensors",
            "time: median of the turns, each the median step of a process of its own after one that does not count; "
            "one turn at the larger vocabulary and beside the peers",
            "memory: the peak of a process that takes two steps less that of one that takes none; the gradient of the "
            "head, which everyone must hold, is in it",
            "dense: F.linear, then F.cross_entropy or F.kl_div; kl and jsd have a live teacher whose head is projected "
            "too",
            "Liger: LigerFusedLinearJSDLoss with its chunks of 1,024 tokens, plain and by torch.compile (its default; "
            "compiling is not timed, but its memory is in the peak); TRL: GKDTrainer.generalized_jsd_loss on "
            "whole logits, off-policy; the same β for all",
        ),
        seconds=seconds,
    )


def main() -> int:
    parser = flags(__doc__ or "")
    home = HERE.parent / ".bench" / "chunked"
    parser.add_argument("--venv", type=Path, default=home, help="the peers' environment (default: .bench/chunked)")
    args = parser.parse_args()
    if args.job:
        serve(lambda job: {"chunked": chunked, "dense": dense}[job["engine"]](job), args.job)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("chunked", finding, args)


if __name__ == "__main__":
    sys.exit(main())
