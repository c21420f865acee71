"""Every knob of a job in one place, as a file, as flags, or from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limbeck.core.errors import KnobError
from limbeck.core.knob import TABLES, knob
from limbeck.core.objective import Objective
from limbeck.core.task import Kind, TaskInfo
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.runfile import overlay
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import ObjectiveTable, Recipe, StageSettings, find, from_table, to_table
from limbeck.students import seq2seq
from limbeck.students.shrink import Shrink
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.training.schedule import Schedule

CUSTOM = "custom"  # the objective is the run's own, whole
AUTO: dict[Kind, str] = {
    **dict.fromkeys(("classify", "multilabel", "tag", "answer"), "hinton"),
    "regress": "logits",
    **dict.fromkeys(("mask-fill", "generate"), "truncated"),
    "translate": "seq-kd",
}
_REGISTER = (seq2seq,)  # a table of a task


class MeasuredKnobs(TaskKnobs):
    """Of every verb that measures models."""

    measure: MeasureSettings = knob(MeasureSettings(), "what is measured")


class Job(MeasuredKnobs):
    """Of every verb that trains."""

    out: str = knob("", "folder for the models, the report and everything else", short="--out")
    seed: int = knob(0, "the first seed", at_least=0, short="--seed")
    train: Schedule = knob(Schedule(), "how models are trained")

    @property
    def seed_list(self) -> list[int]:
        return [self.seed]


class Run(Job):
    """The main job: a teacher, data, a smaller student."""

    teacher: str = knob("", "the model to make small: a folder or a hub id", short="--teacher")
    recipe: str = knob(
        "auto",
        "training recipe; list them with `limbeck methods`; custom: the objective as given. auto: hinton "
        "(classification, token classification, QA), logits (regression), truncated (language models), seq-kd "
        "(translation)",
        short="--recipe",
    )
    seeds: int = knob(
        1,
        "how often to train, with seeds counted up from `seed`; 3 or more give an honest interval",
        at_least=1,
        short="--seeds",
    )
    baseline: bool = knob(True, "also train the same student without the teacher, to prove what distillation gave")
    student_from: str = knob(
        "",
        "start the student from this model folder or hub id instead of shrinking the teacher",
        short="--student-from",
    )
    student: Shrink = knob(Shrink(), "the shape of the student")
    objective: ObjectiveTable = knob({}, "terms and weights that differ from the recipe's")
    stages: dict[str, StageSettings] = knob({}, "training steps beside the main one, by name")
    teacher_cache: TeacherCacheSettings = knob(TeacherCacheSettings(), "how the teacher's outputs are collected")

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    @property
    def steps(self) -> list[Objective]:
        """The objective of every training step, the main one first."""
        return [from_table(self.objective), *(from_table(stage.objective) for stage in self.stages.values())]


class TrainRun(Job):
    """Train a model without a teacher, to have one."""

    model: str = knob(
        "", "the model to train: a folder or a hub id; a seq2seq model may also start from scratch", short="--model"
    )


class CacheRun(TaskKnobs):
    """Run a language model once, and cache the top of its distributions."""

    teacher: str = knob("", "the language model: a folder or a hub id", short="--teacher")
    out: str = knob("", "folder for the cache", short="--out")
    top: int = knob(50, "most probable tokens cached of each distribution", at_least=1, short="--top")
    draws: int = knob(
        0,
        "cache this many samples of the distribution instead of its top; serves the objective 'sampled'",
        at_least=0,
        at_most=255,
    )
    temperature: float = knob(
        1.0, "also cache what the tail form needs at this temperature, and sample at it", above=0, short="--temperature"
    )
    batch_size: int = knob(32, "blocks per forward pass", at_least=1, short="--batch-size")
    threads: int = knob(0, "CPU threads; 0 leaves the choice to torch", at_least=0)
    measure: MeasureSettings = knob(MeasureSettings(speed=False, examples=0), "not used here")


def plan_of(run: Run, info: TaskInfo) -> Recipe | None:
    """The recipe of a run; None where its objective is its own."""
    if run.recipe == CUSTOM:
        return None
    found = find(AUTO[info.kind] if run.recipe == "auto" else run.recipe)
    if info.kind not in found.tasks:
        fit = [other.name for other in RECIPES.values() if info.kind in other.tasks]
        raise KnobError(f"the recipe '{found.name}' does not serve --task {info.kind}", f"use {', '.join(fit)}")
    return found


def resolve(run: Run, info: TaskInfo) -> Run:
    """The run with its recipe spelled out, as the file of a finished run has it."""
    plan, terms = plan_of(run, info), dict(run.objective)
    stages = {name: stage.model_dump() for name, stage in run.stages.items()}
    if plan is not None:
        planned, said = to_table(plan.objective(info)), run.model_dump(exclude_unset=True)
        stages = overlay(
            {name: stage.model_dump() for name, stage in plan.stages(info).items()}, said.get("stages", {})
        )
        for stage in stages.values():  # a term that only a stage has is meant there
            for term in [term for term in terms if term in stage["objective"] and term not in planned]:
                stage["objective"][term] = {**stage["objective"][term], **terms.pop(term)}
        terms = planned | {term: {**planned.get(term, {}), **entry} for term, entry in terms.items()}
        # A table that the task does not have is the recipe's for other tasks.
        defaults = {
            name: table
            for name, table in plan.defaults.items()
            if name not in TABLES or info.kind in TABLES[name].kinds
        }
        if run.student.names_depth and Shrink(**defaults.get("student", {})).counts_layers:
            defaults = overlay(defaults, {"student": {"keep": "spread"}})  # a person's number of layers goes first
        run = type(run)(**overlay(defaults, said))
    spelled = run.spelled_out(info.kind)
    return spelled.but(
        recipe=plan.name if plan else CUSTOM,
        objective=to_table(from_table(terms)),
        stages={name: _checked(name, table) for name, table in stages.items()},
        student=run.student.settled("same"),
    )


def _checked(name: str, stage: Mapping[str, Any]) -> dict[str, Any]:
    if not stage.get("objective"):
        raise KnobError(
            f"the stage '{name}' has no objective", f"give it terms, as in [stages.{name}.objective.hinton]"
        )
    return {**stage, "objective": to_table(from_table(stage["objective"]))}


def check_names(run: Run) -> None:
    """Refuses a recipe or a term that does not exist, before anything is loaded."""
    task = run.data.task
    if task != "auto":
        resolve(run, TaskInfo(kind=task))
        return
    if run.recipe not in ("auto", CUSTOM):
        find(run.recipe)
    if run.objective:
        from_table(run.objective)
