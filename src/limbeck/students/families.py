"""Families of students: what a teacher may become. One file each in this folder, found by its `@family` line; the
teacher's own architecture is in `shrink`.

A family's name and help are read from the source, since importing it would load torch; the rest comes with its import.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.compressed import PREFIX as COMPRESSED
from limbeck.core.compressed import register as register_compressed
from limbeck.core.errors import KnobError
from limbeck.core.task import Kind

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from limbeck.students.inherit import Built

SAME = "same"  # the teacher's own architecture
OURS = "limbeck-"  # what the model types of Limbeck's own architectures begin with
_IMAGE_NETWORKS = (f"{OURS}mlp", f"{OURS}lenet")  # no families: a teacher does not become one, they start anew
Build = Callable[..., "Built"]  # of (teacher, shape, tokenizer, pairs[, calibration])
_LINE = re.compile(r'^@family\(\s*"([\w-]+)",\s*"([^"]*)"', re.MULTILINE)


@dataclass
class Family:
    """A decorator for a function from a teacher, a Shrink, a tokenizer and whether texts come in pairs."""

    name: str
    help: str
    knobs: tuple[str, ...] = ()  # of Shrink: those that only some families understand
    small: bool = False  # by other means than fewer layers: without a size it is as deep as the teacher
    calibrates: bool = False  # its function takes a Calibration too: rows that show which weights matter
    layers: bool = True  # has hidden states and attention to compare with a teacher's
    serves: tuple[Kind, ...] = ()  # kinds of task; empty: all
    accepts: Callable[[PreTrainedModel], bool] = lambda teacher: True  # whether it can be made from a teacher
    architecture: str = ""  # model type of its config; empty: its name
    register: Callable[[], None] = lambda: None  # makes the Auto classes of transformers know an architecture of ours
    build: Build = field(init=False)

    def __call__(self, build: Build) -> Build:
        self.build = build
        self.architecture = self.architecture or self.name
        _FAMILIES[self.name] = self
        return build


family = Family
_FAMILIES: dict[str, Family] = {}


@cache
def _found() -> dict[str, tuple[str, str]]:
    """Family → its module in this folder and its help."""
    return {
        name: (file.stem, help)
        for file in sorted(Path(__file__).parent.glob("*.py"))
        for name, help in _LINE.findall(file.read_text(encoding="utf-8"))
    }


def families() -> dict[str, str]:
    """Every family and its help, the teacher's own first. Imports none of them."""
    known = {name: help for name, (_, help) in _found().items()} | {one.name: one.help for one in _FAMILIES.values()}
    return dict(sorted(known.items(), key=lambda entry: (entry[0] != SAME, entry[0])))


def find_family(name: str) -> Family:
    if name not in _FAMILIES and name in _found():
        import_module(f"limbeck.students.{_found()[name][0]}")
    if name not in _FAMILIES:
        raise KnobError(f"there is no student family '{name}'", f"use {_suggestion(name)}")
    return _FAMILIES[name]


def check_family(name: str) -> str:
    """The name of a family, or auto."""
    if name != "auto" and name not in families():
        raise ValueError(f"auto, or {_suggestion(name)}")
    return name


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, families(), n=1)
    return f"one of {', '.join(families())}" + (f"; did you mean '{close[0]}'?" if close else "")


def is_family(architecture: str, name: str) -> bool:
    """Whether a model of this type is of the family; none is of 'same', which is no architecture."""
    return (
        name in families() and name != SAME and find_family(name).architecture == architecture.removeprefix(COMPRESSED)
    )


def has_layers(architecture: str) -> bool:
    """Whether a model of this type has layers and heads to compare with a teacher's."""
    inner = architecture.removeprefix(COMPRESSED)
    return all(one.layers for one in map(find_family, families()) if one.architecture == inner)


def register() -> None:
    """From now on AutoModel….from_pretrained opens Limbeck's own architectures. Twice is as good as once."""
    for name in families():
        find_family(name).register()
    _register_image_networks()


def _register_image_networks() -> None:
    import_module("limbeck.students.image").register()


def register_if_ours(folder: Path) -> None:
    """The same, only if the model in a folder needs it: it imports every architecture that can share."""
    kind = model_type(folder)
    inner = kind.removeprefix(COMPRESSED)
    if inner in _IMAGE_NETWORKS:  # without the others, which take long to import
        _register_image_networks()
    elif inner.startswith(OURS):
        register()
    if inner != kind:
        register_compressed(kind)


def model_type(folder: Path) -> str:
    """As config.json has it; "" where it cannot be read, of which whoever opens it says what is wrong."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(config.get("model_type", "")) if isinstance(config, dict) else ""
