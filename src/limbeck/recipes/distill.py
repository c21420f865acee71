"""The main job: ask the teacher once, train the student with and without it, measure all three, say what came of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import KnobError
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.task import OF_TOKENS
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.data.encode import Collator, Encoded, batches, encode
from limbeck.recipes.cell import Cell, Outcome, TextExam, predict_split, train_cell
from limbeck.recipes.folder import agree, claimed
from limbeck.recipes.job import (
    ASKING,
    MEASURING,
    Result,
    Start,
    cells,
    finish,
    passed,
    start_from,
    start_shrunk,
    timing_cost,
)
from limbeck.recipes.language import distill_words
from limbeck.recipes.prepare import SPLITS, Model, Prepared, prepare
from limbeck.recipes.recipe import to_table
from limbeck.recipes.run import CUSTOM, Run
from limbeck.recipes.tell import Findings, settle, tell
from limbeck.students.open import open_classifier, open_encoder, shape_of
from limbeck.students.shrink import Shrink
from limbeck.teachers.cache import Cache
from limbeck.teachers.live import LiveTeacher


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
    ready = prepare(run, watcher, data=data, teacher=taught, student=started)
    start = _start(ready)
    ready = replace(
        ready, run=ready.run.but(train=ready.run.train.at_width(shape_of(start.network).hidden, ready.task))
    )
    agree(folder, ready.run, ready.fingerprints)
    watcher.say(start.origin)
    watcher.plan(_stages(ready, start))
    teacher, teacher_logits = _ask(ready, folder, watcher)
    ready = _with_dev_labels(ready, teacher_logits["dev"])
    teacher_home = settle(ready.teacher, folder / "teacher")
    if ready.teacher.where and not ready.run.teach.live:
        ready.teacher.network.to("meta")  # all is asked: its memory goes to the student
    outcomes: dict[str, list[Outcome]] = {}
    for cell in _cells(ready, start, teacher):
        outcomes.setdefault(cell.name.split("-")[0], []).append(train_cell(cell, folder / "arms", watcher, callbacks))
    findings = Findings(ready, teacher_logits["test"], teacher_home, outcomes, folder, command)
    record = tell(findings, watcher, MEASURING)
    record = record.but(notes=[start.origin, *record.notes])
    result = finish(record, outcomes, folder, open_classifier)
    watcher.at(MEASURING, 1.0)
    return result


def _cells(ready: Prepared, start: Start, teacher: Teacher) -> list[Cell]:
    return cells(
        ready.run,
        start,
        ready.tokenizer,
        ready.task,
        ready.objective,
        teacher,
        ready.for_student["train"],
        TextExam(ready.task, ready.tokenizer, ready.for_student),
        baseline=bool(ready.corpus.train.labelled.any()),
    )


def _start(ready: Prepared) -> Start:
    given = ready.student
    if given is None:
        return start_shrunk(ready.run.student, ready.teacher.network)
    reopened = partial(open_encoder, given.where, ready.task, ready.run.trust_remote_code)
    return start_from(given, lambda: reopened()[0])


def _stages(ready: Prepared, start: Start) -> list[Stage]:
    """Costs in rows × parameters through which they pass: a training step is three passes."""
    big, small = passed(ready.teacher.network), passed(start.network)
    rows = {name: len(getattr(ready.corpus, name)) for name in SPLITS}
    train, schedule = ready.run.train, rows["train"] * ready.run.train.epochs
    each = small * (3 * schedule + rows["dev"] * train.epochs * train.evals_per_epoch + rows["test"])
    live = big * schedule if ready.run.teach.live else 0.0
    stages = [Stage(ASKING, big * sum(rows.values()))]
    stages += [
        Stage(cell.title, each + (live if "distilled" in cell.name else 0.0))
        for cell in _cells(ready, start, NoTeacher())
    ]
    return [
        *stages,
        Stage(MEASURING, timing_cost(ready.run.measure, models=3)),
    ]


def _ask(ready: Prepared, folder: Path, watcher: Watcher) -> tuple[Teacher, dict[str, np.ndarray]]:
    """The teacher to train with, and what it says of dev and test."""
    live = LiveTeacher(ready.teacher.network)
    if ready.run.teach.live:
        logits = {name: _predict(ready, ready.for_teacher[name]) for name in ("dev", "test")}
        watcher.at(ASKING, 1.0)
        return live, logits
    about = {name: ready.fingerprints[name] for name in ("teacher", "tokenizer", "data")}
    cache = Cache(ready.run.teach.cache or folder / "teacher-answers", about)
    for path in cache.damaged:
        watcher.say(f"{path} was damaged and is asked again")
    total = sum(len(ready.for_teacher[name]) for name in SPLITS)
    before = len(cache.uids)
    for name in SPLITS:
        split = ready.for_teacher[name]
        missing = np.flatnonzero(cache.lacks(torch.from_numpy(split.examples.uids)).numpy())
        if len(missing) < len(split):
            split = encode(split.examples.take(missing), ready.teacher.tokenizer, ready.run.data.max_length)
        asked = batches(split, Collator(ready.teacher.tokenizer, ready.task), ready.run.teach.batch_size)
        cache.fill(live, asked, on_rows=lambda rows, done=before: watcher.at(ASKING, (done + rows) / total))  # type: ignore[misc]
        before += len(split)
    watcher.at(ASKING, 1.0)
    teacher = cache.teacher()
    return teacher, {
        name: teacher.look_up(torch.from_numpy(getattr(ready.corpus, name).uids)).numpy() for name in ("dev", "test")
    }


def _predict(ready: Prepared, split: Encoded) -> np.ndarray:
    return predict_split(ready.teacher.network, ready.teacher.tokenizer, ready.task, split)


def _with_dev_labels(ready: Prepared, teacher_dev: np.ndarray) -> Prepared:
    """A dev set without labels takes the teacher's answers for them, so that early stopping has something to watch."""
    dev = ready.for_student["dev"]
    if dev.examples.labelled.any():
        return ready
    if ready.task.kind == "classify":
        labels = teacher_dev.argmax(-1)
    else:
        labels = (teacher_dev > 0).astype(np.float32) if ready.task.kind == "multilabel" else teacher_dev[:, 0]
    examples = replace(dev.examples, labels=labels, labelled=np.ones(len(dev), dtype=bool))
    dev = encode(examples, ready.tokenizer, ready.run.data.max_length)
    return replace(ready, for_student={**ready.for_student, "dev": dev})
