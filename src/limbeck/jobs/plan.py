"""Plans of arms: where each student starts, through which steps it goes, and which baseline it is compared with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import Any

from transformers import PreTrainedModel

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.fingerprint import fingerprint, tokenizers_equal
from limbeck.core.objective import Objective, bridges, requests, wants
from limbeck.core.progress import Watcher
from limbeck.core.record import Shape
from limbeck.core.trace import ATTENTION_PARTS, NOTHING, ONLY_LOGITS, NoTeacher, Request, Teacher, Want
from limbeck.functional.layermap import layer_pairs
from limbeck.jobs.settings import Job, Run, plan_of, resolve
from limbeck.measure.size import count_parameters, tables_of
from limbeck.recipes.recipe import (
    MAIN,
    Apply,
    ObjectiveTable,
    Rewind,
    Snapshot,
    Train,
    flat,
    from_table,
    to_table,
)
from limbeck.students.families import has_layers, is_family
from limbeck.students.inherit import reinit
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import GOLD, EncodedData, Model, Setup
from limbeck.training.schedule import Schedule


@dataclass(frozen=True)
class Training:
    """A training step, checked against the shapes of both models."""

    name: str
    objective: Objective
    schedule: Schedule
    targets: str = ""  # which training rows: "" for all
    student_request: Request = ONLY_LOGITS
    teacher_request: Request = NOTHING
    focus: int = 0  # the one layer that learns; 0: all
    final: bool = True  # the main step or one after it
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def evaluated(self) -> bool:
        """On dev on the way, and the best weights kept; else the last ones."""
        predicts = any(weight and part.answers for weight, part in self.objective.weighted)
        return predicts and self.final


PlannedStep = Training | Apply | Snapshot | Rewind


@dataclass(frozen=True)
class Start:
    """Where the student of every seed starts. It does not hold on to the teacher."""

    network: PreTrainedModel
    origin: str  # a sentence for the report
    build: Callable[[], PreTrainedModel]  # a new one; what no weights were there for comes from torch's current seed


@dataclass(frozen=True)
class ArmPlan:
    """One way of getting a model, trained once per seed."""

    name: str
    run: Job
    start: Start
    steps: tuple[PlannedStep, ...]
    data: EncodedData
    bridges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    recipe: str = ""
    column: bool = True  # a person asked for it; else a baseline that was added
    supervised: bool = False  # learns from what people gave alone
    baseline: str = ""  # the arm of the same student without a teacher
    title: str = ""
    processor: Any = None  # the student's own; None: that of its data

    @property
    def trainings(self) -> list[Training]:
        return [step for step in self.steps if isinstance(step, Training)]

    @property
    def main(self) -> Training:
        return next(step for step in self.trainings if step.name == MAIN)

    @property
    def epochs(self) -> float:
        return sum(step.schedule.epochs for step in self.trainings)

    @property
    def rows(self) -> int:
        return self.data.count(self.main.targets)

    @property
    def teacher_request(self) -> Request:
        return reduce(or_, (step.teacher_request for step in self.trainings), NOTHING)

    @property
    def uses_teacher(self) -> bool:
        return bool(self.teacher_request.want) or any(step.targets not in ("", GOLD) for step in self.trainings)

    def cost(self, teacher: float) -> float:
        """In rows × parameters they pass through: a training step is three passes, a live teacher one of its own."""
        small, train, evaluator = active_parameters(self.start.network), self.run.train, self.data.evaluator
        learnt = sum(
            self.data.count(step.targets)
            * step.schedule.epochs
            * (3 * small + (teacher if step.teacher_request.want & ATTENTION_PARTS else 0.0))
            for step in self.trainings
        )
        evals = sum(step.schedule.epochs for step in self.trainings if step.evaluated) * train.evals_per_epoch
        dev, test = evaluator.passes
        return learnt + small * (dev * len(evaluator.dev) * evals + test * evaluator.test_rows)


@dataclass(frozen=True)
class Trial:
    """One arm with one seed."""

    arm: ArmPlan
    seed: int

    @property
    def name(self) -> str:
        """Also its folder's."""
        return f"{self.arm.name}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.arm.title or self.arm.name}, seed {self.seed}"


def trials(arms: Sequence[ArmPlan]) -> list[Trial]:
    """All arms of one seed before the next seed, so that what is interrupted has whole seeds."""
    return [Trial(arm, seed) for seed in arms[0].run.seed_list for arm in arms]


