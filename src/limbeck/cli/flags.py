"""Flags made from knobs: `student.layers` in a run file is `--student.layers` here, with the same help and limits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from limbeck.core.card import METHODS
from limbeck.core.knob import TABLES, Knobs, Settings
from limbeck.core.task import TaskInfo
from limbeck.recipes import RECIPES
from limbeck.recipes.recipe import StageSettings

_METAVARS: dict[Any, str] = {int: "INT", float: "NUMBER", str: "TEXT"}


def with_knobs(
    schema: type[Settings], objectives: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb every knob of `schema` as a flag; those that were given arrive in its `knobs`, by dotted name.

    The verb takes its own parameters and `knobs: dict[str, Any]` last.
    """
    flags = dict(_flags(schema, objectives))

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "knobs"]

        def command(**given: Any) -> None:
            chosen = {flags[name][0]: given.pop(name) for name in flags if name in given}
            verb(**given, knobs={dotted: value for dotted, value in chosen.items() if value is not None})

        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, (_, annotation) in flags.items()
        ]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + made
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__, command.__name__ = verb.__doc__, verb.__name__
        return command

    return decorate


def _flags(schema: type[Settings], objectives: bool) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Parameter name → dotted knob and annotation."""
    for name, field in schema.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for key, inner in kind.model_fields.items():
                yield f"{name}__{key}", (f"{name}.{key}", _option(f"{name}.{key}", inner, name))
        elif get_origin(kind) is not dict:
            yield name, (name, _option(name, field, "the job"))
    for entry in TABLES.values() if issubclass(schema, Knobs) else ():
        for key, inner in entry.cls.model_fields.items() if not entry.by_name else ():
            yield f"{entry.name}__{key}", (f"{entry.name}.{key}", _option(f"{entry.name}.{key}", inner, entry.name))
    for name, card in METHODS.items() if objectives else ():
        weight = FieldInfo(annotation=float, default=None, description=f"share of '{name}' in the sum: {card.summary}")
        for key, field in {"weight": weight, **card.cls.model_fields}.items():
            dotted = f"objective.{name}.{key}"
            yield f"objective__{name}__{key}".replace("-", "_"), (dotted, _option(dotted, field, "objective"))
    for name in _stage_names() if objectives else ():
        for key, field in StageSettings.model_fields.items():
            if key != "objective":  # the terms of a stage have flags like those of the main one
                dotted = f"stages.{name}.{key}"
                yield f"stages__{name}__{key}".replace("-", "_"), (dotted, _option(dotted, field, "stages"))


def _stage_names() -> list[str]:
    """Of all recipes, each once."""
    stages = [plan.stages(TaskInfo(kind=plan.tasks[0], labels=("0", "1"))) for plan in RECIPES.values()]
    return list(dict.fromkeys(name for found in stages for name in found))


def _option(dotted: str, field: FieldInfo, panel: str) -> Any:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    flag = f"--{dotted.replace('_', '-')}"
    look: dict[str, Any] = {"help": _help(field), "rich_help_panel": panel, "show_default": False}
    if field.annotation is bool:
        negated = _negated(dotted) if "." in dotted else f"--no-{flag[2:]}"
        return Annotated[bool | None, typer.Option(f"{flag}/{negated}", **look)]
    # Values arrive as text and are checked by the knob itself, which explains itself better than a parser can.
    names = dict.fromkeys([str(extra["short"]), flag] if "short" in extra else [flag])
    return Annotated[str | None, typer.Option(*names, metavar=_METAVARS.get(field.annotation, "…"), **look)]


def _help(field: FieldInfo) -> str:
    text = field.description or ""
    if get_origin(field.annotation) is Literal:
        text += f": {', '.join(str(value) for value in get_args(field.annotation))}"
    if isinstance(field.default, bool):
        return f"{text} ({'yes' if field.default else 'no'})"
    return text if field.default in ("", None) else f"{text} ({field.default})"


def _negated(dotted: str) -> str:
    room, name = dotted.replace("_", "-").rsplit(".", 1)
    return f"--{room}.no-{name}"
