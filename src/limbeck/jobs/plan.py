"""Plans of arms: where each student starts, through which steps it goes, and which baseline it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Literal

from transformers import PreTrainedModel

from limbeck.core.compress import Pass
from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.fingerprint import fingerprint, tokenizers_equal
from limbeck.core.objective import Objective, bridges, misfits, requests, wants
from limbeck.core.process import world_size
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import ATTENTION_PARTS, NOTHING, ONLY_LOGITS, NoTeacher, Request, Teacher, Want
from limbeck.data.settings import DataSettings
from limbeck.data.sources.unlabelled import refuse_unlabelled
from limbeck.functional.layermap import KEPT, layer_pairs
from limbeck.jobs.retokenize import ArmRows, check_after_retokenizing
from limbeck.jobs.settings import Job, Run, resolve
from limbeck.jobs.start import Start, start_of
from limbeck.measure.evaluator import Evaluator
from limbeck.measure.size import count_parameters, tables_of
from limbeck.recipes.recipe import MAIN, Apply, ObjectiveTable, Rewind, Snapshot, Train, from_table, to_table
from limbeck.students.families import SAME, find_family, has_layers, is_family
from limbeck.students.shrink import SMALL, Shrink
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import ALL, BEAM, GOLD, EncodedData, Model, Setup, Task, with_class_weights
from limbeck.training.schedule import BestBy, Schedule

FEW_ROW_PASSES, FEW_ROW_STEPS, FEW_ROW_EVALS = 20, 1000, 20  # of a training on the rows that have labels
_OF_LAYERS = Want.HIDDEN | Want.POOLED | ATTENTION_PARTS


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
    only_head: bool = False  # the encoder stays as it is
    final: bool = True  # the main step or one after it
    evals: int = 0  # dev measurements in all; 0: as many in each epoch as the schedule has
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def uses_teacher(self) -> bool:
        return bool(self.teacher_request.want) or self.targets not in (ALL, GOLD)

    @property
    def takes_unlabelled(self) -> bool:
        """Whether rows teach for which people gave nothing."""
        return self.uses_teacher and self.targets in (ALL, BEAM)

    @property
    def evaluated(self) -> bool:
        """Dev is measured during training and the best weights are kept; otherwise the last."""
        predicts = any(weight and part.answers for weight, part in self.objective.weighted)
        return predicts and self.final

    @property
    def best_by(self) -> str:
        """What tells its best weights on dev; without a teacher, its labels where there are any."""
        return self.schedule.best_by if self.uses_teacher else "auto"

    @property
    def measurements(self) -> float:
        """On dev, if it is evaluated."""
        schedule = self.schedule
        if schedule.eval_steps and schedule.max_steps and not self.evals:
            return schedule.max_steps // schedule.eval_steps
        return self.evals or schedule.epochs * schedule.evals_per_epoch

    def over(self, data: EncodedData) -> Training:
        """With the epochs that its steps make, where a person limits those."""
        return replace(self, schedule=self.schedule.over(data.count(self.targets)))

    def __str__(self) -> str:
        steps, epochs = self.schedule.max_steps, self.schedule.epochs
        long = f"{steps} steps" if steps else f"{epochs:g} epochs"
        return f"train {'the head alone, ' if self.only_head else ''}'{self.name}' for {long}: {self.objective}"


PlannedStep = Training | Apply | Snapshot | Rewind


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
    source: ArmRows | None = None  # its rows before any tokenizer, where a pass may look at them
    tested: Literal["passes", "trainings", "end"] = "passes"  # which steps on the way have their model tested
    facts: Mapping[str, str] = field(default_factory=dict)  # what a ticket says of where it was found
    notes: tuple[str, ...] = ()  # for the report, of every seed

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
        return self.data.count(self.main.targets) if self.trainings else self.data.size

    @property
    def teacher_request(self) -> Request:
        return reduce(or_, (step.teacher_request for step in self.trainings), NOTHING)

    @property
    def uses_teacher(self) -> bool:
        return self.is_taught_from(0)

    def is_taught_from(self, number: int) -> bool:
        """Whether a teacher is used in this step or a later one."""
        return any(isinstance(step, Training) and step.uses_teacher for step in self.steps[number:])

    def with_trainings(self, trainings: Iterable[Training]) -> ArmPlan:
        """The same with its training steps replaced by these, in order."""
        new = iter(trainings)
        return replace(self, steps=tuple(next(new) if isinstance(step, Training) else step for step in self.steps))

    def cost(self, teacher: float) -> float:
        """In rows × parameters they pass through: a training step is three passes, a live teacher one of its own."""
        small, evaluator = active_parameters(self.start.network), self.data.evaluator
        learnt = sum(
            self.data.count(step.targets)
            * step.schedule.epochs
            * (3 * small + (teacher if step.teacher_request.want & ATTENTION_PARTS else 0.0))
            for step in self.trainings
        )
        evals = sum(step.measurements for step in self.trainings if step.evaluated)
        dev, test = evaluator.passes
        tests = 1 + self.intermediates
        return learnt + small * (dev * len(evaluator.dev) * evals + test * evaluator.test_rows * tests)

    @property
    def intermediates(self) -> int:
        """Models that are tested on the way: of a chain of passes, the first before all of them."""
        if self.tested != "passes":
            return max(0, sum(map(self.is_level, range(len(self.steps)))) - 1)
        measured = sum(map(self.is_measured, range(len(self.steps))))
        return measured + (self.first_pass < len(self.steps)) - self.is_measured(len(self.steps) - 1)

    @property
    def first_pass(self) -> int:
        """The number of the step that applies the first pass; behind the last one, where none does."""
        return next((n for n, step in enumerate(self.steps) if isinstance(step, Apply)), len(self.steps))

    def is_level(self, number: int) -> bool:
        """Whether a training is that of one sparsity, in a search for a ticket."""
        step = self.steps[number]
        return self.tested == "trainings" and isinstance(step, Training) and step.name == MAIN

    def is_measured(self, number: int) -> bool:
        """Whether the model is measured behind this step: a pass, or a training after one, that no rewind undoes."""
        if self.tested != "passes":
            return False
        undone = number + 1 < len(self.steps) and isinstance(self.steps[number + 1], Rewind)
        return number >= self.first_pass and isinstance(self.steps[number], Apply | Training) and not undone


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
    run = resolve(run, setup.info)
    tables = (run.objective, *(stage.objective for stage in run.stages.values()))
    objectives = [from_table(table) for table in tables if table]  # passes alone have none
    needed = reduce(or_, map(wants, objectives), Want.NOTHING)
    run = _with_class_weights(setup.task.resolve(run, setup, needed), setup.data)
    task = replace(setup.task, knobs=run)
    if given is None and run.student_from:
        watcher.say(f"loading the {'model' if run.kind == 'compress' else 'student'} {run.student_from}")
        given = task.load(run.student_from, new_head=True)
    owner = given or setup.teacher or setup.init
    assert owner is not None
    run = run.but(student=_settled(run.student, owner.network, watcher))
    start = start_of(run.student, task, setup, given, owner)
    run = _with_kept_layers(run, start.layers, setup)
    student = Model(start.network, owner.processor)
    _check_task(task, run.student.family, objectives)
    if objectives:
        task.check(run, setup, student, objectives, needed)
    data = _training_data(run, task, setup, student, watcher)
    if given is not None and not given.source:
        data = replace(data, fingerprints={**data.fingerprints, "student": fingerprint(given.network)})
    shape = shape_of(start.network)
    run = run.but(train=run.train.at_width(shape.hidden, data.info))
    check_best_by(run.train.best_by, data.info, data.evaluator, setup.teacher is not None)
    rows = ArmRows(run, task, setup)
    arm = ArmPlan(name, run, start, (), data, recipe=run.recipe, processor=student.processor, source=rows)
    return _with_steps(arm, setup, shape)


def _settled(shape: Shrink, owner: PreTrainedModel, watcher: Watcher) -> dict[str, Any]:
    """With its family decided, and said where a preset cannot have the one that it is made for."""
    found = shape.settled_for(owner)
    if shape.family == "auto" and shape.preset in SMALL and found.family == SAME:
        watcher.say(f"a {type(owner).__name__} cannot be an ELECTRA: the student keeps its architecture")
    return found.model_dump(exclude_unset=True) | {"family": found.family}


def _with_kept_layers(run: Run, layers: Sequence[int], setup: Setup) -> Run:
    """The run with `kept` in layer maps as numbers: a head reads the last layer, so that learns from the last."""
    if not layers or setup.teacher is None:
        return run
    kept = ",".join(map(str, [*(layer + 1 for layer in layers[:-1]), shape_of(setup.teacher.network).layers]))

    def settled(table: ObjectiveTable) -> ObjectiveTable:
        return {term: {**one, "layers": kept} if one.get("layers") == KEPT else one for term, one in table.items()}

    stages = {name: {**one.model_dump(), "objective": settled(one.objective)} for name, one in run.stages.items()}
    return run.but(objective=settled(run.objective), stages=stages)


def _with_steps(arm: ArmPlan, setup: Setup, shape: Shape) -> ArmPlan:
    """With the steps of its recipe, fitted to the shapes of student and teacher and to the rows."""
    assert isinstance(arm.run, Run)
    big = shape_of(setup.teacher.network) if setup.teacher else shape
    steps = planned_steps(arm.run, setup.info, shape, big)
    arm = replace(arm, steps=steps)
    arm = arm.with_trainings(on_labels(step.over(arm.data), arm.data) for step in arm.trainings)
    if setup.teacher:
        maps = (bridges(step.objective, shape, big) for step in arm.trainings)
        arm = replace(arm, bridges={key: widths for of_step in maps for key, widths in of_step.items()})
    if not arm.trainings:  # what the teacher makes of the training rows is of no use
        return replace(arm, data=replace(arm.data, for_teacher=arm.data.for_teacher[1:]))
    alone = len(steps) == 1 and arm.data.has_gold and not arm.uses_teacher
    plain = to_table(setup.task.baseline(arm.main.objective))
    return replace(arm, supervised=alone and to_table(arm.main.objective) == plain)


def _training_data(run: Run, task: Task, setup: Setup, student: Model, watcher: Watcher) -> EncodedData:
    """The shared rows in the student's tokens, and those that the run adds."""
    data = _encoded(task, setup, student)
    for note in data.notes if data is not setup.data else ():
        watcher.say(note)
    return task.augmented(run, setup, data, watcher)


