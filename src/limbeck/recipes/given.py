"""What a person hands over in Python: places of models and data become knobs, things in hand are taken along."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from transformers import PreTrainedModel

from limbeck.core.errors import KnobError
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import Run
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import clip_max_length

R = TypeVar("R", bound=Run)
AnyModel: TypeAlias = str | Path | PreTrainedModel | Model


@dataclass(frozen=True)
class Given(Generic[R]):
    run: R
    data: object  # None where the run says where it lies; the same for the models
    teacher: Model | None
    student: Model | None


def given(
    run: R,
    teacher: AnyModel,
    data: object,
    student: Shrink | AnyModel | None,
    out: str | Path,
    tokenizer: Any,
    **knobs: Any,
) -> Given[R]:
    """The run with all that can be written down; without a folder for the results it gets a temporary one."""
    taught, where = _model(teacher, tokenizer)
    knobs |= {"teacher": where} if where else {}
    started: Model | None = None
    if isinstance(student, Shrink):  # only what was said: the rest is the recipe's to choose
        knobs["student"] = student.model_dump(exclude_unset=True)
    elif student is not None:
        started, where = _model(student, tokenizer)
        knobs |= {"student_from": where} if where else {}
    if isinstance(data, str | Path):
        knobs["data"] = run.data.but(train=str(data)).model_dump(exclude_unset=True)
        data = None
    place = str(out) or run.out or tempfile.mkdtemp(prefix="limbeck-")
    return Given(run.but(**knobs, out=place), data, taught, started)


def _model(model: Any, tokenizer: Any) -> tuple[Model | None, str]:
    """A model in hand, or the place of one."""
    if isinstance(model, str | Path):
        return None, str(model)
    if not isinstance(model, Model | PreTrainedModel):
        raise KnobError(
            f"a {type(model).__name__} is not a model",
            "give a folder, a hub id, a model of transformers, or, for the student, a Shrink: Shrink(layers=3)",
        )
    found = model if isinstance(model, Model) else Model(model, tokenizer)
    if found.tokenizer is None:
        raise KnobError(
            f"the {type(found.network).__name__} came without its tokenizer", "give it too, as in tokenizer=tokenizer"
        )
    return replace(found, tokenizer=clip_max_length(found.tokenizer, found.network)), ""
