"""The main job: a smaller student of a teacher, trained with and without it, and what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Record
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import AnyModel, parse_arguments
from limbeck.jobs.folder import RECORD_FILE, locked, publish
from limbeck.jobs.record import build_record
from limbeck.jobs.settings import CUSTOM, Options, Run, check_names
from limbeck.measure.speed import MEASURING
from limbeck.recipes.recipe import to_table
from limbeck.report import Report
from limbeck.students.shrink import Shrink

DISTILLED = "distilled"  # the arm


@dataclass(frozen=True)
class Result:
    """What a person gets: the model, ready to use, and the proof."""

    student: PreTrainedModel
    tokenizer: Any
    record: Record
    report: Report
    folder: Path


def distill(
    teacher: AnyModel = "",
    data: object = None,
    student: Shrink | AnyModel | None = None,
    objective: Objective | None = None,
    *,
    out: str | Path = "",
    recipe: str | None = None,
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    baseline: bool | None = None,
    task: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: Run | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Result:
    """Makes a smaller student of `teacher` and measures what was kept.

    `teacher` is a folder, a hub id or a model (then give its `tokenizer`); `data` a file, a folder, a hub id, a
    `datasets` object or a list of rows; `student` a `Shrink`, or a model to start from. Further knobs are as in a run
    file, `reading` those of its table `data`: `distill(…, train={"patience": 2}, reading={"pair_column": "b"})`.
    Without `out` everything goes to a new temporary folder.
    """
    own: dict[str, object] = {} if objective is None else {"recipe": CUSTOM, "objective": to_table(objective)}
    arguments = parse_arguments(Run, locals(), **own)
    check_names(arguments.run)
    watcher = watcher or Silent()
    with locked(arguments.run.out, resume=resume) as folder:
        finished = pipeline.run(arguments, {DISTILLED: arguments.run}, folder, watcher, callbacks)
        record = build_record(finished, command, watcher)
        report = Report((record,))
        publish(finished.best()[1].model, folder / "student", card=report.markdown())
        record.save(folder / RECORD_FILE)
        report.save(folder / "report.html")
        small = finished.setup.task.load(str(folder / "student"))
        watcher.at(MEASURING, 1.0)
        return Result(small.network, small.processor, record, report, folder)
