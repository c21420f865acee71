"""What Limbeck says when a person's input cannot be used: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


def no_teacher() -> KnobError:
    return KnobError("no teacher was given", "name one with --teacher, or make one with `limbeck train`")


def does_not_teach(what: str, kind: str, kinds: Sequence[str], instead: str) -> KnobError:
    """A way of teaching that serves some tasks alone."""
    return KnobError(f"{what} cannot teach --task {kind}", f"that serves {', '.join(kinds)}; {instead}")


class TeacherMismatch(MismatchError):
    """An objective needs what this teacher cannot give. In a comparison the other arms go on."""

    def __init__(self, arms: Sequence[int], why: LimbeckError) -> None:
        super().__init__(why.problem, why.remedy)
        self.arms = arms  # numbers of those that cannot be taught

    def __reduce__(self) -> Any:
        return MismatchError, (self.problem, self.remedy)
