"""The main job: ask the teacher once, train the student with and without it, measure all three, say what came of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import KnobError
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.task import OF_TOKENS
from limbeck.recipes.asked import ask
from limbeck.recipes.cell import Outcome, train_cell
from limbeck.recipes.folder import agree, claimed
from limbeck.recipes.job import ASKING, MEASURING, Result, finish, passed, timing_cost
from limbeck.recipes.language import distill_words
from limbeck.recipes.prepare import Model, check_recipe, gather, prepare
from limbeck.recipes.recipe import to_table
from limbeck.recipes.run import CUSTOM, Run
from limbeck.recipes.student import Student, set_up
from limbeck.recipes.tell import Findings, settle, tell
from limbeck.students.saved import open_saved
from limbeck.students.shrink import Shrink


def distill(
    teacher: str | Path | PreTrainedModel | Model = "",
    data: object = None,
    student: Shrink | str | Path | PreTrainedModel | Model | None = None,
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
    run = run or Run(**knobs, data=dict(reading or {}))
    given: dict[str, Any] = {"out": str(out)} if out else {}
    taught, where = _given(teacher, tokenizer)
    started: Model | None = None
    if where:
        given["teacher"] = where
    if isinstance(student, Shrink):
        given["student"] = student.model_dump()
    elif student is not None:
        started, where = _given(student, tokenizer)
        given |= {"student_from": where} if where else {}
    if objective is not None:
        given |= {"recipe": CUSTOM, "objective": to_table(objective)}
    if isinstance(data, str | Path):
        given["data"] = run.data.but(train=str(data)).model_dump()
        data = None
    run = run.but(**given)
    if not run.out:
        run = run.but(out=tempfile.mkdtemp(prefix="limbeck-"))
    with claimed(run.out, resume=resume) as folder:
        job = distill_words if run.data.task in OF_TOKENS else _distill
        return job(run, folder, data, taught, started, callbacks, watcher or Silent(), command or " ".join(sys.argv))


def _given(model: Any, tokenizer: Any) -> tuple[Model | None, str]:
    """A model in hand, or the place of one."""
    if isinstance(model, str | Path):
        return None, str(model)
    if not isinstance(model, Model | PreTrainedModel):
        raise KnobError(
            f"a {type(model).__name__} is not a model",
            "give a folder, a hub id, a model of transformers, or, for the student, a Shrink: Shrink(layers=3)",
        )
    given = model if isinstance(model, Model) else Model(model, tokenizer)
    if given.tokenizer is None:
        raise KnobError(
            f"the {type(given.network).__name__} came without its tokenizer", "give it too, as in tokenizer=tokenizer"
        )
    return given, ""


def _distill(
    run: Run,
    folder: Path,
    data: object,
    taught: Model | None,
    started: Model | None,
    callbacks: Sequence[TrainerCallback],
    watcher: Watcher,
    command: str,
) -> Result:
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    check_recipe(run)
    material = gather(run, watcher, data=data, teacher=taught)
    ready = prepare(run, material, watcher, started)
    student = set_up(ready)
    agree(folder, student.ready.run, ready.fingerprints)
    watcher.say(student.start.origin)
    watcher.plan(_stages(student))
    asked = ask(material, [student], Path(run.teach.cache or folder / "teacher-answers"), watcher)
    student = student.taught(asked)
    teacher_home = settle(ready.teacher, folder / "teacher")
    if ready.teacher.where and not asked.live:
        ready.teacher.network.to("meta")  # all is asked: its memory goes to the student
    outcomes: dict[str, list[Outcome]] = {}
    for cell in student.cells():
        outcomes.setdefault(cell.name.split("-")[0], []).append(train_cell(cell, folder / "arms", watcher, callbacks))
    findings = Findings(student.ready, asked.test, teacher_home, outcomes, folder, command)
    record = tell(findings, watcher, MEASURING)
    record = record.but(notes=[student.start.origin, *asked.notes, *record.notes])
    result = finish(record, outcomes, folder, open_saved)
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
