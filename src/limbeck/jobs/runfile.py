"""Run files: read, laid over one another, written with every knob's help, and compared."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError
from limbeck.core.knob import TABLES, Settings


def read_run(path: Path | str) -> dict[str, Any]:
    """A run file as nested tables, not yet checked."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KnobError(
            f"there is no run file {path}", "write one with `limbeck distill … --print > run.toml`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise KnobError(f"{path} is not a TOML run file: {error}", "compare it with what --print writes") from None


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = overlay(merged[key], value) if both else value
    return merged


def undot(flags: Mapping[str, Any]) -> dict[str, Any]:
    """{'student.layers': 4} → {'student': {'layers': 4}}."""
    nested: dict[str, Any] = {}
    for dotted, value in flags.items():
        *path, last = dotted.split(".")
        table = nested
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return nested


def write_run(run: Settings, skip: frozenset[str] = frozenset()) -> str:
    """The complete run file, each knob with its help; what has no help is written bare."""
    entries = [(name, field.description or "", getattr(run, name)) for name, field in type(run).model_fields.items()]
    entries += [(name, TABLES[name].help, value) for name, value in (run.model_extra or {}).items()]
    known = [entry for entry in entries if entry[0] not in skip]
    lines = [line for name, help, value in known if not _is_table(value) for line in _line(name, value, help)]
    for name, _, value in known:
        if _is_table(value):
            lines += _tables(name, value)
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, BaseModel | dict)


def _tables(path: str, table: Any) -> Iterator[str]:
    """A table and those inside it."""
    if isinstance(table, BaseModel):
        entries = {
            key: (getattr(table, key), field.description or "") for key, field in type(table).model_fields.items()
        }
    else:
        known = METHODS[path.rpartition(".")[2]].cls.model_fields if path.rpartition(".")[2] in METHODS else {}
        told = {key: known[key].description or "" if key in known else "" for key in table}
        entries = {
            key: (value, told[key] or ("share in the sum" if key == "weight" else "")) for key, value in table.items()
        }
    plain = {key: entry for key, entry in entries.items() if not _is_table(entry[0])}
    if plain or (not entries and path.count(".")):
        yield from ("", f"[{path}]")
        for key, (value, help) in plain.items():
            yield from _line(_key(key), value, help)
    for key, (value, _) in entries.items():
        if _is_table(value):
            yield from _tables(f"{path}.{_key(key)}", value)


def _line(name: str, value: Any, help: str) -> list[str]:
    return [*([f"# {help}"] if help else []), f"{name} = {_value(value)}"]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    # TOML writes keys, strings, numbers and booleans as JSON does, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def differences(old: Settings, new: Settings) -> list[str]:
    """The dotted knobs in which two runs differ, as 'train.epochs: 3.0 → 5.0'; free ones may."""
    a, b = _flat(old.model_dump()), _flat(new.model_dump())
    free = set(_free(new))
    changed = [key for key in sorted(a | b) if a.get(key) != b.get(key)]
    return [f"{key}: {a.get(key)} → {b.get(key)}" for key in changed if _bare(key) not in free]


def _bare(key: str) -> str:
    """Without the column it is of."""
    return re.sub(r"^columns\.[^.]+\.", "", key)


def _free(settings: BaseModel, prefix: str = "") -> Iterator[str]:
    """The knobs that may change when a run is resumed: they concern speed or display alone."""
    yield "out"
    for name, field in type(settings).model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        if extra.get("free"):
            yield prefix + name
        if isinstance(value := getattr(settings, name), BaseModel):
            yield from _free(value, f"{prefix}{name}.")
    for name, value in (settings.model_extra or {}).items():
        if isinstance(value, BaseModel):
            yield from _free(value, f"{prefix}{name}.")


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat
