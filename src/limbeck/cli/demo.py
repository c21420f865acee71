"""`limbeck demo`: the whole story on the embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zlib import crc32

import typer

from limbeck.cli.verb import command_line, show, try_it
from limbeck.core.files import write_text
from limbeck.core.progress import TRAINING, ProgressItem
from limbeck.jobs.plan import FEW_ROW_STEPS
from limbeck.jobs.settings import Run, TrainRun

MINILM = 10_700_000  # parameters of MiniLM-L6 that every row passes through
TESTED, DEV = 1_000, 100  # rows with labels that are measured on, and of those with labels that choose the weights
TEACHER_EPOCHS, EPOCHS, HIDDEN_EPOCHS, BATCH = 8, 3, 2, 32


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="folder for everything; an interrupted demo goes on where it was")
    ] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="how often to train the students")] = 1,
    labels: Annotated[int, typer.Option("--labels", min=150, help="sentences whose labels are used")] = 500,
    texts: Annotated[int, typer.Option("--texts", min=200, help="sentences used without their labels")] = 6000,
) -> None:
    """A few labels, many texts without: teach MiniLM the labels, let it answer the texts, and make it small with both.

    The sentences are Rotten Tomatoes'. Beside the student stands the same one without a teacher; it ends with an int8
    file and a report. Weights and sentences come from the package index; no hub, no account. At most 6 minutes on two
    idle cores.
    """
    from limbeck.cli.display import watching
    from limbeck.data.sources.demo import demo_model, demo_rows
    from limbeck.jobs.distill import distill
    from limbeck.jobs.train import train

    rows = sorted(demo_rows(), key=lambda row: crc32(row["text"].encode()))  # the package has them class by class
    known, others = rows[: TESTED + labels], rows[TESTED + labels :][:texts]
    file = out / "unlabelled.txt"
    write_text(file, "".join(f"{row['text']}\n" for row in others))
    first, second = demo_runs(str(demo_model()), out, seeds, labels / len(known), file)
    with watching() as watcher:
        # The teacher answers every text once; the students are a quarter of its size.
        passes = seeds * 3 * ((EPOCHS + HIDDEN_EPOCHS) * len(rows) + FEW_ROW_STEPS * BATCH) / 4
        ahead = ProgressItem("the students", (passes + len(rows)) * MINILM, TRAINING)
        watcher.plan([ahead])
        watcher.say(f"1 of 2: a teacher, MiniLM-L6 fine-tuned on {labels - DEV:,} labelled sentences")
        teacher = train(run=first, data=known, resume=True, watcher=watcher, command=command_line())
        watcher.plan([ahead._replace(cost=0.0)])  # distill plans them itself, stage by stage
        watcher.say(f"2 of 2: a small student of its answers to {len(others):,} more, and the same from labels alone")
        result = distill(
            teacher.folder / "model", known, run=second, resume=True, watcher=watcher, command=command_line()
        )
    show(result.record, {"model": result.folder / "student", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)


def demo_runs(model: str, out: Path, seeds: int, share: float, texts: Path) -> tuple[TrainRun, Run]:
    data = {"dev_rows": DEV, "test_share": 1 - share, "max_length": 64}
    train = {"batch_size": BATCH, "evals_per_epoch": 1}
    learn = {**train, "epochs": TEACHER_EPOCHS, "patience": 0}
    first = TrainRun(model=model, out=str(out / "teacher"), data=data, train=learn, measure={"speed": False})
    second = Run(
        out=str(out),
        seeds=seeds,
        data={**data, "unlabelled": str(texts)},
        student={"preset": "small"},
        train={**train, "epochs": EPOCHS},  # so few rows need more passes than the preset makes, and smaller batches
        stages={"hidden": {"epochs": HIDDEN_EPOCHS}},
        augment={"kind": "none"},
        export="onnx-int8",
        measure={"repeats": 1, "speed_share": 0.9},
    )
    return first, second
