"""The one pipeline of every task and of every verb that trains.

    prepare (task, teacher, rows) → plan the arms → write or match run.toml → add baselines
            → collect the teacher's outputs → fit the budget → trials: train and test each arm with each seed

jobs/record.py then times the models and builds the Record. `distill` is `compare` with one column, `compress` one whose
student is the model as it is; `train` has a model instead of a student, and joins at the trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from transformers import TrainerCallback

from limbeck.core.device import find_device
from limbeck.core.errors import LimbeckError, TeacherMismatch
from limbeck.core.files import write_text
from limbeck.core.progress import TRAINING, ProgressItem, Watcher
from limbeck.core.record import Failure
from limbeck.data.sources.unlabelled import refuse_unlabelled
from limbeck.jobs.arguments import Arguments
from limbeck.jobs.budget import fit_to_budget
from limbeck.jobs.compare_settings import CompareRun
from limbeck.jobs.exporting import check_export_students, check_exports
from limbeck.jobs.folder import ensure_saved, write_or_match_run
from limbeck.jobs.plan import ArmPlan, active_parameters, check_transfer, label_notes, plan_arm, trials, with_baselines
from limbeck.jobs.preflight import no_start
from limbeck.jobs.record import Finished, timed_as
from limbeck.jobs.settings import Job, Run, resolve
from limbeck.jobs.teaching import TeacherOutputs, check_named_cache, collect_teacher_outputs, free_memory
from limbeck.jobs.trial import ARMS, FAILED, TrialResult, run_trial
from limbeck.measure.size import size_of
from limbeck.measure.speed import measuring
from limbeck.tasks.base import COLLECTING, Model, Setup, task_of
from limbeck.training.arguments import check_loggers


def run(
    arguments: Arguments[Run],
    columns: Mapping[str, Run],
    folder: Path,
    watcher: Watcher,
    callbacks: Sequence[TrainerCallback] = (),
) -> Finished:
    """Every column of a comparison, or the one of a distillation."""
    settings, several = arguments.run, isinstance(arguments.run, CompareRun)
    failed: list[Failure] = []

    # Prepare: the task, its teacher, the rows in the teacher's tokens
    setup = _prepare(arguments, columns, watcher)
    check_exports(settings, setup.info.kind, folder)

    # Plan: a student and its steps for every column; then the run is written down, or matches the one begun here
    planned = _plan(columns, setup, arguments.student, watcher, failed)
    check_export_students(settings, planned.values())
    check_transfer(setup.task, settings.data, planned.values())
    check_named_cache(setup, list(planned.values()), settings)
    settings = _write_or_match(settings, columns, planned, setup, folder)
    arms = with_baselines(planned, setup.task, several)
    if isinstance(settings, CompareRun):
        notes = settings.start_notes({name: arm.run for name, arm in planned.items() if isinstance(arm.run, Run)})
    else:
        taught = {True: "student with teacher", False: "student without teacher"}
        titles = {arm.name: "passes" if settings.kind == "compress" else taught[arm.uses_teacher] for arm in arms}
        arms = [replace(arm, title=titles[arm.name]) for arm in arms]
        notes = [arms[-1].start.origin] if settings.kind != "compress" else []
        for note in notes:
            watcher.say(note)
    notes += label_notes(arms)
    watcher.plan(_progress(settings, setup, arms))

    # Teach: what the arms need of the teacher, collected once; afterwards its memory goes to the students
    outputs = _teach(setup, arms, settings, watcher, failed)
    arms, notes = outputs.arms, [*notes, *outputs.notes]
    if isinstance(settings, CompareRun) and settings.budget_minutes:
        arms, note = fit_to_budget(arms, settings.budget_minutes, folder, watcher)
        notes.append(note)
        watcher.plan(_progress(settings, setup, arms))
    teacher_folder = ensure_saved(setup.teacher, folder / "teacher") if setup.teacher else None
    teacher_size = size_of(setup.teacher.network, teacher_folder) if setup.teacher else None
    member_sizes = []
    for number, model in enumerate((one.model for one in setup.members), 1):
        place = folder / ("teacher" if model is setup.teacher else f"teacher-{number}")
        member_sizes.append(size_of(model.network, ensure_saved(model, place)))
    if not outputs.live:
        free_memory(setup)

    # Trials: every arm with every seed, trained and tested
    results, fallen = _trials(arms, folder, watcher, callbacks, keep_going=several)
    return Finished(
        kind=settings.kind,
        run=settings,
        setup=setup,
        arms=arms,
        results=results,
        folder=folder,
        teacher_test=outputs.teacher_test,
        teacher_folder=teacher_folder,
        teacher_size=teacher_size,
        member_tests=outputs.member_tests,
        member_sizes=member_sizes,
        failed=[*failed, *fallen],
        notes=notes,
        figures=outputs.figures,
    )


def run_without_teacher(
    settings: Job, arm: ArmPlan, setup: Setup, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]
) -> Finished:
    """The same from the trials on, for a model that learns from labels alone."""
    check_exports(settings, setup.info.kind, folder)
    check_export_students(settings, [arm])
    write_or_match_run(folder, settings, setup.fingerprints)
    watcher.plan(_progress(settings, setup, [arm]))
    results, _ = _trials([arm], folder, watcher, callbacks, keep_going=False)
    return Finished(settings.kind, settings, setup, [arm], results, folder, notes=label_notes([arm]))


def start(settings: Job) -> None:
    """What a run does before it reads anything."""
    if not isinstance(settings, Run):
        refuse_unlabelled(settings.data)
    find_device(settings.train.device)  # or refuses
    if settings.train.threads:
        torch.set_num_threads(settings.train.threads)
    check_loggers(settings.train)


def _prepare(arguments: Arguments[Run], columns: Mapping[str, Run], watcher: Watcher) -> Setup:
    settings, teachers, student = arguments.run, arguments.teachers, arguments.student
    start(settings)
    voices = settings.voices(len(teachers or settings.teachers))
    task = task_of(settings, teachers[0] if teachers else next(iter(settings.teachers), None))
    if len(columns) == 1 and settings.data.task != "auto":  # data may be read as the one recipe has it
        task = replace(task, knobs=resolve(next(iter(columns.values())), task.info))
    task.check_settings()
    if task.unlabelled_remedy:
        refuse_unlabelled(settings.data, f"--task {task.info.kind} does not take it", task.unlabelled_remedy)
    if settings.data.teacher_column and settings.distils:
        refuse_unlabelled(settings.data, "its texts have no answers in a --teacher-column", "leave one of both out")
        if student is None and not settings.student_from:
            raise no_start()
        return task.prepare_answered(arguments.data, watcher, student)
    for name in settings.teachers if not teachers else ():
        watcher.say(f"loading the teacher {name}")
        teachers = [*teachers, task.load(name)]
    if not teachers and student is None and settings.student_from:
        student = task.load(settings.student_from, new_head=True)
    setup = task.prepare(arguments.data, teachers[0] if teachers else None, watcher, student)
    return task.averaged(setup, teachers[1:], voices) if len(teachers) > 1 else setup


def _plan(
    columns: Mapping[str, Run], setup: Setup, student: Model | None, watcher: Watcher, failed: list[Failure]
) -> dict[str, ArmPlan]:
    """Every arm that can be built; of several columns, the others are left out."""
    arms: dict[str, ArmPlan] = {}
    for name, column in columns.items():
        try:
            arms[name] = plan_arm(name, column, setup, watcher, student)
        except Exception as error:
            if len(columns) == 1:
                raise
            failed.append(_left_out(name, error, watcher))
    if not arms:
        raise LimbeckError("; ".join(f"{one.arm}: {one.reason}" for one in failed), "no column is left to compare")
    return arms


def _write_or_match(
    settings: Run, columns: Mapping[str, Run], arms: Mapping[str, ArmPlan], setup: Setup, folder: Path
) -> Run:
    """The run with every default resolved, as run.toml has it; one that was begun in the folder must be the same."""
    resolved = {name: arm.run for name, arm in arms.items() if isinstance(arm.run, Run)}
    for name, column in columns.items():
        if name not in arms:  # spelled out as far as the recipe serves the task
            try:
                resolved[name] = resolve(column, setup.info)
            except LimbeckError:
                resolved[name] = column
    whole = settings.resolved_with({name: resolved[name] for name in columns}, setup.info.kind)
    prints = dict(setup.fingerprints)
    for name, arm in arms.items():
        for what, value in arm.data.fingerprints.items():
            if not isinstance(settings, CompareRun):
                prints[what] = value
            elif what not in setup.fingerprints:
                prints[f"{what} of {name}"] = value
    write_or_match_run(folder, whole, prints)
    return whole


def _teach(setup: Setup, arms: list[ArmPlan], settings: Run, watcher: Watcher, failed: list[Failure]) -> TeacherOutputs:
    """The outputs for all arms that this teacher can teach; in a comparison the others are left out."""
    for teacher in setup.teachers:
        if isinstance(teacher.network, torch.nn.Module):  # another engine runs where it runs
            teacher.network.to(find_device(settings.train.device))
    while True:
        try:
            return collect_teacher_outputs(setup, arms, settings, watcher)
        except TeacherMismatch as error:
            unfit = [arms[number] for number in error.arms]
            left = [arm for arm in arms if arm not in unfit]
            if not isinstance(settings, CompareRun) or not any(arm.column for arm in left):
                raise
            failed += [_left_out(arm.name, error, watcher) for arm in unfit]
        served = {arm.baseline for arm in left}
        left = [arm for arm in left if arm.column or arm.name in served]
        for trial in (trial for trial in trials(arms) if trial.arm not in left):
            watcher.at(trial.title, 1.0)
        arms = left


def _trials(
    arms: Sequence[ArmPlan],
    folder: Path,
    watcher: Watcher,
    callbacks: Sequence[TrainerCallback],
    keep_going: bool,
) -> tuple[dict[str, list[TrialResult]], list[Failure]]:
    """Every arm with every seed; with `keep_going` a trial that fails does not stop the others."""
    results: dict[str, list[TrialResult]] = {}
    failed: list[Failure] = []
    for trial in trials(arms):
        try:
            found = run_trial(trial, folder / ARMS, watcher, callbacks)
            results.setdefault(trial.arm.name, []).append(found)
        except Exception as error:
            if not keep_going:
                raise
            why = _reason(error)
            watcher.say(f"{trial.title} failed: {why}")
            watcher.at(trial.title, 1.0)
            write_text(folder / ARMS / trial.name / FAILED, why + "\n")
            failed.append(Failure(arm=trial.arm.name, seeds=[trial.seed], reason=why))
    if not results:
        raise LimbeckError(f"every training failed, the first with: {failed[0].reason}", "mend that, then --resume")
    return results, failed


def _left_out(name: str, error: Exception, watcher: Watcher) -> Failure:
    why = _reason(error)
    watcher.say(f"{name} is left out: {why}")
    return Failure(arm=name, reason=why)


def _reason(error: Exception) -> str:
    if isinstance(error, LimbeckError):
        return f"{error.problem} ({error.remedy})" if error.remedy else error.problem
    return f"{type(error).__name__}: {error}"


def _progress(settings: Job, setup: Setup, arms: Sequence[ArmPlan]) -> list[ProgressItem]:
    """The parts of a run and what they cost beside one another."""
    asked = [one.model for one in setup.members] or ([setup.teacher] if setup.teacher else [])
    big = sum(active_parameters(one.network) for one in asked)
    dev, test = setup.data.evaluator.passes
    rows = dev * (setup.data.size + sum(arm.data.augmented for arm in arms)) + test * setup.data.evaluator.test_rows
    models = len({timed_as(arm) for arm in arms}) + bool(setup.teacher) + sum(arm.intermediates for arm in arms)
    return [
        *([ProgressItem(COLLECTING, big * rows)] if setup.teacher or any(arm.uses_teacher for arm in arms) else []),
        *(ProgressItem(trial.title, trial.arm.cost(big), TRAINING) for trial in trials(arms)),
        measuring(models, settings.measure),
    ]
