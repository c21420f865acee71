"""Knobs: a setting is declared once; its flag, its help, its limits and its line in the run file come from there."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from limbeck.core.errors import KnobError


def knob(
    default: Any,
    help: str,
    *,
    source: str = "",
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    short: str = "",
    free: bool = False,
    several: bool = False,
) -> Any:
    """A field of a Settings class: default, one line of help, limits, where the default comes from, a short flag.

    A `free` knob concerns speed or display alone: it may change when a run is resumed. The flag of a knob that takes
    `several` values, comma-separated, may be given more than once."""
    extra: dict[str, str | bool] = {"source": source, "short": short, "free": free, "several": several}
    return Field(
        default,
        description=help,
        json_schema_extra={key: value for key, value in extra.items() if value},
        gt=above,
        ge=at_least,
        lt=below,
        le=at_most,
        allow_inf_nan=False if isinstance(default, float) else None,
    )


class Frozen(BaseModel):
    """Plain data with checked types, such as the parts of a Record."""

    # Built when first used: a command that is refused needs few of them.
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    def but(self, **changes: Any) -> Self:
        """The same with some values changed, checked again. What nobody set stays unset."""
        return type(self)(**{**self.model_dump(exclude_unset=True), **changes})


class Settings(Frozen):
    """A group of knobs. A wrong name or value is refused in the user's words."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise KnobError(*_explain(type(self), error)) from None

    # Unmarked, pydantic would call it for nested groups too, and the error would forget in which group it arose.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def of(cls, values: Mapping[str, Any], within: str) -> Self:
        """Settings that stand in the table `within` of a run file; an error says so."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise KnobError(*_explain(cls, error, f"{within}.")) from None


def fields_of(table: type[BaseModel], default: object = None) -> dict[str, FieldInfo]:
    """The knobs of a table, with the defaults that it has in a verb: those of `default`, where that is such a table."""
    if not isinstance(default, table):
        return dict(table.model_fields)
    own = {name: copy.copy(field) for name, field in table.model_fields.items()}
    for name, field in own.items():
        field.default = getattr(default, name)
    return own


def free_knobs(table: type[BaseModel]) -> set[str]:
    """The names of those that may change when something is resumed."""
    extras = {name: field.json_schema_extra for name, field in table.model_fields.items()}
    return {name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("free")}


@dataclass(frozen=True)
class RunTable:
    """A table of a run file that some tasks add, such as [mask]."""

    name: str
    cls: type[Settings]
    help: str
    kinds: tuple[str, ...]  # of tasks
    by_name: bool = False  # one table per name: [directions.en-de]


TABLES: dict[str, RunTable] = {}
S = TypeVar("S", bound=Settings)


def table(name: str, help: str, kinds: tuple[str, ...], by_name: bool = False) -> Callable[[type[S]], type[S]]:
    """Registers settings as a table of run files: its flags and its help follow from that."""

    def register(cls: type[S]) -> type[S]:
        TABLES[name] = RunTable(name, cls, help, kinds, by_name)
        return cls

    return register


class Knobs(Settings):
    """Settings that also take the tables of tasks: a new task adds no field here."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def known_tables(cls) -> Mapping[str, RunTable]:
        """By name."""
        return TABLES

    @model_validator(mode="before")
    @classmethod
    def _check_tables(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        found, known = dict(values), cls.known_tables()
        for name in [name for name in found if name not in cls.model_fields]:
            if name not in known:
                raise KnobError(*_unknown(name, name, [*cls.model_fields, *known]))
            found[name] = _checked(known[name], found[name])
        # No table by any name is written as nothing, and reads back as nothing.
        return {name: value for name, value in found.items() if value != {} or name not in known}

    def table(self, cls: type[S]) -> S:
        """A table, or its defaults where nobody set any."""
        name = next(entry.name for entry in self.known_tables().values() if entry.cls is cls)
        found: S = (self.model_extra or {}).get(name) or cls()
        return found

    def tables(self, cls: type[S]) -> dict[str, S]:
        """Of a table that stands once per name."""
        name = next(entry.name for entry in TABLES.values() if entry.cls is cls)
        return dict((self.model_extra or {}).get(name) or {})

    def spelled_out(self, kind: str) -> Self:
        """With every table of the task set, also those at their defaults; one of another task is refused."""
        known = self.known_tables()
        for name, value in (self.model_extra or {}).items():
            if kind not in (kinds := known[name].kinds) and (changed := _changed(known[name], value)):
                raise KnobError(
                    f"'{name}.{changed}' has no effect for --task {kind}",
                    f"leave it out; it is for --task {', '.join(kinds)}",
                )
        own = [entry for entry in known.values() if kind in entry.kinds]
        others = {name for name in (self.model_extra or {}) if kind not in known[name].kinds}
        kept = {key: value for key, value in self.model_dump(exclude_unset=True).items() if key not in others}
        tables = {entry.name: self.tables(entry.cls) if entry.by_name else self.table(entry.cls) for entry in own}
        return type(self)(**{**kept, **tables})


def _changed(entry: RunTable, value: Any) -> str:
    """The first knob of a table, or table of that name, that somebody set; none where all is as it was."""
    if entry.by_name:
        return next(iter(value), "")
    default = entry.cls()
    return next((key for key in entry.cls.model_fields if getattr(value, key) != getattr(default, key)), "")


def _checked(entry: RunTable, value: Any) -> Any:
    if not entry.by_name:
        return value if isinstance(value, entry.cls) else entry.cls.of(value, within=entry.name)
    return {
        key: each if isinstance(each, entry.cls) else entry.cls.of(each, within=f"{entry.name}.{key}")
        for key, each in value.items()
    }


def _explain(cls: type[BaseModel], error: ValidationError, prefix: str = "") -> tuple[str, str]:
    first = error.errors()[0]
    path = prefix + ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return _unknown(path, str(first["loc"][-1]), list(_holder(cls, first["loc"][:-1]).model_fields))
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"knob '{path}' cannot be {first['input']!r}", f"it should be {message}"


RENAMED = {  # what knobs and tables were called before the first release
    "places": "windows",
    "text": "blocks",
    "pairs": "parallel",
    "teach": "teacher_cache",
    "each": "columns",
    "new": "seq2seq",
    "patience": "pkd",
    "drawn": "sampled",
}


def _unknown(path: str, name: str, known: list[str]) -> tuple[str, str]:
    close = [RENAMED[name]] if name in RENAMED else difflib.get_close_matches(name, known, n=1)
    hint = (
        f"'{name}' is called '{close[0]}' now; " if name in RENAMED else f"did you mean '{close[0]}'? " if close else ""
    )
    return f"there is no knob '{path}'", f"{hint}known here: {', '.join(known)}"


def _holder(cls: type[BaseModel], path: tuple[Any, ...]) -> type[BaseModel]:
    for part in path:
        annotation = cls.model_fields[part].annotation if part in cls.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            cls = annotation
    return cls
