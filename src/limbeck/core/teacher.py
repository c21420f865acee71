"""Anything that answers a batch with a Trace."""

from __future__ import annotations

from abc import ABC, abstractmethod

from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want


class Teacher(ABC):
    has: Want  # what it can show

    @abstractmethod
    def answer(self, batch: Batch) -> Trace:
        """What the teacher says of these examples, on the batch's device, without gradient."""


class NoTeacher(Teacher):
    """For objectives that want nothing: the student learns from labels alone."""

    has = Want.NOTHING

    def answer(self, batch: Batch) -> Trace:
        return Trace()
