"""Turns the arguments of the Python API into settings; models and data in hand are passed through."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pydantic.fields import FieldInfo

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError
from limbeck.core.knob import RENAMED
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.folder import TemporaryFolder
from limbeck.jobs.settings import Job, Options, overlay, undot
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import clip_max_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from limbeck.tasks.base import Model

    AnyModel: TypeAlias = str | Path | PreTrainedModel | Model
else:  # a verb that runs an exported model imports neither torch nor transformers
    AnyModel = object

R = TypeVar("R", bound=Job, covariant=True)
J = TypeVar("J", bound=Job)
K = TypeVar("K", bound=TaskKnobs)
F = TypeVar("F", bound=Callable[..., object])

# The keywords that most people want, by the tables of the run file that they may stand in: the first that a verb has.
_COMMON: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("recipe", "recipes", "seeds", "seed", "baseline", "budget_minutes", "columns", "beam", "rounds"), ("",)
    ),
    **dict.fromkeys(("student_from", "teacher_weights"), ("",)),
    **dict.fromkeys(("all_probabilities", "top", "max_new_tokens"), ("",)),
    **dict.fromkeys(("epochs", "learning_rate", "max_steps", "device"), ("train", "")),
    **dict.fromkeys(("batch_size", "threads"), ("train", "", "measure")),
    **dict.fromkeys(("task", "text_column", "pair_column", "label_column", "max_length", "limit"), ("data",)),
    "unlabelled": ("data",),
    "teacher_column": ("data",),
    **dict.fromkeys(("class_weights", "label_smoothing"), ("objective.labels",)),
    "metric": ("measure",),
    "layers": ("student",),
}
_IN_HAND = ("run", "data", "knobs", "reading")  # what is no knob itself


@dataclass(frozen=True)
class Arguments(Generic[R]):
    run: R
    data: object = None  # None where the run says where it lies; the same for the models
    teacher: Model | None = None
    student: Model | None = None
    temporary: TemporaryFolder | None = None  # the folder for the results, where the person named none
    more_teachers: Sequence[Model] = ()  # averaged with the first

    @property
    def teachers(self) -> list[Model]:
        return [self.teacher, *self.more_teachers] if self.teacher else []


def settings_of(cls: type[K], keywords: Options) -> tuple[K, object]:
    """A verb's keywords as settings, laid over the `run` in hand: epochs=3 is train.epochs. And data in hand."""
    run: K | None = keywords["run"]
    data: object = keywords["data"]
    _check_names(cls, keywords)
    common = {
        f"{_place(cls, name)}.{name}".lstrip("."): _written(keywords[name])
        for name in _COMMON
        if keywords.get(name) is not None
    }
    named = overlay({"data": dict(keywords.get("reading") or {})}, undot(common))
    named = overlay(named, keywords["knobs"])
    if isinstance(data, str | Path):
        named, data = overlay(named, {"data": {"train": str(data)}}), None
    named = {name: value for name, value in named.items() if value != {}}
    return cls(**named) if run is None else type(run)(**overlay(run.model_dump(exclude_unset=True), named)), data


def _written(value: Any) -> Any:
    """As a run file has it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, Path) else value


def _place(cls: type[TaskKnobs], name: str) -> str:
    """The table of the run file that a verb has a common keyword in."""
    return next((place for place in _COMMON[name] if name in _fields(cls, place)), _COMMON[name][0])


def _fields(cls: type[TaskKnobs], place: str) -> Mapping[str, FieldInfo]:
    if place.startswith("objective."):
        return METHODS[place.removeprefix("objective.")].cls.model_fields
    holder = cls.model_fields[place].annotation if place in cls.model_fields else None if place else cls
    return getattr(holder, "model_fields", {})


def _check_names(cls: type[TaskKnobs], keywords: Options) -> None:
    """Refuses a misspelt keyword with the nearest names that the verb has, also those inside its tables."""
    known = [*(name for name in keywords if name not in _IN_HAND), *cls.model_fields, *cls.known_tables()]
    for name in keywords["knobs"]:
        if name not in (*cls.model_fields, *cls.known_tables(), *RENAMED):
            close = [f"'{one}'" for one in dict.fromkeys(difflib.get_close_matches(name, known))]
            hint = f"did you mean {' or '.join(close)}? " if close else ""
            raise KnobError(f"there is no knob '{name}'", f"{hint}known here: {', '.join(dict.fromkeys(known))}")


def documented(cls: type[TaskKnobs]) -> Callable[[F], F]:
    """Adds to a verb's docstring what each of its common keywords means, in the words of its knob."""

    def add(verb: F) -> F:
        common = [name for name in inspect.signature(verb).parameters if name in _COMMON]
        helps = {name: _fields(cls, _place(cls, name)).get(name) for name in common}
        lines = [f"    {name}: {field.description}" for name, field in helps.items() if field]
        verb.__doc__ = "\n".join(
            [inspect.cleandoc(verb.__doc__ or ""), "", "Keywords, as on the command line:", *lines]
        )
        return verb

    return add


def parse_arguments(cls: type[R], keywords: Options, **own: object) -> Arguments[R]:
    """The settings with all that can be written down; without a folder for the results they get a temporary one."""
    run, data = settings_of(cls, keywords)
    knobs, student, start = dict(own), keywords["student"], None
    teachers, source = _teachers_of(keywords["teacher"], keywords["tokenizer"])
    knobs |= {"teacher": source} if source else {}
    if isinstance(student, Shrink):  # only what was set: the rest is the recipe's to choose
        shape = {"layers": keywords["layers"]} if keywords["layers"] else {}
        knobs["student"] = student.model_dump(exclude_unset=True) | shape
    elif student is not None:
        tokenizer = keywords["tokenizer"]
        start, source = model_of(student, tokenizer[0] if isinstance(tokenizer, list | tuple) else tokenizer)
        knobs |= {"student_from": source} if source else {}
    run, temporary = in_folder(run.but(**knobs), keywords["out"])
    return Arguments(run, data, teachers[0] if teachers else None, start, temporary, teachers[1:])


def _teachers_of(given: object, processor: Any) -> tuple[list[Model], str]:
    """Models in hand, or the names of some; a tokenizer for each, or one for all."""
    several = list(given) if isinstance(given, list | tuple) else [given or ""]
    processors = processor if isinstance(processor, list | tuple) else [processor] * len(several)
    if len(processors) != len(several):
        raise KnobError(
            f"there are {len(several)} teachers and {len(processors)} tokenizers", "give one for each, or one for all"
        )
    found = [model_of(one, its) for one, its in zip(several, processors, strict=True)]
    models, names = [model for model, _ in found if model], [name for _, name in found if name]
    if models and names:
        raise KnobError(
            f"some teachers are models in hand, and {names[0]} is a name", "give all as models, or all as folders"
        )
    return models, ",".join(names)


def in_folder(run: J, out: str | Path) -> tuple[J, TemporaryFolder | None]:
    """With the folder that a person named, else a temporary one."""
    temporary = None if out or run.out else TemporaryFolder()
    return run.but(out=str(temporary.path if temporary else out or run.out)), temporary


def model_of(model: object, processor: Any) -> tuple[Model | None, str]:
    """A model in hand, or the folder or hub id of one."""
    if isinstance(model, str | Path):
        return None, str(model)
    from transformers import PreTrainedModel

    from limbeck.tasks.base import Model

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
