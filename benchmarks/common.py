"""What every benchmark shares: its flags, its data, its trainers, and the Record it leaves behind."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.record import DataCard, Record
from limbeck.core.task import TaskInfo
from limbeck.measure.machine import machine, usable_cores
from peers.witness import Witness

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer

    from limbeck.core.objective import Objective
    from limbeck.core.trace import Teacher
    from limbeck.data.text.examples import Corpus, Encoded
    from limbeck.training.schedule import Schedule
    from limbeck.training.trainer import Distiller

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
SCRATCH = HERE.parent / "runs" / "benchmarks"  # quick runs: not committed
MAX_LENGTH = 64
SEED = 0


@dataclass(frozen=True)
class Limit:
    """A claim about one figure."""

    figure: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bound(self) -> float:
        return float(self.at_most if self.at_most is not None else self.at_least or 0.0)

    @property
    def text(self) -> str:
        return f"{'≤' if self.at_most is not None else '≥'} {self.bound:g}"

    def holds(self, figures: Mapping[str, float]) -> bool:
        value = figures[self.figure]
        return value <= self.bound if self.at_most is not None else value >= self.bound


@dataclass(frozen=True)
class Finding:
    """What a benchmark measured, before it becomes a Record."""

    figures: dict[str, float]
    limits: tuple[Limit, ...]
    knobs: dict[str, Any]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]  # every turn that was timed
    corpus: Corpus | None = None
    fingerprints: Mapping[str, str] | None = None


def flags(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs; limits are not judged")
    parser.add_argument("--out", type=Path, help="the Record to write (default: benchmarks/results, quick: runs/)")
    parser.add_argument("--threads", type=int, default=usable_cores(), help="CPU threads (default: all cores)")
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)  # set when the script starts itself as a child
    return parser


def finish(name: str, finding: Finding, args: argparse.Namespace) -> int:
    """Writes the Record, prints the figures, and gives the exit code."""
    limits = {f"{limit.figure}_limit": limit.bound for limit in finding.limits}
    record = Record(
        kind="benchmark",
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=f"python benchmarks/{name}.py" + (" --quick" if args.quick else ""),
        machine=machine(),
        seeds=[SEED],
        knobs=finding.knobs,
        fingerprints=dict(finding.fingerprints or {}),
        task=finding.corpus.task if finding.corpus else TaskInfo(kind="classify"),
        metric=finding.limits[0].figure,
        data=finding.corpus.card if finding.corpus else DataCard(source="none", columns={}, read=0),
        arms=[],
        figures=finding.figures | limits,
        seconds=dict(finding.seconds),
        notes=list(finding.notes),
    )
    path = record.save(args.out or (SCRATCH if args.quick else RESULTS) / f"{name}.json")
    _show(finding)
    print(f"\n{path}")
    failed = [limit.figure for limit in finding.limits if not limit.holds(finding.figures)]
    if args.quick:
        print("a quick run: its figures say nothing, its limits are not judged")
        return 0
    if failed:
        print(f"not met: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _show(finding: Finding) -> None:
    limits = {limit.figure: limit for limit in finding.limits}
    width = max(map(len, finding.figures))
    for figure, value in finding.figures.items():
        limit = limits.get(figure)
        said = f"{limit.text:<8} {'met' if limit.holds(finding.figures) else 'NOT MET'}" if limit else ""
        print(f"{figure:<{width}}  {value:>12,.3f}  {said}".rstrip())
    for note in finding.notes:
        print(f"- {note}")


def settle(threads: int) -> None:
    """The same threads and the same silence for everyone who is measured."""
    import torch
    from transformers.utils import logging

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def environment(folder: Path, installs: Sequence[str], imports: Sequence[str], beside: Path | None = None) -> Path:
    """The Python of a virtual environment in which those imports work; made and filled when they do not.

    What lies in the folder of packages `beside` it can be imported there too."""
    python = folder / "bin" / "python"
    asked = [str(python), "-c", f"import {', '.join(imports)}"]
    if python.exists() and not subprocess.run(asked, capture_output=True).returncode:
        return python
    print(f"installing {', '.join(installs)} into {folder}", flush=True)
    venv.create(folder, with_pip=True)
    (folder / ".gitignore").write_text("*\n")
    if beside:
        (next(folder.glob("lib/*/site-packages")) / "beside.pth").write_text(f"{beside}\n")
    quiet = ["install", "--quiet", "--disable-pip-version-check", "-c", str(HERE.parent / "constraints.txt")]
    subprocess.run([str(python), "-m", "pip", *quiet, *installs], check=True)
    return python


def child(argv: Sequence[str | Path], threads: int) -> dict[str, Any]:
    """Runs a process to its end and gives the JSON object on the last line of its output."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run([str(word) for word in argv], capture_output=True, text=True, env=env)
    if ended.returncode:
        raise SystemExit(f"{' '.join(map(str, argv))} ended with {ended.returncode}:\n{ended.stderr[-3000:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def turn_by_turn(names: Sequence[str], turns: int, measure: Callable[[str], dict[str, Any]]) -> dict[str, list[Any]]:
    """Each name measured once per turn, first and second place alternating, so that a slow minute hurts all alike."""
    from limbeck.measure.speed import turns as in_rotation

    found: dict[str, list[Any]] = {name: [] for name in names}
    for place, name in enumerate(in_rotation(list(names), turns), start=1):
        found[name].append(measure(name))
        shown = ", ".join(f"{key} {value:.2f}" for key, value in found[name][-1].items() if isinstance(value, float))
        print(f"turn {place}/{turns * len(names)}: {name}: {shown}", flush=True)
    return found


def median_of(turns: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.median(turn[key] for turn in turns)


def each_turn(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Every time that was measured, for the Record."""
    return {
        f"{name}: {key}, turn {number}": value
        for name, turns in found.items()
        for number, turn in enumerate(turns, start=1)
        for key, value in turn.items()
        if isinstance(value, float)
    }


def sentences(rows: int) -> Corpus:
    """Rotten Tomatoes from the package index; always the same rows."""
    from limbeck.data.settings import DataSettings
    from limbeck.data.sources.demo import demo_rows
    from limbeck.data.text.examples import read_texts

    return read_texts(DataSettings(limit=rows, max_length=MAX_LENGTH), demo_rows())


def make_distiller(
    student: PreTrainedModel,
    tokenizer: Any,
    corpus: Corpus,
    train: Encoded,
    *,
    objective: Objective,
    teacher: Teacher,
    schedule: Schedule,
    folder: Path,
) -> Distiller:
    """Limbeck's own loop, without measuring on dev and without checkpoints."""
    from limbeck.data.batches import Collator
    from limbeck.data.text.examples import encode
    from limbeck.measure.evaluator import TextEvaluator
    from limbeck.training.trainer import Distiller

    dev = encode(corpus.dev.take(range(8)), tokenizer, MAX_LENGTH)
    return Distiller(
        student,
        objective=objective,
        teacher=teacher,
        task=corpus.task,
        schedule=schedule.but(patience=0),
        train=train,
        dev=dev,
        collate=Collator.of(tokenizer, corpus.task),
        folder=folder,
        seed=SEED,
        callbacks=[steps_only()],
        **TextEvaluator(corpus.task, tokenizer, {"dev": dev}).while_training(),
    )


def steps_only() -> Any:
    """A callback after which a Trainer neither measures on dev nor saves."""
    from transformers import TrainerCallback

    class StepsOnly(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_evaluate = control.should_save = False

    return StepsOnly()


def watched(trainer: Trainer) -> Witness:
    """From now on every batch of the trainer is witnessed."""
    trainer.data_collator = witness = Witness(trainer.data_collator)
    return witness


def same_batches(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Stops unless every turn of everyone saw the same batches."""
    if len({turn["digest"] for turns in found.values() for turn in turns}) != 1:
        raise SystemExit("not all turns saw the same batches; nothing is compared")
