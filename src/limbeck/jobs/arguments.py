"""Turns the arguments of the Python API into a run; models and data in hand are passed through."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from transformers import PreTrainedModel

from limbeck.core.errors import KnobError
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.runfile import overlay
from limbeck.jobs.settings import Job
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import clip_max_length
from limbeck.tasks.base import Model

R = TypeVar("R", bound=Job)
K = TypeVar("K", bound=TaskKnobs)
AnyModel: TypeAlias = str | Path | PreTrainedModel | Model


@dataclass(frozen=True)
class Arguments(Generic[R]):
    run: R
    data: object = None  # None where the run says where it lies; the same for the models
    teacher: Model | None = None
    student: Model | None = None


_TRAIN, _DATA = ("epochs", "learning_rate", "batch_size"), ("task", "text_column", "label_column", "max_length")
_TOP = ("recipe", "seeds", "seed", "baseline", "budget_minutes", "columns")


def common_knobs(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that most people want, as the knobs they are: epochs=3 is train.epochs."""
    named = {name: value for name, value in keywords.items() if value is not None}
    return {
        **{name: named[name] for name in _TOP if name in named},
        "train": {name: named[name] for name in _TRAIN if name in named},
        "data": {name: named[name] for name in _DATA if name in named},
    }


def run_of(cls: type[K], run: K | None, reading: Mapping[str, Any] | None, common: Any, knobs: Any) -> K:
    """The run in hand, or one of these keywords."""
    named = overlay(overlay({"data": dict(reading or {})}, common), knobs)
    named = {name: value for name, value in named.items() if value != {}}
    return cls(**named) if run is None else type(run)(**overlay(run.model_dump(exclude_unset=True), named))


def parse_arguments(
    run: R,
    teacher: AnyModel,
    data: object,
    student: Shrink | AnyModel | None,
    out: str | Path,
    processor: Any,
    **own: Any,
) -> Arguments[R]:
    """The run with all that can be written down; without a folder for the results it gets a temporary one."""
    knobs = dict(own)
    hand, source = model_of(teacher, processor)
    knobs |= {"teacher": source} if source else {}
    start: Model | None = None
    if isinstance(student, Shrink):  # only what was set: the rest is the recipe's to choose
        knobs["student"] = student.model_dump(exclude_unset=True)
    elif student is not None:
        start, source = model_of(student, processor)
        knobs |= {"student_from": source} if source else {}
    if isinstance(data, str | Path):
        knobs["data"] = run.data.but(train=str(data)).model_dump(exclude_unset=True)
        data = None
    folder = str(out) or run.out or tempfile.mkdtemp(prefix="limbeck-")
    return Arguments(run.but(**knobs, out=folder), data, hand, start)


def model_of(model: Any, processor: Any) -> tuple[Model | None, str]:
    """A model in hand, or the folder or hub id of one."""
    if isinstance(model, str | Path):
        return None, str(model)
    if not isinstance(model, Model | PreTrainedModel):
        raise KnobError(
            f"a {type(model).__name__} is not a model",
            "give a folder, a hub id, a model of transformers, or, for the student, a Shrink: Shrink(layers=3)",
        )
    found = model if isinstance(model, Model) else Model(model, processor)
    if found.processor is None:
        raise KnobError(
            f"the {type(found.network).__name__} came without its tokenizer", "give it too, as in tokenizer=tokenizer"
        )
    return replace(found, processor=clip_max_length(found.processor, found.network)), ""
