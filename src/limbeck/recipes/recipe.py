"""A paper as a plan: which student, which objective, which schedule, in which stages."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from limbeck.core.card import METHODS, Paper, card_of
from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob
from limbeck.core.objective import Objective
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo

Table = dict[str, dict[str, Any]]  # method name → weight and knobs: an objective as run files and flags write it


class Stage(Settings):
    """Training that comes before the main one, or after it, towards another objective."""

    epochs: float = knob(0.0, "passes over the training rows; 0: as many as the main stage", at_least=0)
    learning_rate: float = knob(0.0, "peak of the learning rate; 0: by `rate`", at_least=0)
    rate: float = knob(1.0, "share of the main stage's learning rate", above=0)
    decay: Literal["as train", "linear", "cosine", "constant"] = knob(
        "as train", "how the rate falls after warm-up; as train: as in the main stage"
    )
    progressive: bool = knob(
        False, "one layer after another, from the first: a tenth of the rate for those below, none for those above"
    )
    after: bool = knob(False, "comes after the main stage instead of before it")
    targets: Literal["", "gold", "beam", "closest"] = knob("", "of translate: what is written; as the main stage's")
    objective: Table = knob({}, "terms and weights")


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    paper: Paper
    objective: Callable[[TaskInfo], Objective]  # of the main stage
    stages: Callable[[TaskInfo], dict[str, Stage]] = lambda task: {}  # what comes before or after it, by name
    serves: tuple[Kind, ...] = TEXT_KINDS
    defaults: Mapping[str, Any] = field(default_factory=dict)  # tables of knobs, where a person says nothing else

    @property
    def text(self) -> str:
        """The docstring of the recipe's file: stages, sources, departures, costs."""
        return inspect.cleandoc(inspect.getmodule(self.objective).__doc__ or "")


class Share(Settings):
    """What a table says of a term beside the term's own knobs."""

    weight: float = knob(1.0, "share in the sum", at_least=0)


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


def to_table(objective: Objective) -> Table:
    """An objective as data. Two terms of one method cannot be told apart in a table and are refused."""
    table: Table = {}
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
            raise KnobError(f"there is no objective '{name}'", f"choose among {', '.join(METHODS)}")
        knobs = dict(entry)
        share = Share.of({"weight": knobs.pop("weight", 1.0)}, within=f"objective.{name}")
        term = METHODS[name].cls.of(knobs, within=f"objective.{name}")
        assert isinstance(term, Objective)
        parts.append(share.weight * term)
    if not parts:
        raise KnobError("the objective is empty", "give it at least one term, as in --objective.labels.weight 1")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
