"""One arm with one seed: built, taken through its steps, evaluated and saved. What is finished is never done again.

Each step leaves a folder when it is done: weights, mask, and `done.json`, which is written last. A run that is killed
goes on behind the last finished step, inside a training from its last complete checkpoint. Only the main process
writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import BaseModel, Field
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_model, save_model
from transformers import PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.checksum import FILES, DamagedError, check_files, checksums, read_sealed, write_sealed
from limbeck.core.compress import Calibration, Mask
from limbeck.core.device import find_device
from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic, explained
from limbeck.core.process import barrier, is_main
from limbeck.core.progress import Watcher
from limbeck.core.record import CurvePoint, Disagreement, SeedResult
from limbeck.core.tap import install, uninstall
from limbeck.core.trace import ATTENTION_PARTS, Batch
from limbeck.data.batches import Split, to_batch
from limbeck.jobs.plan import ArmPlan, PlannedStep, Training, Trial
from limbeck.recipes.recipe import Apply, Rewind, Snapshot
from limbeck.students.load import name_outputs
from limbeck.students.model_folder import quiet, save_folder
from limbeck.tasks.base import EncodedData
from limbeck.training.bridges import add_bridges, drop_bridges
from limbeck.training.callbacks import HoldMask, Watch, check_checkpoint, switching
from limbeck.training.standardise import Scale, final_linear, start_at_mean
from limbeck.training.trainer import Distiller

CALIBRATION_BATCH = 32  # rows
RESULT, TEST, DONE, FAILED = "result.json", "test.safetensors", "done.json", "failed.txt"
WEIGHTS, MASK = "weights.safetensors", "mask.safetensors"


class TrialResult(BaseModel, frozen=True, arbitrary_types_allowed=True):
    """What is kept of a finished trial."""

    result: SeedResult
    dev_score: float  # by which the best seed is chosen, so that the test set stays unseen; higher is better
    disagreements: Sequence[Disagreement] = ()
    notes: Sequence[str] = ()
    statistics: np.ndarray = Field(exclude=True)  # as in Evaluation; in a file of their own
    model: Path = Field(exclude=True)

    @classmethod
    def load(cls, home: Path) -> TrialResult:
        kept = read_sealed(home / RESULT)
        check_files(home, kept.pop(FILES, {}))
        return cls(**kept, statistics=load_file(home / TEST)["statistics"], model=home / "model")


class Progress(BaseModel, frozen=True):
    """What the steps so far took, and what they logged."""

    seconds: float = 0.0
    epochs: float = 0.0
    steps: int = 0
    curve: list[CurvePoint] = []
    notes: list[str] = []
    best_step: int = 0  # whose weights the model has, of all steps so far
    dev_score: float | None = None  # of these weights; None where dev was not measured since they changed

    def after(self, trainer: Distiller, sign: int) -> Progress:
        """With a finished training. `sign` is -1 where a lower metric is better."""
        state = trainer.state
        later = [
            point.model_copy(update={"step": point.step + self.steps, "epoch": point.epoch + self.epochs})
            for point in trainer.curve()
        ]
        return Progress(
            seconds=self.seconds + trainer.seconds,
            epochs=self.epochs + state.epoch,
            steps=self.steps + state.global_step,
            curve=[*self.curve, *later],
            notes=self.notes,
            best_step=self.steps + (state.best_global_step or state.global_step),
            dev_score=None if state.best_metric is None else sign * state.best_metric,
        )


def run_trial(trial: Trial, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback] = ()) -> TrialResult:
    home = folder / trial.name
    if is_main():
        (home / FAILED).unlink(missing_ok=True)  # what failed before is tried again
    found = None
    if (home / RESULT).exists():
        with _mended(home, f"{trial.title} is trained again", watcher):
            found = TrialResult.load(home)
    if found is None:
        found = _train(trial, home, watcher, callbacks)
    for leftover in (*home.glob("checkpoints*"), *home.glob("step-*")):  # also of one killed right before this
        remove(leftover)
    watcher.at(trial.title, 1.0)
    return found


def _train(trial: Trial, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> TrialResult:
    arm = trial.arm
    set_seed(trial.seed)
    model = arm.start.build()
    if not arm.data.info.over_vocabulary:
        name_outputs(model.config, arm.data.info)
    add_bridges(model, arm.bridges)
    if any(step.student_request.want & ATTENTION_PARTS for step in arm.trainings):
        install(model)
    scale, notes = _start_in_units(model, arm.data)
    before = _before(model, arm)
    work = _TrialRunner(trial, home, watcher, callbacks, model, scale, before, progress=Progress(notes=notes))
    with explained(home), quiet():
        for number, step in enumerate(arm.steps):
            work.step(number, step)
        return work.finish()


def _start_in_units(model: PreTrainedModel, data: EncodedData) -> tuple[Scale | None, list[str]]:
    """Of a regression: the scale of its labels, at whose mean a new head starts; and a note where it has no use."""
    if data.info.kind != "regress":
        return None, []
    rows = cast(Split, data.train(""))
    if not rows.has_label.any():
        rows = cast(Split, data.evaluator.dev)  # where the teacher's answers stand for labels
    scale = Scale.of(rows.labels[rows.has_label])
    if start_at_mean(model, scale):
        return scale, []
    why = f"a {type(model).__name__} has no final linear layer with a bias"
    return None, [f"The labels are not standardised while training: {why}."]


def _before(model: PreTrainedModel, arm: ArmPlan) -> dict[str, float]:
    """Dev before the first step, where it is measured later too. A new translator would write nonsense, at length."""
    if arm.data.info.is_seq2seq or not any(step.evaluated for step in arm.trainings):
        return {}
    model.to(find_device(arm.run.train.device))
    return {name: value for name, value in arm.data.evaluator.dev_metrics(model).items() if name != "loss"}


@contextmanager
def _mended(folder: Path, remedy: str, watcher: Watcher) -> Iterator[None]:
    """Deletes what a step or a trial left behind if it turns out damaged, and says so: it is computed again."""
    try:
        yield
    except (DamagedError, OSError, ValueError, KeyError, SafetensorError, MismatchError) as error:
        watcher.say(f"{folder} is damaged, so {remedy}: {error}")
        remove(folder)


def remove(folder: Path) -> None:
    if is_main():
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _TrialRunner:
    """Takes a model and its mask through the steps of a trial, each resumable by itself."""

    trial: Trial
    home: Path
    watcher: Watcher
    callbacks: Sequence[TrainerCallback]
    model: PreTrainedModel
    scale: Scale | None = None  # of a regression's labels
    before: Mapping[str, float] = field(default_factory=dict)  # dev before the first step
    mask: Mask = field(default_factory=Mask)
    progress: Progress = field(default_factory=Progress)

    def step(self, number: int, step: PlannedStep) -> None:
        """Takes the model through a step, or takes what the step left behind."""
        folder, done = self._folder(number), False
        if (folder / DONE).exists():
            with _mended(folder, "this step is run again", self.watcher):
                self._load_step(folder)
                done = True
        if not done:
            self._run_step(number, step)
            if number + 1 < len(self.trial.arm.steps):  # the last step needs no folder: result.json marks it done
                self._save_step(folder)
                remove(self._checkpoints(number))
        barrier()  # a later step of another process may need what this one left

    def _run_step(self, number: int, step: PlannedStep) -> None:
        if isinstance(step, Training):
            trainer = self._trainer(number, step)
            newest = trainer.last_complete_checkpoint()
            if newest:
                with _mended(self._checkpoints(number), "this training begins anew", self.watcher):
                    check_checkpoint(Path(newest))
                trainer.accelerator.wait_for_everyone()
            trainer.train(resume_from_checkpoint=newest if newest and Path(newest).exists() else None)
            self.progress = self.progress.after(trainer, self._sign)
        elif isinstance(step, Apply):
            change = step.compress.apply(self.model, self.mask, self._calibration(step.calibrate))
            self.mask = change.mask
            self._changed([*self.progress.notes, change.note])
        elif isinstance(step, Rewind):
            # The last snapshot of that name: in a Repeat there are several.
            taken = [n for n, other in enumerate(self.trial.arm.steps[:number]) if other == Snapshot(step.to)]
            load_model(self.model, self._folder(taken[-1]) / WEIGHTS)
            self.mask.hold(self.model)
            self._changed(self.progress.notes)

    def _changed(self, notes: list[str]) -> None:
        """The weights are no longer those that dev was measured with."""
        self.progress = self.progress.model_copy(update={"notes": notes, "dev_score": None})

    def _trainer(self, number: int, step: Training) -> Distiller:
        arm, data = self.trial.arm, self.trial.arm.data
        (dev, test), batch = data.evaluator.passes, step.schedule.batch_size * step.schedule.accumulate
        learnt = 3 * arm.rows * arm.epochs  # a training step is three passes
        share = learnt / (learnt + test * data.evaluator.test_rows) / arm.epochs  # of an epoch, beside the test
        part = (share * self.progress.epochs, share * step.schedule.epochs)
        eval_steps = dev * len(data.evaluator.dev) / (3 * batch)
        watch = Watch(self.watcher, self.trial.title, data.info.metric, part, eval_steps)
        held = [HoldMask(self.mask)] if self.mask.live else []
        return Distiller(
            self.model,
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
            evals=step.evals,
            scale=self.scale if final_linear(self.model) else None,
            **(data.evaluator.while_training() if step.evaluated else {}),
            callbacks=[*held, watch, *switching(step.teacher), *self.callbacks],
        )

    def _calibration(self, rows: int) -> Calibration:
        """Training rows, for a pass that looks at data."""
        data = self.trial.arm.data
        train, batches = data.train(""), list[Batch]()
        for first in range(0, min(rows, len(train)), CALIBRATION_BATCH):
            chosen = range(first, min(first + CALIBRATION_BATCH, rows, len(train)))
            batches.append(to_batch(data.evaluator.collate([train[row] for row in chosen]), data.info))
        return Calibration(batches, processor=self.trial.arm.processor or data.processor)

    def finish(self) -> TrialResult:
        """Saves the model, measures it on the test split, and saves what came of it."""
        arm, past, data = self.trial.arm, self.progress, self.trial.arm.data
        model = self.model.cpu().eval()
        drop_bridges(model)
        uninstall(model)
        if is_main():
            save_folder(model, arm.processor or data.processor, self.home / "model")
        if self.mask.live:
            self.mask.save(self.home / MASK)
        model = model.to(find_device(arm.run.train.device))
        found = data.evaluator.test(model)
        pace = past.epochs * arm.rows / past.seconds if past.seconds else 0.0
        took = {"seconds": past.seconds, "best_step": past.best_step, "sentences_per_second": pace}
        result = found.result(self.trial.seed).model_copy(
            update={"before": dict(self.before), "curve": past.curve, **took}
        )
        dev_score = past.dev_score
        if dev_score is None:
            dev_score = self._sign * data.evaluator.dev_metrics(model)[data.info.metric]
        whole = TrialResult(
            result=result,
            dev_score=dev_score,
            disagreements=found.disagreements,
            notes=past.notes,
            statistics=found.statistics,
            model=self.home / "model",
        )
        with atomic(self.home / TEST) as part:
            save_file({"uids": found.uids, "statistics": found.statistics}, part)
        if is_main():  # last, so that what has one is whole
            write_sealed(self.home / RESULT, {**whole.model_dump(), FILES: checksums(self.home, "model", TEST, MASK)})
        barrier()
        return whole

    @property
    def _sign(self) -> int:
        return 1 if self.trial.arm.data.info.higher_is_better else -1

    def _save_step(self, folder: Path) -> None:
        """The step's last file tells that all is there."""
        with atomic(folder / WEIGHTS) as part:
            save_model(self.model, str(part))
        if self.mask.live:
            self.mask.save(folder / MASK)
        if is_main():
            write_sealed(folder / DONE, {**self.progress.model_dump(), FILES: checksums(folder, leave=DONE)})

    def _load_step(self, folder: Path) -> None:
        """What the step left behind."""
        progress = read_sealed(folder / DONE)
        check_files(folder, progress.pop(FILES, {}))
        load_model(self.model, folder / WEIGHTS)
        self.mask = Mask.load(folder / MASK) if (folder / MASK).exists() else Mask()
        self.progress = Progress(**progress)

    def _folder(self, number: int) -> Path:
        step = self.trial.arm.steps[number]
        name = step.name if isinstance(step, Training | Snapshot) else type(step).__name__.lower()
        return self.home / f"step-{number:02d}-{name}"

    def _checkpoints(self, number: int) -> Path:
        return self.home / f"checkpoints-{number:02d}"
