"""One arm with one seed: built, taken through its steps, evaluated and saved. What is finished is never done again.

Each step leaves a folder when it is done: weights, mask, and `done.json`, which is written last. A run that is killed
goes on behind the last finished step, inside a training from its last complete checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_model, save_model
from transformers import PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.compress import Mask
from limbeck.core.files import atomic, explained, write_text
from limbeck.core.progress import Watcher
from limbeck.core.record import CurvePoint, Disagreement, SeedResult
from limbeck.core.tap import install, uninstall
from limbeck.core.trace import ATTENTION_PARTS, Batch
from limbeck.data.batches import to_batch
from limbeck.jobs.plan import PlannedStep, Training, Trial
from limbeck.recipes.recipe import Apply, Rewind, Snapshot
from limbeck.students.load import name_outputs
from limbeck.students.reading import quiet
from limbeck.training.bridges import add_bridges, drop_bridges
from limbeck.training.callbacks import HoldMask, Watch, switching
from limbeck.training.trainer import Distiller

CALIBRATION_BATCH = 32  # rows
RESULT, DONE, WEIGHTS, MASK = "result.json", "done.json", "weights.safetensors", "mask.safetensors"


@dataclass(frozen=True)
class TrialResult:
    """What is kept of a finished trial."""

    result: SeedResult
    statistics: np.ndarray  # as in Evaluation
    dev_score: float  # by which the best seed is chosen, so that the test set stays unseen; higher is better
    model: Path
    disagreements: list[Disagreement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """What the steps before took, and what they logged."""

    seconds: float = 0.0
    epochs: float = 0.0
    steps: int = 0
    curve: tuple[CurvePoint, ...] = ()
    notes: tuple[str, ...] = ()
    best_step: int = 0  # whose weights the model has, of all steps so far
    dev_score: float | None = None  # of these weights; None where they changed since dev was measured

    def after(self, done: dict[str, Any]) -> Progress:
        """With what a finished step left in its folder."""
        later = [CurvePoint(**point) for point in done["curve"]]
        shifted = (
            point.model_copy(update={"step": point.step + self.steps, "epoch": point.epoch + self.epochs})
            for point in later
        )
        return Progress(
            self.seconds + done["seconds"],
            self.epochs + done["epochs"],
            self.steps + done["steps"],
            (*self.curve, *shifted),
            (*self.notes, *done["notes"]),
            self.steps + done["best_step"] if done["best_step"] else self.best_step,
            done["dev_score"] if done["changed"] else self.dev_score,
        )


def run_trial(trial: Trial, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback] = ()) -> TrialResult:
    home = folder / trial.name
    if not (home / RESULT).exists():
        _train(trial, home, watcher, callbacks)
    for leftover in (*home.glob("checkpoints*"), *home.glob("step-*")):  # also of one killed right before this
        shutil.rmtree(leftover, ignore_errors=True)
    watcher.at(trial.title, 1.0)
    kept = json.loads((home / RESULT).read_text(encoding="utf-8"))
    return TrialResult(
        SeedResult(**kept["result"]),
        load_file(home / "test.safetensors")["statistics"],
        kept["dev_score"],
        home / "model",
        [Disagreement(**one) for one in kept["disagreements"]],
        kept["notes"],
    )


def _train(trial: Trial, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> None:
    arm, work = trial.arm, _Work(trial, home, watcher, callbacks)
    set_seed(trial.seed)
    model = arm.start.build()
    if not arm.data.info.over_vocabulary:
        name_outputs(model.config, arm.data.info)
    add_bridges(model, arm.bridges)
    if any(step.student_request.want & ATTENTION_PARTS for step in arm.trainings):
        install(model)
    mask, past = Mask(), Progress()
    with explained(home), quiet():
        for number, step in enumerate(arm.steps):
            last = number == len(arm.steps) - 1
            mask, past = work.step(number, step, model, mask, past, last)
        work.save(model, mask, past)


class _Work:
    """A trial on its way."""

    def __init__(self, trial: Trial, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> None:
        self.trial, self.home, self.watcher, self.callbacks = trial, home, watcher, callbacks

    def step(
        self, number: int, step: PlannedStep, model: PreTrainedModel, mask: Mask, past: Progress, last: bool
    ) -> tuple[Mask, Progress]:
        """Takes the model through a step, or takes what the step left behind."""
        folder = self._folder(number)
        if not (folder / DONE).exists():
            mask, done = self._do(number, step, model, mask, past)
            if last:
                return mask, past.after(done)  # the finished trial is its trace
            self._leave(folder, model, mask, done)
            shutil.rmtree(self._checkpoints(number), ignore_errors=True)
        else:
            load_model(model, folder / WEIGHTS)
            mask = Mask.load(folder / MASK) if (folder / MASK).exists() else Mask()
        return mask, past.after(json.loads((folder / DONE).read_text(encoding="utf-8")))

    def _do(
        self, number: int, step: PlannedStep, model: PreTrainedModel, mask: Mask, past: Progress
    ) -> tuple[Mask, dict[str, Any]]:
        done: dict[str, Any] = {"seconds": 0.0, "epochs": 0.0, "steps": 0, "curve": [], "notes": []}
        done |= {"best_step": 0, "dev_score": None, "changed": not isinstance(step, Snapshot)}
        if isinstance(step, Training):
            trainer = self._trainer(number, step, model, mask, past)
            trainer.train(resume_from_checkpoint=trainer.last_complete_checkpoint())
            state = trainer.state
            return mask, done | {
                "seconds": trainer.seconds,
                "epochs": state.epoch,
                "steps": state.global_step,
                "curve": [point.model_dump() for point in trainer.curve()],
                "best_step": state.best_global_step or state.global_step,
                "dev_score": (state.best_metric or 0.0) * self._sign,
            }
        if isinstance(step, Apply):
            change = step.compress.apply(model, mask, self._calibration(step.calibrate))
            return change.mask, {**done, "notes": [change.note]}
        if isinstance(step, Rewind):
            load_model(model, self._snapshot(step.to, before=number) / WEIGHTS)
            mask.hold(model)
        return mask, done

    def _trainer(self, number: int, step: Training, model: PreTrainedModel, mask: Mask, past: Progress) -> Distiller:
        arm, data = self.trial.arm, self.trial.arm.data
        part = (past.epochs / arm.epochs, step.schedule.epochs / arm.epochs)
        watch = Watch(self.watcher, self.trial.title, data.info.metric, part)
        held = [HoldMask(mask)] if mask.live else []
        return Distiller(
            model,
            objective=step.objective,
            teacher=step.teacher,
            task=data.info,
            schedule=step.schedule,
            train=data.train(step.targets),
            dev=data.evaluator.dev,
            collate=data.evaluator.collate,
            folder=self._checkpoints(number),
            seed=self.trial.seed,
            request=step.student_request,
            focus=step.focus,
            best=step.evaluated,
            **(data.evaluator.while_training() if step.evaluated else {}),
            callbacks=[*held, watch, *switching(step.teacher), *self.callbacks],
        )

    def _calibration(self, rows: int) -> Iterator[Batch]:
        """Training rows, for a pass that looks at data."""
        data = self.trial.arm.data
        train = data.train("")
        for first in range(0, min(rows, len(train)), CALIBRATION_BATCH):
            chosen = range(first, min(first + CALIBRATION_BATCH, rows, len(train)))
            yield to_batch(data.evaluator.collate([train[row] for row in chosen]), data.info)

    def save(self, model: PreTrainedModel, mask: Mask, past: Progress) -> None:
        """Model, statistics and figures; the result comes last, so that what has one is whole."""
        arm = self.trial.arm
        model = model.cpu().eval()
        drop_bridges(model)
        uninstall(model)
        model.save_pretrained(self.home / "model")
        (arm.processor or arm.data.processor).save_pretrained(self.home / "model")
        if mask.live:
            mask.save(self.home / MASK)
        found = arm.data.evaluator.test(model)
        with atomic(self.home / "test.safetensors") as part:
            save_file({"uids": found.uids, "statistics": found.statistics}, part)
        dev_score = past.dev_score
        if dev_score is None:
            dev_score = arm.data.evaluator.dev_metrics(model)[arm.data.info.metric] * self._sign
        result = found.result(self.trial.seed).model_copy(
            update={
                "curve": list(past.curve),
                "seconds": past.seconds,
                "best_step": past.best_step,
                "sentences_per_second": past.epochs * arm.rows / past.seconds if past.seconds else 0.0,
            }
        )
        kept = {
            "result": result.model_dump(),
            "dev_score": dev_score,
            "disagreements": [one.model_dump() for one in found.disagreements],
            "notes": list(past.notes),
        }
        write_text(self.home / RESULT, json.dumps(kept))

    @property
    def _sign(self) -> int:
        return 1 if self.trial.arm.data.info.higher_is_better else -1

    def _leave(self, folder: Path, model: PreTrainedModel, mask: Mask, done: dict[str, Any]) -> None:
        """The step's last file tells that all is there."""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic(folder / WEIGHTS) as part:
            save_model(model, str(part))
        if mask.live:
            mask.save(folder / MASK)
        write_text(folder / DONE, json.dumps(done))

    def _folder(self, number: int) -> Path:
        step = self.trial.arm.steps[number]
        name = step.name if isinstance(step, Training | Snapshot) else type(step).__name__.lower()
        return self.home / f"step-{number:02d}-{name}"

    def _checkpoints(self, number: int) -> Path:
        return self.home / f"checkpoints-{number:02d}"

    def _snapshot(self, name: str, before: int) -> Path:
        """The last one of that name; in a Repeat there are several."""
        steps = self.trial.arm.steps[:before]
        return self._folder(max(n for n, step in enumerate(steps) if step == Snapshot(name)))
