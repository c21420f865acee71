"""What the student imitates. One method, one file; a new file registers itself."""

from typing import Any

from limbeck.core.card import METHODS, class_named, discover

discover(__name__)


def __getattr__(name: str) -> Any:
    return class_named(name, __name__)


def __dir__() -> list[str]:
    return sorted(card.cls.__name__ for card in METHODS.values())