def plan_arm(name: str, run: Run, setup: Setup, watcher: Watcher, given: Model | None = None) -> ArmPlan:
    """Everything about a student that can be refused is refused here."""
    task = setup.task
    run = resolve(run, setup.info)
    needed = reduce(or_, map(wants, run.steps))
    run = task.resolve(run, setup, needed)
    task = replace(task, knobs=run)
    if given is None and run.student_from:
        watcher.say(f"loading the student {run.student_from}")
        given = task.load(run.student_from, new_head=True)
    start = _start(run, setup, given)
    owner = given or setup.teacher or getattr(setup, "init", None)
    assert owner is not None
    student = Model(start.network, owner.processor)
    task.check(run, setup, student, run.steps, needed)
    data = _data(task, setup, student)
    for note in data.notes if data is not setup.data else ():
        watcher.say(note)
    data = task.augmented(run, setup, data, watcher)
    shape = shape_of(start.network)
    run = run.but(train=run.train.at_width(shape.hidden, data.info))
    steps = planned_steps(run, setup.info, shape, shape_of(setup.teacher.network) if setup.teacher else shape)
    if given is not None and not given.source:
        data = replace(data, fingerprints={**data.fingerprints, "student": fingerprint(given.network)})
    maps = {
        key: widths
        for step in steps
        if isinstance(step, Training) and setup.teacher
        for key, widths in bridges(step.objective, shape, shape_of(setup.teacher.network)).items()
    }
    arm = ArmPlan(name, run, start, steps, data, maps, run.recipe, processor=student.processor)
    return replace(arm, supervised=_is_supervised(arm, task.baseline(arm.main.objective)))


def _data(task: Any, setup: Setup, student: Model) -> EncodedData:
    """The shared data, or the same rows in the tokens of a student that has its own."""
    from limbeck.core.progress import Silent

    shared = setup.data
    same = tokenizers_equal(student.processor, shared.processor)
    if same and task.same_encoding(setup, student):
        return shared
    found = task.encode(setup.splits, student, Silent(), setup.teacher)
    evaluator = shared.evaluator if same and found.info == shared.info else found.evaluator
    return replace(found, for_teacher=shared.for_teacher, evaluator=evaluator)


def _is_supervised(arm: ArmPlan, baseline: Objective) -> bool:
    alone = len(arm.steps) == 1 and not arm.data.augmented and not arm.uses_teacher
    return alone and arm.data.has_gold and to_table(arm.main.objective) == to_table(baseline)


def planned_steps(run: Run, info: Any, student: Shape, teacher: Shape) -> tuple[PlannedStep, ...]:
    """The recipe's steps with the run's own objectives and schedules, in order."""
    recipe = plan_of(run, info)
    declared = list(flat(recipe.steps(info))) if recipe else [Train(from_table(run.objective))]
    known = {step.name for step in declared if isinstance(step, Train)}
    added = [(name, stage) for name, stage in run.stages.items() if name not in known]
    before = [Train(from_table(stage.objective), name) for name, stage in added if not stage.after]
    after = [Train(from_table(stage.objective), name) for name, stage in added if stage.after]
    steps: list[PlannedStep] = []
    final = False
    for step in [*before, *declared, *after]:
        if not isinstance(step, Train):
            steps.append(step)
            continue
        final = final or step.name == MAIN
        steps += _trainings(step.name, run, student, teacher, final)
    _check_family(run.student.family, student)
    _check_layers(steps, student)
    return tuple(_requesting(step, student, teacher) if isinstance(step, Training) else step for step in steps)


def _requesting(step: Training, student: Shape, teacher: Shape) -> Training:
    mine, theirs = requests(step.objective, student, teacher)
    return replace(step, student_request=mine, teacher_request=theirs)


def _trainings(name: str, run: Run, student: Shape, teacher: Shape, final: bool) -> list[Training]:
    """A step as the run has it; a progressive one layer by layer."""
    main = targets_of(run)
    if name == MAIN:
        return [Training(MAIN, from_table(run.objective), run.train, main)]
    stage = run.stages[name]
    schedule = run.train.but(
        epochs=stage.epochs or run.train.epochs,
        learning_rate=stage.learning_rate or stage.rate * run.train.learning_rate,
        decay=run.train.decay if stage.decay == "as train" else stage.decay,
    )
    if not stage.progressive:
        return [Training(name, from_table(stage.objective), schedule, stage.targets or main, final=final)]
    tables = _by_layer(stage.objective, student, teacher)
    each = schedule.but(epochs=schedule.epochs / len(tables))
    return [
        Training(f"{name}-{layer}", from_table(table), each, main, focus=layer, final=final)
        for layer, table in tables.items()
    ]


def targets_of(run: Job) -> str:
    """What the main step learns, where the task has several targets."""
    table = (run.model_extra or {}).get("translate")
    return str(table.targets) if table else ""


def _by_layer(table: ObjectiveTable, student: Shape, teacher: Shape) -> dict[int, ObjectiveTable]:
    """The terms of each layer, those that compare layers bound to it. A layer that they all leave out has no step."""
    pairs = {
        term: dict(layer_pairs(entry["layers"], student.layers, teacher.layers))
        for term, entry in table.items()
        if "layers" in entry and entry["weight"]
    }
    named = {layer for of_term in pairs.values() for layer in of_term}
    found: dict[int, ObjectiveTable] = {}
    for layer in sorted(named) or range(1, student.layers + 1):
        bound = {term: {"layers": f"{layer}:{of_term[layer]}"} for term, of_term in pairs.items() if layer in of_term}
        found[layer] = {
            term: {**entry, **bound.get(term, {})}
            for term, entry in table.items()
            if term in bound or "layers" not in entry
        }
    return found


