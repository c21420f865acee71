"""A method's identity card: its paper, and the one registry everything else is generated from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
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

    @property
    def summary(self) -> str:
        return self.text.split("\n", 1)[0].rstrip(".")

    @property
    def text(self) -> str:
        """The docstring of the method's file: what it is, the formula, what to mind."""
        return inspect.cleandoc(inspect.getmodule(self.cls).__doc__ or "")


METHODS: dict[str, Card] = {}
C = TypeVar("C", bound=type[Settings])


def method(name: str, paper: Paper) -> Callable[[C], C]:
    """Registers a class under the name that run files and flags use."""

    def register(cls: C) -> C:
        METHODS[name] = Card(name, paper, cls)
        return cls

    return register


def card_of(thing: Settings) -> Card:
    for card in METHODS.values():
        if type(thing) is card.cls:
            return card
    raise KnobError(
        f"{type(thing).__name__} is not a registered method", "decorate its class with @method(name, paper)"
    )
