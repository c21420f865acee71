"""Distilling a translator: the teacher translates, the student learns to write, with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import TrainerCallback

from limbeck.core.progress import Stage, Watcher
from limbeck.recipes.asked_pairs import ask_pairs
from limbeck.recipes.cell import Outcome, train_cell
from limbeck.recipes.compare_lanes import lanes
from limbeck.recipes.folder import agree
from limbeck.recipes.given import Given
from limbeck.recipes.ground import gather_pairs
from limbeck.recipes.job import ASKING, MEASURING, Result, answers_place, finish, passed, release, timing_cost
from limbeck.recipes.prepare import check_recipe
from limbeck.recipes.run import Run
from limbeck.recipes.tell import settle
from limbeck.recipes.tell_compare import Contest, tell_compare
from limbeck.recipes.tell_pairs import with_translations
from limbeck.recipes.writer import set_up_writer
from limbeck.students.load import load_saved

DISTILLED, PLAIN = "distilled", "plain"


def distill_pairs(
    asked_for: Given[Run], folder: Path, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Result:
    if asked_for.run.train.threads:
        torch.set_num_threads(asked_for.run.train.threads)
    check_recipe(asked_for.run)
    ground = gather_pairs(asked_for.run, watcher, data=asked_for.data, teacher=asked_for.teacher)
    writer = set_up_writer(asked_for.run, ground, asked_for.student)
    run, teacher = writer.run, ground.teacher
    agree(folder, run, writer.fingerprints)
    watcher.say(writer.start.origin)
    cost = passed(teacher.network) * ground.rows if teacher else 0.0
    watcher.plan(
        [
            Stage(ASKING, cost),
            *(Stage(cell.title, writer.cost(cell)) for cell in writer.cells()),
            Stage(MEASURING, timing_cost(run.measure, models=4)),
        ]
    )
    asked = ask_pairs(ground, [writer], answers_place(run), watcher)
    writer = writer.taught(asked)
    home = settle(teacher, folder / "teacher") if teacher else None
    for way in ground.ways if not asked.live else ():
        release(way.teacher)
    outcomes: dict[str, list[Outcome]] = {}
    for cell in writer.cells():
        outcomes.setdefault(cell.arm, []).append(train_cell(cell, folder / "arms", watcher, callbacks))
    field = lanes({DISTILLED: writer}, called=lambda _: PLAIN)
    contest = Contest(run, [DISTILLED], 0.0, ground, field, outcomes, asked.test, home, [], folder, command)
    record = tell_compare(contest, watcher, MEASURING, asked.notes).but(kind="distill")
    result = finish(with_translations(contest, record, watcher), outcomes, folder, load_saved)
    watcher.at(MEASURING, 1.0)
    return result
