"""Many recipes side by side: one teacher run once, one data set, the same seeds, a baseline for every student."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from limbeck.core.progress import Silent, Watcher
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import AnyModel, documented, parse_arguments
from limbeck.jobs.compare_settings import CompareRun, check_columns, columns_of
from limbeck.jobs.exporting import record_with_exports
from limbeck.jobs.folder import locked
from limbeck.jobs.result import Result, make_result
from limbeck.jobs.settings import Options
from limbeck.measure.speed import MEASURING
from limbeck.students.shrink import Shrink


@documented(CompareRun)
def compare(
    teacher: AnyModel | Sequence[AnyModel] | None = "",
    data: object = None,
    recipes: str | Sequence[str] | None = None,
    student: Shrink | AnyModel | None = None,
    *,
    out: str | Path = "",
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
    device: str | None = None,
    budget_minutes: float | None = None,
    columns: Mapping[str, Options] | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: CompareRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Result:
    """Sets recipes side by side: the same teacher, data and seeds, and each against its student without a teacher.

    Arguments are those of `distill`; `recipes` names the columns, and `columns` holds the knobs in which one differs:
    `compare(teacher, "reviews.csv", ["finetune", "hinton"], seeds=3, columns={"hinton": {"student": {"layers": 2}}})`.
    A column that is refused or fails is told of, and the others go on; with `resume` it is tried again. The result's
    `student` is the best by dev of those with a teacher; `result.save("small", "hinton")` writes the one of a column.
    """
    recipes = recipes if isinstance(recipes, str | None) else ",".join(recipes)
    arguments = parse_arguments(CompareRun, locals())
    chosen = columns_of(arguments.run)
    check_columns(chosen)
    watcher = watcher or Silent()
    with locked(arguments.run.out, resume=resume) as folder:
        finished = pipeline.run(arguments, chosen, folder, watcher, callbacks)
        record = record_with_exports(finished, command, watcher)
        result = make_result(finished, record, finished.best()[1].model, arguments.temporary)
        result.report.save(folder / "report.md")
        watcher.at(MEASURING, 1.0)
        return result
