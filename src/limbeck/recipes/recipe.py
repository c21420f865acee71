"""A paper as a plan: which student, and which steps it goes through."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Literal

from limbeck.core.card import METHODS, Paper, card_of
from limbeck.core.compress import Pass
from limbeck.core.errors import KnobError
from limbeck.core.knob import RENAMED, Settings, knob
from limbeck.core.objective import Objective
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo

MAIN = "main"  # the training whose objective and schedule are the run's own
ObjectiveTable = dict[str, dict[str, Any]]  # method name → weight and knobs: an objective in run files and flags


class StageSettings(Settings):
    """A training step beside the main one, as run files and flags know it."""

    epochs: float = knob(0.0, "passes over the training rows; 0: as many as the main step", at_least=0)
    learning_rate: float = knob(0.0, "peak of the learning rate; 0: by `rate`", at_least=0)
    rate: float = knob(1.0, "share of the main step's learning rate", above=0)
    decay: Literal["as train", "linear", "cosine", "constant"] = knob(
        "as train", "how the rate falls after warm-up; as train: as in the main step"
    )
    progressive: bool = knob(
        False, "one layer after another, from the first: a tenth of the rate for those below, none for those above"
    )
    after: bool = knob(False, "comes after the main step instead of before it")
    targets: Literal["", "gold", "beam", "closest"] = knob("", "of seq2seq: the targets; as the main step's")
    objective: ObjectiveTable = knob({}, "terms and weights")


@dataclass(frozen=True)
class Train:
    """Trains towards an objective. `settings` say how where it differs from the run's schedule."""

    objective: Objective
    name: str = MAIN
    settings: StageSettings = field(default_factory=StageSettings)


@dataclass(frozen=True)
class Apply:
    """Applies a compression pass; `calibrate` training rows are shown to one that looks at data."""

    compress: Pass
    calibrate: int = 0

    def __str__(self) -> str:
        return f"apply {self.compress!r}"


@dataclass(frozen=True)
class Snapshot:
    """Keeps the weights under a name."""

    name: str

    def __str__(self) -> str:
        return f"take the snapshot '{self.name}'"


@dataclass(frozen=True)
class Rewind:
    """Takes the weights of a snapshot back. The mask stays."""

    to: str

    def __str__(self) -> str:
        return f"rewind to the snapshot '{self.to}'"


@dataclass(frozen=True)
class Repeat:
    times: int
    steps: tuple[Step, ...]


Step = Train | Apply | Snapshot | Rewind | Repeat


def flat(steps: Sequence[Step]) -> Iterator[Train | Apply | Snapshot | Rewind]:
    """In their order, those of a Repeat as often as it says."""
    for step in steps:
        if isinstance(step, Repeat):
            for _ in range(step.times):
                yield from flat(step.steps)
        else:
            yield step


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    paper: Paper
    steps: Callable[[TaskInfo], tuple[Step, ...]]
    tasks: tuple[Kind, ...] = TEXT_KINDS
    defaults: Mapping[str, Any] = field(default_factory=dict)  # tables of knobs, where a person says nothing else

    def every_step(self, info: TaskInfo) -> list[Train | Apply | Snapshot | Rewind]:
        """In their order, those of a Repeat as often as it says."""
        return list(flat(self.steps(info)))

    def trainings(self, info: TaskInfo) -> dict[str, Train]:
        """The training steps by name, in their order."""
        return {step.name: step for step in self.every_step(info) if isinstance(step, Train)}

    def objective(self, info: TaskInfo) -> Objective:
        """Of the main step."""
        return self.trainings(info)[MAIN].objective

    def stages(self, info: TaskInfo) -> dict[str, StageSettings]:
        """The other training steps, as run files have them."""
        names = list(self.trainings(info))
        return {
            name: step.settings.but(objective=to_table(step.objective), after=names.index(name) > names.index(MAIN))
            for name, step in self.trainings(info).items()
            if name != MAIN
        }

    @property
    def text(self) -> str:
        """The docstring of the recipe's file: steps, sources, departures, costs."""
        return inspect.cleandoc(inspect.getmodule(self.steps).__doc__ or "")


RECIPES: dict[str, Recipe] = {}


def recipe(plan: Recipe) -> Recipe:
    RECIPES[plan.name] = plan
    return plan


def find(name: str) -> Recipe:
    if name not in RECIPES:
        close = difflib.get_close_matches(name, RECIPES, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise KnobError(
            f"there is no recipe '{name}'", f"{hint}choose one of {', '.join(RECIPES)}; `limbeck methods` explains them"
        )
    return RECIPES[name]


class _Share(Settings):
    """What a table says of a term beside the term's own knobs."""

    weight: float = knob(1.0, "share in the sum", at_least=0)


def to_table(objective: Objective) -> ObjectiveTable:
    """An objective as data. Two terms of one method cannot be told apart in a table and are refused."""
    table: ObjectiveTable = {}
    for weight, part in objective.weighted:
        name = card_of(part).name
        if name in table:
            raise KnobError(f"the objective holds '{name}' twice", "add their weights and write it once")
        table[name] = {"weight": weight, **part.model_dump()}
    return table


def from_table(table: Mapping[str, Mapping[str, Any]]) -> Objective:
    """The objective a table describes. Every entry is checked, also one of weight 0."""
    parts: list[Objective] = []
    for name, entry in table.items():
        if name not in METHODS:
            hint = f"'{name}' is called '{RENAMED[name]}' now; " if name in RENAMED else ""
            raise KnobError(f"there is no objective '{name}'", f"{hint}choose among {', '.join(METHODS)}")
        knobs = dict(entry)
        share = _Share.of({"weight": knobs.pop("weight", 1.0)}, within=f"objective.{name}")
        term = METHODS[name].cls.of(knobs, within=f"objective.{name}")
        assert isinstance(term, Objective)
        parts.append(share.weight * term)
    if not parts:
        raise KnobError("the objective is empty", "give it at least one term, as in --objective.labels.weight 1")
    return reduce(add, parts)