def _check_family(family: str, student: Shape) -> None:
    """A model to start from may be another than the knobs, or a recipe's defaults, ask for."""
    if family not in ("auto", "same") and not is_family(student.architecture, family):
        raise KnobError(
            f"the student is to be of family '{family}', but the model it starts from is a {student.architecture}",
            f"take that model as it is with --student.family same, start from a {family}, or leave --student-from out",
        )


def _check_layers(steps: Sequence[PlannedStep], student: Shape) -> None:
    """A recurrent student has neither layers to compare nor heads."""
    for step in steps:
        wanted = wants(step.objective) & _OF_LAYERS if isinstance(step, Training) else Want.NOTHING
        if wanted and not has_layers(student.architecture):
            raise MismatchError(
                f"the objective compares {wanted} of both models, which a {student.architecture} does not have",
                "use --recipe bilstm, hinton or logits with it, or give the student layers: --student.family same",
            )


_OF_LAYERS = Want.HIDDEN | Want.POOLED | ATTENTION_PARTS


def _start(run: Run, setup: Setup, given: Model | None) -> Start:
    shape, task, pairs = run.student, replace(setup.task, knobs=run), setup.data.pairs
    if given is None and setup.teacher is not None:
        return start_shrunk(shape, setup.teacher, pairs)
    if given is None:
        return _start_new(task, setup)
    if is_unchanged(shape, given.network):
        return start_from(given, lambda: task.load(given.source, new_head=True).network)
    if not given.source:
        start = start_shrunk(shape, given, pairs)
        return replace(start, origin=f"From the given model. {start.origin}")
    network, inheritance = shape.build(given.network, given.processor, pairs)

    def shrunk() -> PreTrainedModel:
        return shape.build(task.load(given.source, new_head=True).network, given.processor, pairs)[0]

    return Start(network, f"From {given.source}. {inheritance.sentence()}", shrunk)


def _start_new(task: Any, setup: Any) -> Start:
    """From nothing but a vocabulary; the shape alone is looked at here."""
    import torch

    processor = setup.init.processor
    with torch.random.fork_rng(devices=[]):
        network = task.new_network(processor)
    origin = "The student starts from random weights."
    return Start(network, origin, partial(task.new_network, processor))


def start_from(given: Model, reload: Callable[[], PreTrainedModel]) -> Start:
    """A model in hand, or one that is loaded again for every seed."""
    origin = f"The student starts from {given.source or 'the given model'}."
    return Start(given.network, origin, reload if given.source else partial(copy.deepcopy, given.network))


def start_shrunk(shape: Shrink, teacher: Model, pairs: bool = False) -> Start:
    network, inheritance = shape.build(teacher.network, teacher.processor, pairs)
    return Start(network, inheritance.sentence(), partial(reinit, network, inheritance.fresh))


def is_unchanged(shape: Shrink, network: PreTrainedModel) -> bool:
    """Whether a model is to stay as it is. An end from which layers are kept says nothing where all are."""
    keep = "spread" if shape.keep in ("first", "last") else shape.keep
    family = "same" if is_family(network.config.model_type, shape.family) else shape.family
    return shape.but(keep=keep, family=family) == Shrink(family="same")


def with_baselines(
    arms: Mapping[str, ArmPlan], task: Any, called: Callable[[str], str] = "plain-{}".format
) -> list[ArmPlan]:
    """An arm that learns from labels alone is the baseline of its student; others share one that is added.

    It is named after a column: the name is that of a folder, and must mean the same student when a run is resumed, also
    where other columns have come or gone."""
    known: dict[tuple[str, ...], str] = {}
    for name, arm in arms.items():
        if arm.supervised:
            known.setdefault(_alike(arm, task), name)
    found: list[ArmPlan] = []
    for name, arm in arms.items():
        key = _alike(arm, task)
        asked = isinstance(arm.run, Run) and arm.run.baseline and arm.uses_teacher and arm.data.has_gold
        if key not in known and asked:
            known[key] = called(name)
            found.append(_baseline(known[key], arm, task))
        than = known.get(key, "")
        found.append(replace(arm, baseline=than if than != name else ""))
    return found


def _baseline(name: str, arm: ArmPlan, task: Any) -> ArmPlan:
    """The same student, taught by what people gave alone."""
    alone = Training(MAIN, task.baseline(arm.main.objective), arm.run.train, GOLD)
    return replace(arm, name=name, steps=(alone,), bridges={}, column=False, supervised=True, recipe="")


def _alike(arm: ArmPlan, task: Any) -> tuple[str, ...]:
    """The same for students with the same start and the same schedule."""
    run = arm.run
    assert isinstance(run, Run)
    new = (run.model_extra or {}).get("seq2seq")
    return (
        run.student.model_dump_json(),
        run.student_from,
        run.train.model_dump_json(),
        str(task.baseline(arm.main.objective)),
        new.model_dump_json() if new else "",
    )


def active_parameters(network: PreTrainedModel) -> float:
    """The parameters that a row passes through: looking up a token costs nothing, scoring all tokens does."""
    head = network.get_output_embeddings()
    tied = head is not None and any(head.weight is table for table in tables_of(network))
    return float(count_parameters(network)[1] + (head.weight.numel() if tied else 0))
