"""A student whom this teacher cannot teach as asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from limbeck.core.errors import LimbeckError


class Unteachable(LimbeckError):
    """Found out while the teacher was asked. In a comparison the others may go on."""

    def __init__(self, students: Sequence[Any], why: LimbeckError) -> None:
        super().__init__(why.problem, why.remedy)
        self.students = students

    def __reduce__(self) -> Any:
        return LimbeckError, (self.problem, self.remedy)
