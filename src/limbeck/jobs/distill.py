"""The main job: a smaller student of a teacher, trained with and without it, and what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Watcher
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import AnyModel, documented, parse_arguments
from limbeck.jobs.exporting import record_with_exports
from limbeck.jobs.folder import locked, publish
from limbeck.jobs.result import Result, make_result
from limbeck.jobs.settings import CUSTOM, Options, Run, check_names
from limbeck.measure.speed import MEASURING
from limbeck.recipes.recipe import to_table
from limbeck.report import Report
from limbeck.students.shrink import Shrink

DISTILLED = "distilled"  # the arm


@documented(Run)
def distill(
    teacher: AnyModel | Sequence[AnyModel] | None = "",
    data: object = None,
    student: Shrink | AnyModel | None = None,
    objective: Objective | None = None,
    *,
    out: str | Path = "",
    recipe: str | None = None,
    layers: int | None = None,
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    max_steps: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    baseline: bool | None = None,
    task: str | None = None,
    metric: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    unlabelled: str | None = None,
    teacher_column: str | Sequence[str] | None = None,
    teacher_weights: str | Sequence[float] | None = None,
    student_from: str | Path | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    class_weights: str | None = None,
    label_smoothing: float | None = None,
    device: str | None = None,
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

    `teacher` is a folder, a hub id or a model (then give its `tokenizer`), or a list of those: they are averaged. It is
    None where its answers stand in the data, in `teacher_column`; the student then starts from `student_from`. `data`
    is a file, a folder, a hub id, a `datasets` object or a list of rows; `student` a `Shrink`, or a model to start
    from. Further knobs are as in a run file, `reading` those of its table `data`: `distill(…, train={"patience": 2},
    reading={"dev": "dev.csv"})`. Without `out` everything goes to a temporary folder, which is there as long as the
    result: `result.save("small")` writes model, tokenizer and card.
    """
    own: dict[str, object] = {} if objective is None else {"recipe": CUSTOM, "objective": to_table(objective)}
    arguments = parse_arguments(Run, locals(), **own)
    check_names(arguments.run)
    watcher = watcher or Silent()
    with locked(arguments.run.out, resume=resume) as folder:
        finished = pipeline.run(arguments, {DISTILLED: arguments.run}, folder, watcher, callbacks)
        record = record_with_exports(finished, command, watcher)
        publish(finished.best()[1].model, folder / "student", card=Report((record,)).markdown())
        result = make_result(finished, record, folder / "student", arguments.temporary)
        watcher.at(MEASURING, 1.0)
        return result
