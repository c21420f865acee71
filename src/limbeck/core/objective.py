"""What the student is asked to imitate: a sum of named, weighted terms over two Traces.

    0.5 * Labels() + 0.5 * SoftTargets(temperature=4)

Every term is a sum over rows and a count of rows, never a ready mean, so that a step made of several
micro-batches divides by the rows of the whole step and gives the gradient of one large batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import SerializeAsAny

from limbeck.core.knob import Settings
from limbeck.core.task import Kind, Task
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want

if TYPE_CHECKING:
    from torch import Tensor

Rows = Literal["labelled", "counted"]


@dataclass(frozen=True)
class Mean:
    """A mean that has not been taken yet."""

    total: Tensor  # [] sum over the rows
    count: Tensor  # [] how many rows

    def over(self, rows: Tensor | None = None) -> Tensor:
        """The mean over `rows`, by default its own; an empty selection gives 0, not NaN."""
        return self.total / (self.count if rows is None else rows).clamp(min=1)


Terms = dict[str, Mean]


class Objective(Settings):
    """One term, or, by `+` and `*`, a Blend of several."""

    rows: ClassVar[Rows] = "counted"  # which rows the mean is over
    wants: ClassVar[Want] = Want.NOTHING  # of the teacher
    serves: ClassVar[tuple[Kind, ...]] = ("classify", "multilabel", "regress")
    remedy: ClassVar[str] = ""  # said when the task is not one it serves

    @abstractmethod
    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms: ...

    @property
    def weighted(self) -> tuple[tuple[float, Objective], ...]:
        return ((1.0, self),)

    def __add__(self, other: Objective) -> Blend:
        return Blend(parts=self.weighted + other.weighted)

    def __mul__(self, weight: float) -> Blend:
        return Blend(parts=tuple((w * weight, part) for w, part in self.weighted))

    __rmul__ = __mul__

    def __str__(self) -> str:
        knobs = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).model_fields)
        return f"{type(self).__name__}({knobs})"


class Blend(Objective):
    """A weighted sum. A weight of 0 contributes exactly 0 and its teacher is not needed."""

    parts: tuple[tuple[float, SerializeAsAny[Objective]], ...]

    @property
    def weighted(self) -> tuple[tuple[float, Objective], ...]:
        return self.parts

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        return {name: mean for _, part in self.parts for name, mean in part.terms(student, teacher, batch).items()}

    def __str__(self) -> str:
        return " + ".join(f"{weight:g} * {part}" for weight, part in self.parts)


def wants(objective: Objective) -> Want:
    """All that the terms with weight need of a teacher."""
    needed = Want.NOTHING
    for weight, part in objective.weighted:
        if weight:
            needed |= part.wants
    return needed


def misfits(objective: Objective, task: Task) -> list[Objective]:
    return [part for _, part in objective.weighted if task.kind not in part.serves]


def loss(
    objective: Objective, student: Trace, teacher: Trace, batch: Batch, rows: Mapping[Rows, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum and each unweighted term; `rows` are the counts of the whole optimiser step, if larger."""
    shown: dict[str, Tensor] = {}
    total: Tensor | None = None
    for weight, part in objective.weighted:
        for name, mean in part.terms(student, teacher, batch).items():
            value = mean.over(rows[part.rows] if rows else None)
            shown[name] = shown[name] + value if name in shown else value
            total = weight * value if total is None else total + weight * value
    if total is None:
        raise ValueError("an objective without terms has no loss")
    return total, shown
