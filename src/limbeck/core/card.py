"""A method's identity card: its paper, and the one registry everything else is generated from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from pkgutil import iter_modules
from typing import TypeVar

from limbeck.core.errors import KnobError
from limbeck.core.knob import Settings


@dataclass(frozen=True)
class Paper:
    title: str
    authors: str
    year: int
    venue: str
    key: str
    url: str = ""

    def bibtex(self) -> str:
        fields = {"title": self.title, "author": self.authors, "year": self.year, "note": self.venue, "url": self.url}
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        return f"@misc{{{self.key},\n{body}\n}}"

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}). {self.title}. {self.venue}."


@dataclass(frozen=True)
class Card:
    name: str
    paper: Paper
    cls: type[Settings]
    text: str  # the docstring of the method's file: what it is, the formula, what to mind, an example

    @property
    def summary(self) -> str:
        return self.text.split("\n", 1)[0].rstrip(".")


METHODS: dict[str, Card] = {}
C = TypeVar("C", bound=type[Settings])


def method(name: str, paper: Paper) -> Callable[[C], C]:
    """Registers an objective under the name that run files and flags use."""
    return registered(METHODS, name, paper)


def registered(cards: dict[str, Card], name: str, paper: Paper) -> Callable[[C], C]:
    """Registers a class among these cards; its docstring gets the text of its file."""

    def register(cls: C) -> C:
        before = cards[name].cls.__module__ if name in cards else cls.__module__
        if before != cls.__module__:
            raise KnobError(
                f"two methods are called '{name}', in {_file(before)} and {_file(cls.__module__)}", "rename one"
            )
        own, text = cleandoc(cls.__doc__ or ""), cleandoc(sys.modules[cls.__module__].__doc__ or "")
        cards[name] = Card(name, paper, cls, text or own)
        cls.__doc__ = "\n\n".join(filter(None, [own, text, f"{paper} {paper.url}".strip()]))
        return cls

    return register


def _file(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or module


def card_of(thing: Settings) -> Card:
    for card in METHODS.values():
        if type(thing) is card.cls:
            return card
    raise KnobError(
        f"{type(thing).__name__} is not a registered method", "decorate its class with @method(name, paper)"
    )


def class_named(name: str, module: str) -> type[Settings]:
    """The class of a method by its own name, for the `__getattr__` of a module that lists no methods."""
    for card in METHODS.values():
        if card.cls.__name__ == name:
            return card.cls
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


def discover(room: str) -> None:
    """Imports every module of a package, so that its decorators have registered what is in them."""
    for found in iter_modules(import_module(room).__path__):
        import_module(f"{room}.{found.name}")
