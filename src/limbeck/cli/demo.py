"""`limbeck demo`: the whole story on the embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limbeck.cli.verb import command_line, show, try_it
from limbeck.core.progress import TRAINING, ProgressItem
from limbeck.jobs.settings import Run, TrainRun

MINILM = 10_700_000  # parameters of MiniLM-L6 that every row passes through
HELD_OUT = 1669  # rows of dev and test


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="folder for everything; an interrupted demo goes on where it was")
    ] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="how often to train the students")] = 1,
    rows: Annotated[int, typer.Option("--rows", min=200, help="training sentences used")] = 1400,
) -> None:
    """Fine-tune MiniLM on Rotten Tomatoes, make it small, with and without a teacher, down to an int8 file, and report.

    Weights and sentences come from the package index; no hub, no account. At most 6 minutes on two idle cores.
    """
    from limbeck.cli.display import watching
    from limbeck.data.sources.demo import demo_model, demo_rows
    from limbeck.jobs.distill import distill
    from limbeck.jobs.train import train

    data = demo_rows()
    first, second = demo_runs(str(demo_model()), out, seeds, rows)
    with watching() as watcher:
        # The teacher reads all rows and joins of them once; two students of a quarter of its size train on them.
        epochs = 2 * second.train.epochs + second.stages["hidden"].epochs
        passes = 1.5 * rows + HELD_OUT + seeds * (3 * epochs * rows / 3 + HELD_OUT)
        ahead = ProgressItem("the students", passes * MINILM, TRAINING)
        watcher.plan([ahead])
        watcher.say("1 of 2: a teacher, MiniLM-L6 fine-tuned on Rotten Tomatoes")
        teacher = train(run=first, data=data, resume=True, watcher=watcher, command=command_line())
        watcher.plan([ahead._replace(cost=0.0)])  # distill plans them itself, stage by stage
        watcher.say("2 of 2: a small student, with and without the teacher, and its int8 file")
        result = distill(
            teacher.folder / "model", data, run=second, resume=True, watcher=watcher, command=command_line()
        )
    show(result.record, {"model": result.folder / "student", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)


def demo_runs(model: str, out: Path, seeds: int, rows: int) -> tuple[TrainRun, Run]:
    data = {"limit": rows, "max_length": 64}
    train = {"epochs": 2, "evals_per_epoch": 1}
    first = TrainRun(model=model, out=str(out / "teacher"), data=data, train=train, measure={"speed": False})
    # So few rows need more passes than the preset makes, and smaller batches.
    small = {"student": {"preset": "small"}, "train": {**train, "epochs": 3, "batch_size": 32}, "export": "onnx-int8"}
    stages = {"hidden": {"epochs": 2}}
    second = Run(
        out=str(out), seeds=seeds, data=data, stages=stages, measure={"repeats": 1, "speed_share": 0.9}, **small
    )
    return first, second
