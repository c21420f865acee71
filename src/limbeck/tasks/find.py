"""Which task a run is: the one named, else the one that the model's head is for. The only dispatch on a task."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import limbeck.tasks
from limbeck.core.task import TaskInfo
from limbeck.measure.size import is_ctranslate2
from limbeck.students.load import kind_of, kind_saved
from limbeck.tasks.base import TASKS, Model, Task


def task_of(knobs: Any, model: Model | str | None) -> Task:
    """Where neither a person nor the head tells, it is text classification, and the labels tell which."""
    for module in pkgutil.iter_modules(limbeck.tasks.__path__):
        import_module(f"limbeck.tasks.{module.name}")
    kind = knobs.data.task
    if kind == "auto":
        kind = kind_of_model(model, knobs.trust_remote_code) or "classify"
    return TASKS[kind](TaskInfo(kind=kind), knobs)


def kind_of_model(model: Model | str | None, trust_remote_code: bool = False) -> str | None:
    if not model:
        return None
    if isinstance(model, Model):
        return kind_of(model.network)
    return "translate" if is_ctranslate2(model) else kind_saved(model, trust_remote_code)
