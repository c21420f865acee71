"""What an objective needs to see of a model, and what a teacher can show."""

from __future__ import annotations

from enum import Flag, auto


class Want(Flag):
    NOTHING = 0
    LOGITS = auto()
    TOP = auto()
    DRAWN = auto()
    HIDDEN = auto()
    ATTENTION = auto()
    VALUES = auto()

    def __str__(self) -> str:
        return ", ".join(flag.name.lower() for flag in Want if flag in self and flag.name) or "nothing"


# What is said per class of the whole text, not per token: it does not depend on how the text was cut into tokens.
PER_TEXT = Want.LOGITS
