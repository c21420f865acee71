"""A paper as a plan: which student, which objective, which schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from limbeck.core.card import METHODS, Paper, card_of
from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings, knob
from limbeck.core.objective import Objective
from limbeck.core.task import OF_TEXTS, Kind, Task

Table = dict[str, dict[str, Any]]  # method name → weight and knobs: an objective as run files and flags write it


@dataclass(frozen=True)
class Recipe:
    name: str
    summary: str
    paper: Paper
    objective: Callable[[Task], Objective]
    serves: tuple[Kind, ...] = OF_TEXTS
    mask: str = "token"  # what MaskSettings.kind is when left open
    ask: str = "masked"
    family: str = "same"  # what Shrink.family is when left open


class Share(Settings):
    """What a table says of a term beside the term's own knobs."""

    weight: float = knob(1.0, "share in the sum", at_least=0)


RECIPES: dict[str, Recipe] = {}


def recipe(plan: Recipe) -> Recipe:
    RECIPES[plan.name] = plan
    return plan


def find(name: str) -> Recipe:
    if name not in RECIPES:
        raise KnobError(
            f"there is no recipe '{name}'", f"choose one of {', '.join(RECIPES)}; `limbeck methods` explains them"
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
