"""A budget of time: the first steps of every arm are timed, and its epochs scaled so that all fit together.

The schedule of an arm is settled before it starts, so that its rate still rises and falls over all of its steps, and
every seed of it is trained alike. What an arm does not need goes to the others; none gets more than its recipe asks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from transformers import TrainerCallback, TrainerControl

from limbeck.core.checksum import DamagedError, read_sealed, write_sealed
from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Silent, Watcher
from limbeck.jobs.plan import ArmPlan, Training, Trial
from limbeck.jobs.trial import remove, run_trial

TIMED = 12  # optimiser steps of each training
WARM = 2  # of these do not count
FILE = "budget.json"


class Enough(Exception):
    """All trainings are timed."""


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Ends every training after a few steps, and the last one for good."""

    def __init__(self, trainings: int) -> None:
        self.trainings = trainings
        self.marks: list[list[float]] = []  # of each training: its begin and the end of each step

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.marks.append([time.perf_counter()])

    def on_step_end(self, args: object, state: object, control: TrainerControl, **_: object) -> None:
        self.marks[-1].append(time.perf_counter())
        if len(self.marks[-1]) > TIMED:
            if len(self.marks) == self.trainings:
                raise Enough
            control.should_training_stop = True

    def seconds_per_step(self) -> list[float]:
        kept = [marks[WARM:] if len(marks) > WARM + 1 else marks for marks in self.marks]
        return [(marks[-1] - marks[0]) / (len(marks) - 1) for marks in kept]


def fit_to_budget(arms: Sequence[ArmPlan], minutes: float, folder: Path, watcher: Watcher) -> tuple[list[ArmPlan], str]:
    """The arms with their epochs scaled, and a note. What was settled once holds when a run is resumed."""
    file = folder / FILE
    scales = _settled_before(file)
    if new := [arm for arm in arms if arm.name not in scales]:
        watcher.say(f"timing the first steps of {', '.join(arm.name for arm in new) if scales else 'every column'}")
        # A column that was refused before finds the others settled: it gets its part of the budget, nothing of theirs.
        scales |= _scales(new, 60 * minutes * len(new) / len(arms), folder / "timing")
        least = min(scales.values(), default=1.0)
        scales |= {arm.name: least for arm in new if arm.name not in scales}  # it may train when tried again
        write_sealed(file, scales)
    found = [
        arm.with_trainings(_shorter(step, scales[arm.name], arm.data.count(step.targets)) for step in arm.trainings)
        for arm in arms
    ]
    got = "; ".join(f"{new.name} {new.epochs:.3g} of {old.epochs:.3g}" for old, new in zip(arms, found, strict=True))
    return found, f"A budget of {minutes:g} min was shared out. Epochs trained: {got}."


def _settled_before(file: Path) -> dict[str, float]:
    try:
        return read_sealed(file) if file.exists() else {}
    except DamagedError as error:
        raise LimbeckError(
            f"{file} is damaged: {error}",
            "delete it, and columns that are not finished are timed again; or choose another folder with --out",
        ) from None


def _scales(arms: Sequence[ArmPlan], seconds: float, folder: Path) -> dict[str, float]:
    """By how much the epochs of an arm are multiplied, so that all seeds and the timing itself take `seconds`.

    One that fails while it is timed is left out."""
    begun = time.perf_counter()
    needs = {arm.name: seconds_needed(Trial(arm, arm.run.seed_list[0]), folder) for arm in arms}
    left = (seconds - (time.perf_counter() - begun)) / len(arms[0].run.seed_list)
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


def seconds_needed(trial: Trial, folder: Path) -> float:
    """How long a trial would train, by its first steps; 0 where it cannot train at all."""
    arm = trial.arm
    watch = Stopwatch(len(arm.trainings))
    quiet = [replace(step, schedule=step.schedule.but(evals_per_epoch=1), evals=0) for step in arm.trainings]
    remove(folder)  # of a run killed right here: what it trained would not be timed again
    try:
        # A trial that fails here fails again when its turn comes, and is told of then.
        with suppress(Exception):
            run_trial(replace(trial, arm=arm.with_trainings(quiet)), folder, Silent(), [watch])
    finally:
        remove(folder)
    timed = watch.seconds_per_step() if len(watch.marks) == watch.trainings and len(watch.marks[-1]) > 1 else []
    return sum(_training_seconds(arm, step, each) for step, each in zip(arm.trainings, timed, strict=False))


def _training_seconds(arm: ArmPlan, step: Training, seconds: float) -> float:
    """Steps, and evaluations on dev: a row there takes a third of learning from it."""
    schedule, rows = step.schedule, step.schedule.batch_size * step.schedule.accumulate
    steps = math.ceil(arm.data.count(step.targets) / rows) * schedule.epochs
    tests = step.measurements * len(arm.data.evaluator.dev) / rows / 3
    return seconds * (steps + (tests if step.evaluated else 0.0))


def _shorter(step: Training, by: float, rows: int) -> Training:
    """At least one step, and evaluated twice at least."""
    if by >= 1.0:
        return step
    schedule = step.schedule
    steps = math.ceil(rows / (schedule.batch_size * schedule.accumulate))
    epochs = max(schedule.epochs * by, 1 / steps)
    evals = min(max(schedule.evals_per_epoch, math.ceil(2 / epochs)), steps)
    most = max(round(schedule.max_steps * by), 1) if schedule.max_steps else 0
    return replace(step, schedule=schedule.but(epochs=epochs, max_steps=most, evals_per_epoch=evals))
