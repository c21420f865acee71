"""A budget of time: the first steps of every lane are timed, and its epochs scaled so that all fit together.

The schedule of a lane is settled before it starts, so that its rate still rises and falls over all of its steps, and
every seed of it is trained alike. What a lane does not need goes to the others; none gets more than its recipe asks.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainingArguments

from limbeck.core.files import write_text
from limbeck.core.progress import Silent, Watcher
from limbeck.recipes.cell import Cell, train_cell
from limbeck.recipes.compare_lanes import Lane
from limbeck.recipes.phases import Phase
from limbeck.training.schedule import Schedule

TIMED = 12  # steps of each phase
WARM = 2  # of these do not count
FILE = "budget.json"


class Enough(Exception):
    """All phases are timed."""


class Stopwatch(TrainerCallback):
    """Ends every phase after a few steps, and the last one for good."""

    def __init__(self, phases: int) -> None:
        self.phases = phases
        self.marks: list[list[float]] = []  # of each phase: its begin and the end of each step

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        self.marks.append([time.perf_counter()])

    def on_step_end(self, args: TrainingArguments, state: Any, control: Any, **_: Any) -> None:
        self.marks[-1].append(time.perf_counter())
        if len(self.marks[-1]) > TIMED:
            if len(self.marks) == self.phases:
                raise Enough
            control.should_training_stop = True

    def seconds_per_step(self) -> list[float]:
        kept = [marks[WARM:] if len(marks) > WARM + 1 else marks for marks in self.marks]
        return [(marks[-1] - marks[0]) / (len(marks) - 1) for marks in kept]


def within(field: Sequence[Lane], minutes: float, folder: Path, watcher: Watcher) -> list[Lane]:
    """The lanes with their epochs scaled to the budget. What was settled once holds when a run is resumed."""
    file = folder / FILE
    scales = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if new := [lane for lane in field if lane.name not in scales]:
        watcher.say(f"timing the first steps of {', '.join(lane.name for lane in new) if scales else 'every column'}")
        # A column that was refused before finds the others settled: it gets its part of the budget, nothing of theirs.
        scales |= _scales(new, 60 * minutes * len(new) / len(field), folder / "timing")
        least = min(scales.values(), default=1.0)
        scales |= {lane.name: least for lane in new if lane.name not in scales}  # it may train when tried again
        write_text(file, json.dumps(scales))
    return [replace(lane, cells=tuple(scaled(cell, scales[lane.name]) for cell in lane.cells)) for lane in field]


def _scales(field: Sequence[Lane], seconds: float, folder: Path) -> dict[str, float]:
    """By how much the epochs of a lane are multiplied, so that all seeds and the timing itself take `seconds`.

    One that fails while it is timed is left out."""
    begun = time.perf_counter()
    needs = {lane.name: seconds_needed(lane.cells[0], folder) for lane in field}
    left = (seconds - (time.perf_counter() - begun)) / len(field[0].cells)
    found = shares(list(needs.values()), max(left, 0.0))
    return {name: share / need for (name, need), share in zip(needs.items(), found, strict=True) if need}


def shares(needs: Sequence[float], budget: float) -> list[float]:
    """Each the same, unless it needs less; what is left over goes to those that need more."""
    found = [0.0] * len(needs)
    order = sorted(range(len(needs)), key=lambda i: needs[i])
    for place, i in enumerate(order):
        found[i] = min(needs[i], budget / (len(order) - place))
        budget -= found[i]
    return found


def seconds_needed(cell: Cell, folder: Path) -> float:
    """How long a cell would train, by its first steps; 0 where it cannot train at all."""
    watch = Stopwatch(len(cell.plan.phases))
    quiet = [replace(phase, schedule=phase.schedule.but(evals_per_epoch=1)) for phase in cell.plan.phases]
    shutil.rmtree(folder, ignore_errors=True)  # of a run killed right here: what it trained would not be timed again
    try:
        # A cell that fails here fails again when its turn comes, and is told of then.
        with suppress(Exception):
            train_cell(replace(cell, plan=replace(cell.plan, phases=tuple(quiet))), folder, Silent(), [watch])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    timed = watch.seconds_per_step() if len(watch.marks) == watch.phases and len(watch.marks[-1]) > 1 else []
    return sum(_phase_seconds(cell, phase, each) for phase, each in zip(cell.plan.phases, timed, strict=False))


def _phase_seconds(cell: Cell, phase: Phase, step: float) -> float:
    """Steps, and measurements on the dev split: reading a row there takes a third of learning from it."""
    schedule = phase.schedule
    rows = schedule.batch_size * schedule.accumulate
    steps = math.ceil(len(cell.train) / rows) * schedule.epochs
    tests = schedule.epochs * schedule.evals_per_epoch * len(cell.exam.dev) / rows / 3 if phase.watched else 0.0
    return step * (steps + tests)


def scaled(cell: Cell, by: float) -> Cell:
    phases = tuple(replace(phase, schedule=_shorter(phase.schedule, by, len(cell.train))) for phase in cell.plan.phases)
    return replace(cell, plan=replace(cell.plan, phases=phases))


def _shorter(schedule: Schedule, by: float, rows: int) -> Schedule:
    """At least one step, and looked at twice at least."""
    if by >= 1.0:
        return schedule
    steps = math.ceil(rows / (schedule.batch_size * schedule.accumulate))
    epochs = max(schedule.epochs * by, 1 / steps)
    return schedule.but(epochs=epochs, evals_per_epoch=min(max(schedule.evals_per_epoch, math.ceil(2 / epochs)), steps))
