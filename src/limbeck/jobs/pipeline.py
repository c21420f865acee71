"""The one pipeline: settings → task → setup → arms → teacher outputs → trials → measure → Record.

`distill` is `compare` with one column; `train` is the same with a model instead of a student, and no teacher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import TrainerCallback

from limbeck.core.errors import LimbeckError, TeacherMismatch
from limbeck.core.files import write_text
from limbeck.core.progress import ProgressItem, Watcher
from limbeck.core.record import Failure
from limbeck.jobs.arguments import Arguments
from limbeck.jobs.budget import fit_to_budget
from limbeck.jobs.comparison import CompareRun, spelled_out, write_comparison
from limbeck.jobs.folder import check_resume, ensure_saved
from limbeck.jobs.plan import ArmPlan, Trial, active_parameters, plan_arm, trials, with_baselines
from limbeck.jobs.record import Finished, timed_as
from limbeck.jobs.settings import Job, Run, resolve
from limbeck.jobs.teaching import (
    TeacherOutputs,
    check_named_cache,
    collect_teacher_outputs,
    free_memory,
)
from limbeck.jobs.trial import TrialResult, run_trial
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.size import size_of
from limbeck.measure.speed import MEASURING
from limbeck.tasks.base import COLLECTING, Model, Setup, task_of
from limbeck.training.trainer import check_loggers

FAILED_FILE = "failed.txt"


@dataclass(frozen=True)
class Pipeline:
    """Where a run writes, whom it tells, and what its trainers call back."""

    folder: Path
    watcher: Watcher
    callbacks: Sequence[TrainerCallback]
    command: str

    def run(self, arguments: Arguments[Run], columns: Mapping[str, Run]) -> Finished:
        """Every column of a comparison, or the one of a distillation."""
        run = arguments.run
        setup = self._prepare(arguments, columns)
        arms, failed = self._plan(columns, setup, arguments.student)
        check_named_cache(setup, list(arms.values()), run)
        run = self._check_resume(run, columns, arms, setup)
        planned = _with_baselines(run, arms, setup)
        for origin in _origin(run, planned):
            self.watcher.say(origin)
        self.watcher.plan(_progress(run, setup, planned))
        outputs, unfit = self._teach(setup, planned, run)
        planned = outputs.arms
        notes = [*_origin(run, planned), *outputs.notes]
        if isinstance(run, CompareRun) and run.budget_minutes:
            planned, note = fit_to_budget(planned, run.budget_minutes, self.folder, self.watcher)
            notes.append(note)
            self.watcher.plan(_progress(run, setup, planned))
        teacher_folder = ensure_saved(setup.teacher, self.folder / "teacher") if setup.teacher else None
        teacher_size = size_of(setup.teacher.network, teacher_folder) if setup.teacher else None
        if not outputs.live:
            free_memory(setup)
        results, fallen = self._trials(planned, tolerant=isinstance(run, CompareRun))
        return Finished(
            kind="compare" if isinstance(run, CompareRun) else "distill",
            run=run,
            setup=setup,
            arms=planned,
            results=results,
            test=outputs.test,
            teacher_folder=teacher_folder,
            teacher_size=teacher_size,
            folder=self.folder,
            command=self.command,
            failed=[*failed, *unfit, *fallen],
            notes=notes,
            figures=outputs.figures,
        )

    def train(self, run: Job, arm: ArmPlan, setup: Setup) -> Finished:
        """One model without a teacher."""
        check_resume(self.folder, run, setup.fingerprints)
        self.watcher.plan(_progress(run, setup, [arm]))
        results, _ = self._trials([arm], tolerant=False)
        return Finished("train", run, setup, [arm], results, None, None, None, self.folder, self.command)

    def _prepare(self, arguments: Arguments[Run], columns: Mapping[str, Run]) -> Setup:
        run = arguments.run
        start(run)
        task = task_of(run, arguments.teacher or run.teacher)
        if len(columns) == 1 and run.data.task != "auto":  # data may be read as the one recipe has it
            task = replace(task, knobs=resolve(next(iter(columns.values())), task.info))
        task.check_settings()
        teacher = arguments.teacher
        if teacher is None and run.teacher:
            self.watcher.say(f"loading the teacher {run.teacher}")
            teacher = task.load(run.teacher)
        student = arguments.student
        if teacher is None and student is None and run.student_from:
            student = task.load(run.student_from, new_head=True)
        return task.prepare(arguments.data, teacher, self.watcher, student)

    def _plan(
        self, columns: Mapping[str, Run], setup: Setup, student: Model | None
    ) -> tuple[dict[str, ArmPlan], list[Failure]]:
        """Every arm that can be built; of several columns, why the others cannot."""
        arms: dict[str, ArmPlan] = {}
        failed: list[Failure] = []
        for name, column in columns.items():
            try:
                arms[name] = plan_arm(name, column, setup, self.watcher, student)
            except Exception as error:
                if len(columns) == 1:
                    raise
                failed.append(self._left_out(name, _reason(error)))
        if not arms:
            raise LimbeckError("; ".join(f"{one.arm}: {one.reason}" for one in failed), "no column is left to compare")
        return arms, failed

    def _left_out(self, name: str, why: str) -> Failure:
        self.watcher.say(f"{name} is left out: {why}")
        return Failure(arm=name, reason=why)

    def _check_resume(self, run: Run, columns: Mapping[str, Run], arms: Mapping[str, ArmPlan], setup: Setup) -> Run:
        """The run as it is written down; begun before, it must be the same."""
        if not isinstance(run, CompareRun):
            (arm,) = arms.values()
            check_resume(self.folder, arm.run, {**setup.fingerprints, **arm.data.fingerprints})
            assert isinstance(arm.run, Run)
            return arm.run
        resolved = {name: _resolved(column, setup) for name, column in columns.items()}
        built = {name: arm.run for name, arm in arms.items() if isinstance(arm.run, Run)}
        whole = spelled_out(run, resolved | built, setup.info.kind)
        own = {
            f"{what} of {name}": value
            for name, arm in arms.items()
            for what, value in arm.data.fingerprints.items()
            if what not in setup.fingerprints
        }
        check_resume(self.folder, whole, {**setup.fingerprints, **own}, write_comparison)
        return whole

    def _teach(self, setup: Setup, arms: list[ArmPlan], run: Run) -> tuple[TeacherOutputs, list[Failure]]:
        """The outputs for all arms that this teacher can teach; the others are left out."""
        failed: list[Failure] = []
        while True:
            try:
                return collect_teacher_outputs(setup, arms, run, self.watcher), failed
            except TeacherMismatch as error:
                unfit = {arms[number].name for number in error.arms}
                left = [arm for arm in arms if arm.name not in unfit]
                if not isinstance(run, CompareRun) or not any(arm.column for arm in left):
                    raise
                why = _reason(error)
            served = {arm.baseline for arm in left}
            gone = [arm for arm in arms if arm not in left or not (arm.column or arm.name in served)]
            for trial in (trial for trial in trials(arms) if trial.arm in gone):
                self.watcher.at(trial.title, 1.0)
            failed += [self._left_out(arm.name, why) for arm in arms if arm.name in unfit]
            arms = [arm for arm in arms if arm not in gone]

    def _trials(self, arms: Sequence[ArmPlan], tolerant: bool) -> tuple[dict[str, list[TrialResult]], list[Failure]]:
        """Every arm with every seed. In a comparison one that fails is told of, and the others go on."""
        results: dict[str, list[TrialResult]] = {}
        failed: list[Failure] = []
        place = self.folder / "arms"
        for trial in trials(arms):
            report = place / trial.name / FAILED_FILE
            report.unlink(missing_ok=True)  # what failed before is tried again
            try:
                results.setdefault(trial.arm.name, []).append(run_trial(trial, place, self.watcher, self.callbacks))
            except Exception as error:
                if not tolerant:
                    raise
                failed.append(self._fallen(trial, _reason(error), report))
        results = {name: found for name, found in results.items() if found}
        if not results:
            raise LimbeckError(f"every training failed, the first with: {failed[0].reason}", "mend that, then --resume")
        return results, failed

    def _fallen(self, trial: Trial, why: str, report: Path) -> Failure:
        self.watcher.say(f"{trial.title} failed: {why}")
        self.watcher.at(trial.title, 1.0)
        write_text(report, why + "\n")
        return Failure(arm=trial.arm.name, seeds=[trial.seed], reason=why)


def start(run: Job) -> None:
    """What a run does before it reads anything."""
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    check_loggers(run.train)


def _with_baselines(run: Run, arms: Mapping[str, ArmPlan], setup: Setup) -> list[ArmPlan]:
    if isinstance(run, CompareRun):
        return with_baselines(arms, setup.task)
    found = with_baselines(arms, setup.task, called=lambda _: "plain")
    return [replace(arm, title=f"student {'with' if arm.column else 'without'} teacher") for arm in found]


def _origin(run: Run, arms: Sequence[ArmPlan]) -> list[str]:
    return [] if isinstance(run, CompareRun) else [arms[-1].start.origin]


def _resolved(column: Run, setup: Setup) -> Run:
    """Spelled out also where no student can be built, as far as the recipe serves the task."""
    try:
        return resolve(column, setup.info)
    except LimbeckError:
        return column


def _reason(error: Exception) -> str:
    if isinstance(error, LimbeckError):
        return f"{error.problem} ({error.remedy})" if error.remedy else error.problem
    return f"{type(error).__name__}: {error}"


def _progress(run: Job, setup: Setup, arms: Sequence[ArmPlan]) -> list[ProgressItem]:
    """The parts of a run and what they cost beside one another."""
    big = active_parameters(setup.teacher.network) if setup.teacher else 0.0
    dev, test = setup.data.evaluator.passes
    rows = dev * (setup.data.size + sum(arm.data.augmented for arm in arms)) + test * setup.data.evaluator.test_rows
    return [
        *([ProgressItem(COLLECTING, big * rows)] if setup.teacher or any(arm.uses_teacher for arm in arms) else []),
        *(ProgressItem(trial.title, trial.arm.cost(big)) for trial in trials(arms)),
        ProgressItem(MEASURING, timing_cost(run.measure, models=1 + len({timed_as(arm) for arm in arms}))),
    ]


def timing_cost(settings: MeasureSettings, models: int) -> float:
    """A process that times a model takes its seconds to start: about what 2,000 rows of MiniLM-L6 take."""
    return models * settings.repeats * 2e10 if settings.speed else 0.0
