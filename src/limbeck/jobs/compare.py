"""Many recipes side by side: one teacher run once, one data set, the same seeds, a baseline for every student."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Record
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import AnyModel, parse_arguments
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.folder import RECORD_FILE, locked
from limbeck.jobs.record import build_record
from limbeck.jobs.settings import CUSTOM, Options, Run, check_names
from limbeck.measure.speed import MEASURING
from limbeck.recipes.recipe import find
from limbeck.report import Report
from limbeck.students.shrink import Shrink


@dataclass(frozen=True)
class Compared:
    """What a person gets: the table, the page, and where the models lie."""

    record: Record
    report: Report
    folder: Path
    models: dict[str, Path]  # of each column and baseline, the best seed by dev


def compare(
    teacher: AnyModel = "",
    data: object = None,
    recipes: str | Sequence[str] = "",
    student: Shrink | AnyModel | None = None,
    *,
    out: str | Path = "",
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    task: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
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
) -> Compared:
    """Sets recipes side by side: the same teacher, data and seeds, and each against its student without a teacher.

    Arguments are those of `distill`; `recipes` names the columns, and `columns` holds the knobs in which one differs:
    `compare(teacher, "reviews.csv", ["finetune", "hinton"], seeds=3, columns={"hinton": {"student": {"layers": 2}}})`.
    A column that is refused or fails is told of, and the others go on; with `resume` it is tried again.
    """
    named = {"recipes": recipes if isinstance(recipes, str) else ",".join(recipes)} if recipes else {}
    arguments = parse_arguments(CompareRun, locals(), **named)
    chosen = columns_of(arguments.run)
    serving = [column for column in chosen.values() if _serves(column)]
    for column in serving or chosen.values():  # the others are left out, and told of
        check_names(column)
    watcher = watcher or Silent()
    with locked(arguments.run.out, resume=resume) as folder:
        finished = pipeline.run(arguments, chosen, folder, watcher, callbacks)
        record = build_record(finished, command, watcher)
        report = Report((record,))
        record.save(folder / RECORD_FILE)
        report.save(folder / "report.html")
        report.save(folder / "report.md")
        watcher.at(MEASURING, 1.0)
        best = {name: max(done, key=lambda one: one.dev_score).model for name, done in finished.results.items()}
        return Compared(record, report, folder, best)


def _serves(run: Run) -> bool:
    """Whether a run's recipe serves the task that a person named."""
    return run.data.task == "auto" or run.recipe in ("auto", CUSTOM) or run.data.task in find(run.recipe).tasks
