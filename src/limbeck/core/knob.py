"""Knobs: a setting is declared once; its flag, its help, its limits and its line in the run file come from there."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
) -> Any:
    """A field of a Settings class: default, one line of help, limits, where the default comes from, a short flag."""
    extra = {key: value for key, value in {"source": source, "short": short}.items() if value}
    return Field(
        default,
        description=help,
        json_schema_extra=dict(extra),
        gt=above,
        ge=at_least,
        lt=below,
        le=at_most,
        allow_inf_nan=False if isinstance(default, float) else None,
    )


class Settings(BaseModel):
    """A frozen group of knobs. A wrong name or value is refused in the user's words."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

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

    def but(self, **changes: Any) -> Self:
        """The same settings with some values changed, checked again. What nobody set stays unset."""
        return type(self)(**{**self.model_dump(exclude_unset=True), **changes})


def _explain(cls: type[BaseModel], error: ValidationError, prefix: str = "") -> tuple[str, str]:
    first = error.errors()[0]
    path = prefix + ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        holder = _holder(cls, first["loc"][:-1])
        known = list(holder.model_fields)
        close = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return f"there is no knob '{path}'", f"{hint}known here: {', '.join(known)}"
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"knob '{path}' cannot be {first['input']!r}", f"it should be {message}"


def _holder(cls: type[BaseModel], path: tuple[Any, ...]) -> type[BaseModel]:
    for part in path:
        annotation = cls.model_fields[part].annotation if part in cls.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            cls = annotation
    return cls
