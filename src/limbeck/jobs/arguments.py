"""Turns the arguments of the Python API into settings; models and data in hand are passed through."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from transformers import PreTrainedModel

from limbeck.core.errors import KnobError
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.settings import Job, Options, overlay
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import clip_max_length
from limbeck.tasks.base import Model

R = TypeVar("R", bound=Job, covariant=True)
K = TypeVar("K", bound=TaskKnobs)
AnyModel: TypeAlias = str | Path | PreTrainedModel | Model

# The keywords that most people want, by the table of the run file they stand in.
_COMMON = {
    "": ("recipe", "seeds", "seed", "baseline", "budget_minutes", "columns"),
    "train": ("epochs", "learning_rate", "batch_size"),
    "data": ("task", "text_column", "label_column", "max_length"),
}


@dataclass(frozen=True)
class Arguments(Generic[R]):
    run: R
    data: object = None  # None where the run says where it lies; the same for the models
    teacher: Model | None = None
    student: Model | None = None


def settings_of(cls: type[K], keywords: Options) -> tuple[K, object]:
    """A verb's keywords as settings, laid over the `run` in hand: epochs=3 is train.epochs. And data in hand."""
    run: K | None = keywords["run"]
    data: object = keywords["data"]
    common = {
        table: {name: keywords[name] for name in names if keywords.get(name) is not None}
        for table, names in _COMMON.items()
    }
    named = overlay({"data": dict(keywords.get("reading") or {})}, {**common.pop(""), **common})
    named = overlay(named, keywords["knobs"])
    if isinstance(data, str | Path):
        named, data = overlay(named, {"data": {"train": str(data)}}), None
    named = {name: value for name, value in named.items() if value != {}}
    return cls(**named) if run is None else type(run)(**overlay(run.model_dump(exclude_unset=True), named)), data


def parse_arguments(cls: type[R], keywords: Options, **own: object) -> Arguments[R]:
    """The settings with all that can be written down; without a folder for the results they get a temporary one."""
    run, data = settings_of(cls, keywords)
    knobs, student, start = dict(own), keywords["student"], None
    teacher, source = model_of(keywords["teacher"], keywords["tokenizer"])
    knobs |= {"teacher": source} if source else {}
    if isinstance(student, Shrink):  # only what was set: the rest is the recipe's to choose
        knobs["student"] = student.model_dump(exclude_unset=True)
    elif student is not None:
        start, source = model_of(student, keywords["tokenizer"])
        knobs |= {"student_from": source} if source else {}
    folder = str(keywords["out"]) or run.out or tempfile.mkdtemp(prefix="limbeck-")
    return Arguments(run.but(**knobs, out=folder), data, teacher, start)


def model_of(model: object, processor: Any) -> tuple[Model | None, str]:
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
