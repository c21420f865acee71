"""The main job: ask the teacher once, train the student with and without it, measure all three, say what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS
from limbeck.recipes.asked import ask
from limbeck.recipes.cell import Outcome, train_cell
from limbeck.recipes.folder import agree, claimed
from limbeck.recipes.given import AnyModel, Given, given
from limbeck.recipes.job import ASKING, MEASURING, Result, answers_place, finish, passed, release, timing_cost
from limbeck.recipes.language import distill_words
from limbeck.recipes.prepare import check_recipe, gather, prepare
from limbeck.recipes.recipe import to_table
from limbeck.recipes.run import CUSTOM, Run
from limbeck.recipes.student import Student, set_up
from limbeck.recipes.tell import Findings, settle, tell
from limbeck.recipes.translation import distill_pairs
from limbeck.students.load import load_saved
from limbeck.students.shrink import Shrink


def distill(
    teacher: AnyModel = "",
    data: object = None,
    student: Shrink | AnyModel | None = None,
    objective: Objective | None = None,
    *,
    out: str | Path = "",
    tokenizer: Any = None,
    reading: Mapping[str, Any] | None = None,
    run: Run | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: Any,
) -> Result:
    """Makes a smaller student of `teacher` and measures what was kept.

    `teacher` is a folder, a hub id or a model (then give its `tokenizer`); `data` a file, a folder, a hub id, a
    `datasets` object or a list of rows; `student` a `Shrink`, or a model to start from. `reading` holds the knobs
    of the table `data`, as in `reading={"text_column": "body"}`; further knobs are as in a run file:
    `distill(…, seeds=3, train={"epochs": 5})`. Without `out` everything goes to a new temporary folder.
    """
    own = {} if objective is None else {"recipe": CUSTOM, "objective": to_table(objective)}
    run = run or Run(**knobs, data=dict(reading or {}))
    found = given(run, teacher, data, student, out, tokenizer, **own)
    with claimed(found.run.out, resume=resume) as folder:
        task = found.run.data.task
        job = distill_words if task in LANGUAGE_KINDS else distill_pairs if task in SEQ2SEQ_KINDS else _distill
        said = command or " ".join(sys.argv)
        return job(found, folder, callbacks, watcher or Silent(), said)


def _distill(
    asked_for: Given[Run], folder: Path, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Result:
    run = asked_for.run
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    check_recipe(run)
    material = gather(run, watcher, data=asked_for.data, teacher=asked_for.teacher)
    ready = prepare(run, material, watcher, asked_for.student)
    student = set_up(ready)
    agree(folder, student.ready.run, ready.fingerprints)
    watcher.say(student.start.origin)
    watcher.plan(_stages(student))
    asked = ask(material, [student], answers_place(run), watcher)
    student = student.taught(asked)
    teacher_home = settle(ready.teacher, folder / "teacher")
    if not asked.live:
        release(ready.teacher)
    outcomes: dict[str, list[Outcome]] = {}
    for cell in student.cells():
        outcomes.setdefault(cell.arm, []).append(train_cell(cell, folder / "arms", watcher, callbacks))
    findings = Findings(student.ready, asked.test, teacher_home, outcomes, folder, command)
    record = tell(findings, watcher, MEASURING)
    record = record.but(notes=[student.start.origin, *asked.notes, *record.notes])
    result = finish(record, outcomes, folder, load_saved)
    watcher.at(MEASURING, 1.0)
    return result


def _stages(student: Student) -> list[Stage]:
    ready = student.ready
    big = passed(ready.teacher.network)
    rows = sum(len(split) for split in ready.for_teacher.values())
    return [
        Stage(ASKING, big * rows),
        *(Stage(cell.title, student.cost(cell)) for cell in student.cells()),
        Stage(MEASURING, timing_cost(ready.run.measure, models=3)),
    ]
