"""What the student is asked to imitate: a sum of named, weighted terms over two Traces.

    0.5 * Labels() + 0.5 * SoftTargets(temperature=4)

Every term is a sum over rows and a count of rows, never a ready mean, so that a step made of several
micro-batches divides by the rows of the whole step and gives the gradient of one large batch.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import SerializeAsAny

from limbeck.core.knob import Settings
from limbeck.core.record import Shape
from limbeck.core.task import LANGUAGE_KINDS, SEQ2SEQ_KINDS, TEXT_KINDS, Kind, TaskInfo
from limbeck.core.trace import NOTHING, ONLY_LOGITS, Batch, Chunk, Request, Trace, Want

if TYPE_CHECKING:
    from torch import Tensor

Rows = Literal["has_label", "in_loss", "present", "examples"]  # in a task about tokens the last two: no padding; texts


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

    rows: ClassVar[Rows] = "in_loss"  # which rows the mean is over
    wants: ClassVar[Want] = Want.NOTHING  # of the teacher
    answers: ClassVar[bool] = True  # it trains what the model answers, so that answers tell how far it has come
    serves: ClassVar[tuple[Kind, ...]] = TEXT_KINDS
    remedy: ClassVar[str] = ""  # said when the task is not one it serves

    @abstractmethod
    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms: ...

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        """What it looks at in a student and a teacher of these shapes, or a MismatchError that says what to change."""
        return Request(), Request(self.wants)

    def bridges(self, student: Shape, teacher: Shape) -> dict[str, tuple[int, int]]:
        """Linear maps to be learned beside the student: name → width of the student, width of the teacher."""
        return {}

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


class TokenObjective(Objective):
    """A term over tokens. It sees the student's logits a chunk of tokens at a time, so that all never exist at once."""

    serves: ClassVar[tuple[Kind, ...]] = (*LANGUAGE_KINDS, *SEQ2SEQ_KINDS)
    remedy: ClassVar[str] = "it speaks of words; for texts with labels use 'hinton' or 'logits'"
    name: ClassVar[str]  # of the term, as logs and curves show it

    @abstractmethod
    def each(self, chunk: Chunk) -> Tensor:
        """[n] the value of each token; those outside `rows` are left out by the caller, NaN included."""

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        """The same at once, with every logit in memory: what the chunked loss must equal."""
        predicted = batch.in_loss
        has_label = batch.has_label[predicted]
        chunk = Chunk(student.tokens.logits(), batch.labels[predicted], has_label, teacher, slice(None))
        values = self.each(chunk)
        kept = values[has_label] if self.rows == "has_label" else values
        return {self.name: Mean(kept.sum(), has_label.sum() if self.rows == "has_label" else predicted.sum())}


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


def requests(objective: Objective, student: Shape, teacher: Shape) -> tuple[Request, Request]:
    """What the terms with weight look at, all together, in student and teacher."""
    of_student, of_teacher = ONLY_LOGITS, NOTHING
    for weight, part in objective.weighted:
        if weight:
            first, second = part.requests(student, teacher)
            of_student, of_teacher = of_student | first, of_teacher | second
    return of_student, of_teacher


def bridges(objective: Objective, student: Shape, teacher: Shape) -> dict[str, tuple[int, int]]:
    """The maps that the terms with weight need."""
    needed = [part.bridges(student, teacher) for weight, part in objective.weighted if weight]
    return {name: widths for found in needed for name, widths in found.items()}


def misfits(objective: Objective, task: TaskInfo) -> list[Objective]:
    return [part for _, part in objective.weighted if task.kind not in part.serves]
