"""A run's stages as phases of training: towards what, how long, what of each model is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import Objective, bridges, requests, wants
from limbeck.core.record import Shape
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import ATTENTION_PARTS, NOTHING, ONLY_LOGITS, Request, Want
from limbeck.functional.layermap import layer_pairs
from limbeck.recipes.recipe import Stage, Table, from_table
from limbeck.recipes.run import Run
from limbeck.students.families import has_layers, is_family
from limbeck.training.schedule import Schedule

MAIN = "main"


@dataclass(frozen=True)
class Phase:
    name: str
    objective: Objective
    schedule: Schedule
    teacher: Teacher = NoTeacher()  # noqa: RUF009
    of_student: Request = ONLY_LOGITS
    of_teacher: Request = NOTHING
    focus: int = 0  # the one layer that learns; 0: all
    after: bool = False  # comes after the main one
    targets: str = ""  # what a translator learns to write

    @property
    def watched(self) -> bool:
        """Measured on the dev split on the way, and its best weights kept; else the last ones."""
        answers = any(weight and part.answers for weight, part in self.objective.weighted)
        return answers and (self.name == MAIN or self.after)


@dataclass(frozen=True)
class Plan:
    """All phases of a student, and what they need together."""

    phases: tuple[Phase, ...]
    bridges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def of_teacher(self) -> Request:
        total = NOTHING
        for phase in self.phases:
            total = total | phase.of_teacher
        return total

    @property
    def taps_student(self) -> bool:
        return any(phase.of_student.want & ATTENTION_PARTS for phase in self.phases)

    @property
    def epochs(self) -> float:
        return sum(phase.schedule.epochs for phase in self.phases)

    @property
    def main(self) -> Phase:
        return next(phase for phase in self.phases if phase.name == MAIN)

    @property
    def objective(self) -> Objective:
        """Of the main phase."""
        return self.main.objective

    def taught(self, by: Callable[[Phase], Teacher]) -> Plan:
        return replace(self, phases=tuple(replace(phase, teacher=by(phase)) for phase in self.phases))


def single(objective: Objective, schedule: Schedule, targets: str = "") -> Plan:
    """One phase that looks at answers only."""
    return Plan((Phase(MAIN, objective, schedule, targets=targets),))


def plan(run: Run, objective: Objective, student: Shape, teacher: Shape) -> Plan:
    """Every phase in order, checked against the shapes of both models."""
    around = [phase for name, stage in run.stages.items() for phase in _phases(name, stage, run, student, teacher)]
    main = Phase(MAIN, objective, run.train, targets=run.translate.targets)
    phases = [*(p for p in around if not p.after), main, *(p for p in around if p.after)]
    _check_family(run.student.family, student)
    _check_layers(phases, student)
    checked = tuple(
        replace(phase, of_student=of_student, of_teacher=of_teacher)
        for phase in phases
        for of_student, of_teacher in [requests(phase.objective, student, teacher)]
    )
    needed = {name: widths for p in phases for name, widths in bridges(p.objective, student, teacher).items()}
    return Plan(checked, needed)


def _check_family(family: str, student: Shape) -> None:
    """A model to start from may be another than the knobs, or a recipe's defaults, say."""
    if family not in ("auto", "same") and not is_family(student.architecture, family):
        raise KnobError(
            f"the student is to be of family '{family}', but the model it starts from is a {student.architecture}",
            f"take that model as it is with --student.family same, start from a {family}, or leave --student-from out",
        )


def _check_layers(phases: Sequence[Phase], student: Shape) -> None:
    """Not every model has layers and heads to compare with a teacher's."""
    for phase in phases:
        wanted = wants(phase.objective) & (Want.HIDDEN | Want.POOLED | ATTENTION_PARTS)
        if wanted and not (student.layers and has_layers(student.architecture)):
            raise MismatchError(
                f"the objective compares {wanted} of both models, which a {student.architecture} does not have",
                "use --recipe hinton or logits with it, or give the student layers: --student.family same",
            )


def _phases(name: str, stage: Stage, run: Run, student: Shape, teacher: Shape) -> list[Phase]:
    schedule = run.train.but(
        epochs=stage.epochs or run.train.epochs,
        learning_rate=stage.learning_rate or stage.rate * run.train.learning_rate,
        decay=run.train.decay if stage.decay == "as train" else stage.decay,
    )
    if not stage.progressive:
        targets = stage.targets or run.translate.targets
        return [Phase(name, from_table(stage.objective), schedule, after=stage.after, targets=targets)]
    tables = _by_layer(stage.objective, student, teacher)
    return [
        Phase(f"{name}-{layer}", from_table(table), schedule.but(epochs=schedule.epochs / len(tables)), focus=layer)
        for layer, table in tables.items()
    ]


def _by_layer(table: Table, student: Shape, teacher: Shape) -> dict[int, Table]:
    """The terms of each layer, those that compare layers bound to it. One that they all leave out has no phase."""
    pairs = {
        term: dict(layer_pairs(entry["layers"], student.layers, teacher.layers))
        for term, entry in table.items()
        if "layers" in entry and entry["weight"]
    }
    named = {layer for of_term in pairs.values() for layer in of_term}
    found: dict[int, Table] = {}
    for layer in sorted(named) or range(1, student.layers + 1):
        bound = {term: {"layers": f"{layer}:{of_term[layer]}"} for term, of_term in pairs.items() if layer in of_term}
        found[layer] = {
            term: {**entry, **bound.get(term, {})}
            for term, entry in table.items()
            if term in bound or "layers" not in entry
        }
    return found