def _with_class_weights(run: Run, data: EncodedData) -> Run:
    stages = {name: stage.model_dump() for name, stage in run.stages.items()}
    stages = {name: {**one, "objective": with_class_weights(one["objective"], data)} for name, one in stages.items()}
    return run.but(objective=with_class_weights(run.objective, data), stages=stages)


def _encoded(task: Task, setup: Setup, student: Model) -> EncodedData:
    """The shared data, or the same rows in the tokens of a student that has its own."""
    shared = setup.data
    same = student.processor is shared.processor or tokenizers_equal(student.processor, shared.processor)
    if same and task.same_encoding(setup, student):
        return shared
    found = task.encode(setup.splits, student, Silent(), setup.teacher)
    evaluator = shared.evaluator if same and found.info == shared.info else found.evaluator
    return replace(found, for_teacher=shared.for_teacher, evaluator=evaluator)


def planned_steps(run: Run, info: TaskInfo, student: Shape, teacher: Shape) -> tuple[PlannedStep, ...]:
    """The recipe's steps with the run's own objectives and schedules, in order."""
    recipe = run.recipe_for(info)
    declared = recipe.every_step(info) if recipe else [Train(from_table(run.objective))]
    known = {step.name for step in declared if isinstance(step, Train)}
    added = {name: stage for name, stage in run.stages.items() if name not in known}
    before = [Train(from_table(stage.objective), name) for name, stage in added.items() if not stage.after]
    after = [Train(from_table(stage.objective), name) for name, stage in added.items() if stage.after]
    steps: list[PlannedStep] = []
    final = False
    for step in [*before, *declared, *after]:
        if isinstance(step, Train):
            final = final or step.name == MAIN
            steps += _trainings(step.name, run, student, teacher, final)
            continue
        if isinstance(step, Rewind):
            _check_rewind(run.recipe, steps, step)
        steps.append(step)
    _check_student(run.student.family, steps, student)

    def requesting(step: Training) -> Training:
        mine, theirs = requests(step.objective, student, teacher)
        return replace(step, student_request=mine, teacher_request=theirs)

    found = tuple(requesting(step) if isinstance(step, Training) else step for step in steps)
    changed: list[Pass] = []  # the passes so far that bring another tokenizer
    for step in found:
        if isinstance(step, Apply) and step.compress.retokenizes:
            changed.append(step.compress)
        elif isinstance(step, Training) and step.uses_teacher and changed:
            check_after_retokenizing(run, changed, step.teacher_request.want, info.over_vocabulary)
    return found


