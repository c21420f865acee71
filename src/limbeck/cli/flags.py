"""Flags made from knobs: `student.layers` in a run file is `--student.layers` here, with the same help and limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from limbeck.core.card import METHODS
from limbeck.core.knob import Knobs, Settings, fields_of
from limbeck.core.task import TaskInfo
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import StageSettings

_METAVARS: dict[Any, str] = {int: "INT", float: "NUMBER"}


def with_knobs(
    schema: type[Settings], objectives: bool | Collection[str] = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb every knob of `schema` as a flag; those that were given arrive in its `knobs`, by dotted name.

    `objectives` are the terms that it takes knobs of, True for all with their shares and stages.
    The verb takes its own parameters and `knobs: dict[str, Any]` last.
    """
    knobs = {dotted: _option(dotted, field, panel) for dotted, field, panel in _knobs(schema, objectives)}
    names = {dotted: dotted.replace(".", "__").replace("-", "_") for dotted in knobs}

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "knobs"]

        def command(**given: Any) -> None:
            chosen = {dotted: _joined(given.pop(name, None)) for dotted, name in names.items()}
            verb(**given, knobs={dotted: value for dotted, value in chosen.items() if value is not None})

        made = [
            inspect.Parameter(names[dotted], inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for dotted, annotation in knobs.items()
        ]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + made
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__, command.__name__ = verb.__doc__, verb.__name__
        return command

    return decorate


def _knobs(schema: type[Settings], objectives: bool | Collection[str]) -> Iterator[tuple[str, FieldInfo, str]]:
    """Dotted name, field, and the panel of the help that it is in."""
    fixed = getattr(schema, "fixed", ())
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if name in fixed:
            continue
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from ((f"{name}.{key}", inner, name) for key, inner in fields_of(kind, field.default).items())
        elif get_origin(kind) is not dict:
            yield name, field, "the job"
    for table in schema.known_tables().values() if issubclass(schema, Knobs) else ():
        if not table.by_name:
            yield from ((f"{table.name}.{key}", inner, table.name) for key, inner in table.cls.model_fields.items())
    named = METHODS if objectives is True else objectives or ()
    for name, card in ((name, METHODS[name]) for name in named):
        weight = FieldInfo(annotation=float, default=None, description=f"share of '{name}' in the sum: {card.summary}")
        for key, field in {**({"weight": weight} if objectives is True else {}), **card.cls.model_fields}.items():
            yield f"objective.{name}.{key}", field, "objective"
    for name in _stage_names() if objectives is True else ():
        for key, field in StageSettings.model_fields.items():
            if key != "objective":  # the terms of a stage have flags like those of the main one
                yield f"stages.{name}.{key}", field, "stages"


def _stage_names() -> list[str]:
    """Of all recipes, each once."""
    stages = [plan.stages(TaskInfo(kind=plan.tasks[0], labels=("0", "1"))) for plan in RECIPES.values()]
    return list(dict.fromkeys(name for found in stages for name in found))


def _option(dotted: str, field: FieldInfo, panel: str) -> Any:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    flag = f"--{dotted.replace('_', '-')}"
    look: dict[str, Any] = {"help": field.description or "", "rich_help_panel": panel, "show_default": _default(field)}
    if field.annotation is bool:
        negated = _negated(dotted) if "." in dotted else f"--no-{flag[2:]}"
        return Annotated[bool | None, typer.Option(f"{flag}/{negated}", **look)]
    # Values arrive as text and are checked by the knob itself, which explains itself better than a parser can.
    names = dict.fromkeys([str(extra["short"]), flag] if "short" in extra else [flag])
    choices = [str(value) for value in get_args(field.annotation)] if get_origin(field.annotation) is Literal else []
    # In a help text they follow the first clause, which is all that the short help shows.
    first, semicolon, rest = look["help"].partition(";")
    if choices and not all(choice in first for choice in choices):
        look["help"] = f"{first}: {', '.join(choices)}{semicolon}{rest}"
    metavar = "NAME" if choices else _METAVARS.get(field.annotation, "TEXT")
    if extra.get("several"):
        return Annotated[list[str] | None, typer.Option(*names, metavar=metavar, **look)]
    return Annotated[str | None, typer.Option(*names, metavar=metavar, **look)]


def _joined(value: Any) -> Any:
    """The values of a flag that was given more than once, as a run file has them; none of one that was not given."""
    return (",".join(value) if value else None) if isinstance(value, list | tuple) else value


def _default(field: FieldInfo) -> str | bool:
    """As the help shows it; nothing where it goes without saying."""
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    explained = not field.default and "0" in (field.description or "")  # "0 is all"
    return False if field.default in ("", None) or explained else str(field.default)


def _negated(dotted: str) -> str:
    room, name = dotted.replace("_", "-").rsplit(".", 1)
    return f"--{room}.no-{name}"
