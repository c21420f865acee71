"""Many recipes side by side: one teacher asked once, one data set, the same seeds, a baseline for every student."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.files import write_text
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.record import Failure, Record
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, TaskInfo
from limbeck.recipes.cell import Cell, Outcome, train_cell
from limbeck.recipes.compare_budget import within
from limbeck.recipes.compare_lanes import Lane, lanes
from limbeck.recipes.compare_run import CompareRun, columns, spelled, write_compare
from limbeck.recipes.folder import RECORD_FILE, agree, claimed
from limbeck.recipes.given import AnyModel, Given, given
from limbeck.recipes.job import ASKING, MEASURING, answers_place, passed, release, timing_cost
from limbeck.recipes.prepare import Model, check_recipe, serves
from limbeck.recipes.run import Run, complete
from limbeck.recipes.tell import settle
from limbeck.recipes.tell_compare import Contest, tell_compare, timed_as
from limbeck.recipes.unteachable import Unteachable
from limbeck.recipes.ways import PAIRS, ROWS, Way
from limbeck.report import Report
from limbeck.students.shrink import Shrink

FAILED_FILE = "failed.txt"


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
    tokenizer: Any = None,
    reading: Mapping[str, Any] | None = None,
    run: CompareRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: Any,
) -> Compared:
    """Sets recipes side by side: the same teacher, data and seeds, and each against its student without a teacher.

    Arguments are those of `distill`; `recipes` names the columns, and `each` holds the knobs in which one differs:
    `compare(teacher, "reviews.csv", ["finetune", "hinton"], seeds=3, columns={"hinton": {"student": {"layers": 2}}})`.
    A column that is refused or fails is told of, and the others go on; with `resume` it is tried again.
    """
    run = run or CompareRun(**knobs, data=dict(reading or {}))
    named = {"recipes": recipes if isinstance(recipes, str) else ",".join(recipes)} if recipes else {}
    found = given(run, teacher, data, student, out, tokenizer, **named)
    check(found.run)
    with claimed(found.run.out, resume=resume) as folder:
        return _compare(found, folder, callbacks, watcher or Silent(), command or " ".join(sys.argv))


def check(run: CompareRun) -> None:
    """Refuses what can be refused before anything is opened."""
    if run.data.task in LANGUAGE_KINDS:
        raise KnobError(
            f"--task {run.data.task} cannot be compared yet: comparisons are of labelled texts and of translations",
            "run `limbeck distill` for each recipe, and `limbeck report runs/*` over all",
        )
    asked = columns(run).values()
    for column in [column for column in asked if serves(column)] or asked:  # the others are left out, and told of
        check_recipe(column)


def _compare(
    asked_for: Given[CompareRun], folder: Path, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Compared:
    run = asked_for.run
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    way: Way = PAIRS if run.data.task in SEQ2SEQ_KINDS else ROWS
    material = way.gather(run, watcher, data=asked_for.data, teacher=asked_for.teacher)
    runs = columns(run)
    students, failed = _set_up(way, runs, material, watcher, asked_for.student)
    whole = {name: _whole(column, material.task) for name, column in runs.items()}
    run = spelled(run, whole | {name: student.run for name, student in students.items()})
    agree(folder, run, _prints(material, students), write_compare)
    watcher.plan(_stages(run, material, lanes(students)))
    asked, unfit = _ask(way, material, students, answers_place(run), watcher)
    field = lanes({name: student.taught(asked) for name, student in students.items()})
    if run.budget_minutes:
        field = within(field, run.budget_minutes, folder, watcher)
        watcher.plan(_stages(run, material, field))
    teacher_home = settle(material.teacher, folder / "teacher") if material.teacher else None
    if material.teacher and not asked.live:
        release(material.teacher)
    outcomes, fallen = _train(field, folder / "arms", watcher, callbacks)
    contest = Contest(
        run,
        list(run.columns),
        run.budget_minutes,
        material,
        field,
        outcomes,
        asked.test,
        teacher_home,
        [*failed, *unfit, *fallen],
        folder,
        command,
    )
    record = way.told(contest, tell_compare(contest, watcher, MEASURING, asked.notes), watcher)
    return _finish(record, outcomes, folder, watcher)


def _set_up(
    way: Way, runs: Mapping[str, Run], material: Any, watcher: Watcher, started: Model | None
) -> tuple[dict[str, Any], list[Failure]]:
    """Every student that can be built, and why the others cannot."""
    students: dict[str, Any] = {}
    failed: list[Failure] = []
    for name, run in runs.items():
        try:
            students[name] = way.learner(run, material, watcher, started)
        except Exception as error:
            failed.append(Failure(arm=name, reason=_reason(error)))
            watcher.say(f"{name} is left out: {_reason(error)}")
    if not students:
        raise LimbeckError("; ".join(f"{each.arm}: {each.reason}" for each in failed), "no column is left to compare")
    return students, failed


def _ask(way: Way, material: Any, students: dict[str, Any], place: Path, watcher: Watcher) -> tuple[Any, list[Failure]]:
    """What the teacher says, to all whom it can teach; the others are taken out of `students`."""
    failed: list[Failure] = []
    while True:
        try:
            return way.ask(material, list(students.values()), place, watcher), failed
        except Unteachable as error:
            out = [name for name, student in students.items() if any(student is one for one in error.students)]
            if len(out) == len(students):
                raise
            why = _reason(error)
        for cell in (cell for lane in lanes(students) if lane.name in out for cell in lane.cells):
            watcher.at(cell.title, 1.0)
        for name in out:
            del students[name]
            failed.append(Failure(arm=name, reason=why))
            watcher.say(f"{name} is left out: {why}")


def _whole(column: Run, task: TaskInfo) -> Run:
    """Spelled out also where no student can be built, as far as the recipe serves the task."""
    try:
        return complete(column, task)
    except LimbeckError:
        return column


def _reason(error: Exception) -> str:
    if isinstance(error, LimbeckError):
        return f"{error.problem} ({error.remedy})" if error.remedy else error.problem
    return f"{type(error).__name__}: {error}"


def _prints(material: Any, students: Mapping[str, Any]) -> dict[str, str]:
    own = {
        f"{what} of {name}": value
        for name, student in students.items()
        for what, value in student.fingerprints.items()
        if what not in material.fingerprints
    }
    return {**material.fingerprints, **own}


def _stages(run: CompareRun, material: Any, field: Sequence[Lane]) -> list[Stage]:
    rows = material.rows + sum(lane.student.made_up for lane in field if not lane.plain)
    return [
        Stage(ASKING, passed(material.teacher.network) * rows if material.teacher else 0.0),
        *(Stage(cell.title, lane.cost) for lane in field for cell in lane.cells),
        Stage(MEASURING, timing_cost(run.measure, models=1 + len({timed_as(lane) for lane in field}))),
    ]


def _train(
    field: Sequence[Lane], place: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]
) -> tuple[dict[str, list[Outcome]], list[Failure]]:
    """All lanes of one seed before the next seed, so that what is cut off has whole seeds."""
    outcomes: dict[str, list[Outcome]] = {}
    failed: list[Failure] = []
    for row in zip(*(lane.cells for lane in field), strict=True):
        for lane, cell in zip(field, row, strict=True):
            found = _try(cell, place, watcher, callbacks)
            if isinstance(found, Outcome):
                outcomes.setdefault(lane.name, []).append(found)
            else:
                failed.append(Failure(arm=lane.name, seeds=[cell.seed], reason=found))
    if not outcomes:
        raise LimbeckError(f"every training failed, the first with: {failed[0].reason}", "mend that, then --resume")
    return outcomes, failed


def _try(cell: Cell, place: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> Outcome | str:
    """What came of a cell, or why nothing did. What failed before is tried again."""
    told = place / cell.name / FAILED_FILE
    told.unlink(missing_ok=True)
    try:
        return train_cell(cell, place, watcher, callbacks)
    except Exception as error:
        watcher.say(f"{cell.title} failed: {_reason(error)}")
        watcher.at(cell.title, 1.0)
        write_text(told, _reason(error) + "\n")
        return _reason(error)


def _finish(record: Record, outcomes: Mapping[str, Sequence[Outcome]], folder: Path, watcher: Watcher) -> Compared:
    report = Report((record,))
    record.save(folder / RECORD_FILE)
    report.save(folder / "report.html")
    report.save(folder / "report.md")
    watcher.at(MEASURING, 1.0)
    best = {name: max(done, key=lambda outcome: outcome.dev_score).model for name, done in outcomes.items()}
    return Compared(record, report, folder, best)
