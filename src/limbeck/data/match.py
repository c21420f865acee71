"""Which output of a model each class of the data belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from limbeck.core.errors import MismatchError
from limbeck.core.task import TaskInfo

_GENERIC = re.compile(r"label_\d+", re.IGNORECASE)


def match(task: TaskInfo, labels: Sequence[str], whose: str, ordered: bool) -> tuple[TaskInfo, list[int]]:
    """The task in the model's order, and the model's position of each class. Generic names keep the data's own."""
    if task.kind == "regress":
        if len(labels) != 1:
            raise MismatchError(
                f"the data holds numbers, but {whose} has {len(labels)} outputs ({_some(labels)})",
                "use a regression model, or pass --data.task classify",
            )
        return task, [0]
    if is_generic(labels):
        return _by_position(task, labels, whose, ordered)
    places = {label.strip().casefold(): place for place, label in enumerate(labels)}
    unknown = [name for name in task.labels if name.casefold() not in places]
    if unknown:
        same = all(map(str.isdecimal, task.labels)) and len(task.labels) == len(labels)
        rename = (
            f"name the data's numbers in rising order: --data.classes {','.join(labels)}"
            if same
            else ("write the data's labels as it does")
        )
        raise MismatchError(
            f"{whose} does not know the label{'s' * (len(unknown) > 1)} {_some(unknown)} of the data; "
            f"it knows {_some(labels)}",
            f"use a model trained on these labels; if the classes are the same under other names, {rename}",
        )
    return TaskInfo(kind=task.kind, labels=tuple(labels)), [places[name.casefold()] for name in task.labels]


def is_generic(labels: Sequence[str]) -> bool:
    """Whether a model calls its outputs LABEL_0, LABEL_1, …"""
    return all(map(_GENERIC.fullmatch, labels))


def permutation(names: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """The position of each name among labels that are the same in any order; None where they are others."""
    wanted, there = ([name.strip().casefold() for name in some] for some in (names, labels))
    if wanted == there:
        return list(range(len(there)))
    same = len(set(there)) == len(there) == len(wanted) and set(there) == set(wanted)
    return [there.index(name) for name in wanted] if same else None


def _by_position(task: TaskInfo, labels: Sequence[str], whose: str, ordered: bool) -> tuple[TaskInfo, list[int]]:
    """LABEL_0, LABEL_1, … carry no meaning: integers count as positions, names only in an order that a flag gives."""
    if len(task.labels) != len(labels):
        raise MismatchError(
            f"the data has {len(task.labels)} classes ({_some(task.labels)}), "
            f"but {whose} has {len(labels)} ({_some(labels)})",
            "use a model trained on these labels, or list all of its classes in its order with --data.classes",
        )
    if ordered or task.labels in (tuple(labels), tuple(map(str, range(len(labels))))):
        return task, list(range(len(labels)))
    raise MismatchError(
        f"{whose} calls its classes {_some(labels)}, so it is unknown which of them is '{task.labels[0]}'",
        f"list the classes in the model's order: --data.classes {','.join(task.labels)}",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
