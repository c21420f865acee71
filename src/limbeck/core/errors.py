"""What Limbeck says when a person's input cannot be used: what is wrong, and what to do."""

from __future__ import annotations


class LimbeckError(Exception):
    """A mistake that the person at the keyboard can mend. The command line prints it without a traceback."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}\n  → {remedy}" if remedy else problem)

    def __reduce__(self) -> tuple[type[LimbeckError], tuple[str, str]]:
        return type(self), (self.problem, self.remedy)


class DataError(LimbeckError):
    """A file, row, column or label that cannot be used."""


class ModelError(LimbeckError):
    """A model folder that cannot be opened, or a student that cannot be built."""


class MismatchError(LimbeckError):
    """Parts that do not fit together: teacher and labels, objective and teacher, cache and data."""


class KnobError(LimbeckError):
    """A setting outside its limits, or one that does not exist."""