def _check_rewind(recipe: str, steps: Sequence[PlannedStep], rewind: Rewind) -> None:
    """To a snapshot that was taken, and whose weights still have the shapes of the model."""
    taken = [number for number, step in enumerate(steps) if step == Snapshot(rewind.to)]
    if not taken:
        raise KnobError(
            f"the recipe '{recipe}' rewinds to a snapshot '{rewind.to}' that no earlier step takes",
            f'put Snapshot("{rewind.to}") before Rewind("{rewind.to}")',
        )
    for step in steps[taken[-1] :]:
        if isinstance(step, Apply) and (step.compress.reshapes or step.compress.retokenizes):
            raise KnobError(
                f"the recipe '{recipe}' rewinds to the snapshot '{rewind.to}', but '{step.compress.name}' gives the "
                "weights other shapes in between",
                f'take Snapshot("{rewind.to}") behind that pass',
            )


def _trainings(name: str, run: Run, student: Shape, teacher: Shape, final: bool) -> list[Training]:
    """A step as the run has it; a progressive one layer by layer."""
    translate = (run.model_extra or {}).get("translate")
    main = str(translate.targets) if translate else ""  # where the task has several targets
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
    each = schedule.but(epochs=schedule.epochs / len(tables), max_steps=-(-schedule.max_steps // len(tables)))
    return [
        Training(f"{name}-{layer}", from_table(table), each, main, focus=layer, final=final)
        for layer, table in tables.items()
    ]


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


def _check_task(task: Task, name: str, objectives: Sequence[Objective]) -> None:
    """A family or an objective may not serve every task."""
    family, kind = find_family(name), task.info.kind
    if family.serves and kind not in family.serves:
        raise KnobError(f"a {family.name} student does not serve --task {kind}", "set --student.family same")
    for part in (part for objective in objectives for part in misfits(objective, task.info)):
        raise MismatchError(f"{part} does not serve --task {kind}", part.remedy or task.remedy)


def _check_student(family: str, steps: Sequence[PlannedStep], student: Shape) -> None:
    """A model to start from may be another than the knobs ask for; a recurrent one has neither layers nor heads."""
    if family not in ("auto", "same") and not is_family(student.architecture, family):
        raise KnobError(
            f"the student is to be of family '{family}', but the model it starts from is a {student.architecture}",
            f"take that model as it is with --student.family same, start from a {family}, or leave --student-from out",
        )
    for step in (step for step in steps if isinstance(step, Training) and not has_layers(student.architecture)):
        if wanted := wants(step.objective) & _OF_LAYERS:
            raise MismatchError(
                f"the objective compares {wanted} of both models, which a {student.architecture} does not have",
                "use --recipe bilstm, static, hinton or logits, or give the student layers with --student.family same",
            )


def on_labels(step: Training, data: EncodedData) -> Training:
    """A step that asks nothing of a teacher, on labelled rows alone: others would only thin out its batches.

    Where people left rows without labels, it takes as many steps as over all rows, but no more than 20 passes or 1,000
    steps, whichever is more: few rows need steps rather than passes (Zhang et al. 2021), and 20 passes are plenty
    (Mosbach et al. 2021). The learning rate falls over these steps, dev is measured at least 20 times, and patience
    lasts for the same share of the training. `--max-steps` are taken as they stand.
    Augmented rows do not count: they belong to the teacher's students."""
    rows, people = data.rows, data.size - data.augmented
    unasked = not step.teacher_request.want and step.targets in (ALL, GOLD)
    if not unasked or GOLD not in rows or rows[GOLD] is rows.get(ALL):
        return step
    step, schedule = replace(step, targets=GOLD), step.schedule
    at_once = schedule.batch_size * schedule.accumulate * world_size()
    a_pass, over_all = (math.ceil(count / at_once) for count in (len(rows[GOLD]), people))
    if len(rows[GOLD]) == people:
        return step
    passes = schedule.max_steps / over_all if schedule.max_steps else schedule.epochs  # over all rows
    steps = schedule.max_steps or min(
        math.ceil(passes * over_all),
        max(FEW_ROW_PASSES * a_pass, FEW_ROW_STEPS, math.ceil(passes * a_pass)),
    )
    epochs = steps / a_pass
    epochs = epochs if math.ceil(epochs * a_pass) <= steps else math.nextafter(epochs, 0.0)
    often = passes * schedule.evals_per_epoch
    evals = math.ceil(max(often, FEW_ROW_EVALS))
    patience = math.ceil(schedule.patience * evals / often)
    return replace(step, schedule=schedule.but(epochs=epochs, patience=patience), evals=evals)


def check_best_by(best_by: BestBy, info: TaskInfo, evaluator: Evaluator, teacher: bool) -> None:
    """Refuses to choose weights by what cannot be told."""
    asked = f"--train.best-by {best_by}"
    if best_by in ("agreement", "both") and not (teacher and evaluator.agrees):
        why = f"not for --task {info.kind}" if teacher else "and this run has none"
        raise KnobError(f"{asked} needs a teacher to agree with, {why}", "--train.best-by labels")
    labelled = evaluator.labels_on_dev
    if best_by in ("labels", "both") and not labelled:
        raise KnobError(f"{asked} needs labels on dev, and none of its rows has one", "--train.best-by agreement")
    if best_by == "both" and not info.higher_is_better:
        raise KnobError(
            f"{asked} is the mean of {info.metric} and agreement, but a lower {info.metric} is better",
            "choose a metric of which more is better with --metric, or --train.best-by agreement",
        )


def check_transfer(task: Task, data: DataSettings, arms: Iterable[ArmPlan]) -> None:
    """Refuses texts without labels that no step would learn from."""
    if not any(step.takes_unlabelled for arm in arms for step in arm.trainings):
        why = "no step of this run asks the teacher for what they lack, so they would teach nothing"
        refuse_unlabelled(data, why, f"--recipe {task.unlabelled_recipe}")


def label_notes(arms: Sequence[ArmPlan]) -> list[str]:
    """On arms that learn from some of the rows alone, since people left others without labels."""
    alike: dict[tuple[int, float], list[str]] = {}
    for arm in (arm for arm in arms if arm.trainings and arm.main.evals):
        alike.setdefault((arm.rows, arm.main.schedule.epochs), []).append(arm.title or arm.name)
    return [
        f"{', '.join(names)}: trained on the {rows:,} labelled rows alone, for at most {epochs:.3g} epochs of them (no "
        "more steps than over all rows), with the weights that are best on dev."
        for (rows, epochs), names in alike.items()
    ]


def with_baselines(arms: dict[str, ArmPlan], task: Task, several: bool = True) -> list[ArmPlan]:
    """An arm that learns from labels alone is the baseline of its student; others share one that is added.

    It is named after a column: the name is that of a folder, and must mean the same student when a run is resumed, also
    where other columns have come or gone."""
    same = {name: _start_and_schedule(arm, task) for name, arm in arms.items()}
    known = {same[name]: name for name, arm in reversed(arms.items()) if arm.supervised}
    found: list[ArmPlan] = []
    for name, arm in arms.items():
        asked = isinstance(arm.run, Run) and arm.run.baseline and arm.uses_teacher and arm.data.has_gold
        if same[name] not in known and asked:
            known[same[name]] = f"plain-{name}" if several else "plain"
            # The same student, taught by what people gave alone.
            alone = Training(MAIN, task.baseline(arm.main.objective), arm.run.train, GOLD).over(arm.data)
            alone = on_labels(alone, arm.data)
            plain = replace(arm, steps=(alone,), bridges={}, column=False, supervised=True, recipe="")
            found.append(replace(plain, name=known[same[name]]))
        than = known.get(same[name], "")
        found.append(replace(arm, baseline=than if than != name else ""))
    return found


def _start_and_schedule(arm: ArmPlan, task: Task) -> str:
    """Students that are alike but for what they learn from share this."""
    knobs = arm.run.model_dump_json(include={"student", "student_from", "train", "seq2seq", "network", "image"})
    return f"{knobs} {task.baseline(arm.main.objective) if arm.trainings else ''}"


def active_parameters(network: PreTrainedModel) -> float:
    """The parameters that a row passes through: looking up a token costs nothing, scoring all tokens does."""
    head = network.get_output_embeddings()
    tied = head is not None and any(head.weight is table for table in tables_of(network))
    return float(count_parameters(network)[1] + (head.weight.numel() if tied else 0))
