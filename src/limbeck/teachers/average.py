"""Several teachers as one: the weighted mean of their probabilities.

    classes      t = log Σᵢ wᵢ·softmax(zᵢ/Tᵢ) + Σᵢ wᵢ·logsumexp(zᵢ/Tᵢ)
    labels       t = log p − log(1 − p),   p = Σᵢ wᵢ·σ(zᵢ/Tᵢ)
    a number     t = Σᵢ wᵢ·zᵢ

zᵢ are the logits of a teacher in the first one's order of classes, wᵢ its weight (they sum to 1), Tᵢ a temperature of
its own. The second part of the first line is the same for all classes, so that it changes no probability: it gives the
average the scale of logits, and one teacher twice is that teacher. An objective's temperature softens the average:
softmax(t/T), not the mean of the teachers' softened answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from limbeck.core.trace import Batch, Teacher, Trace, Want


@dataclass(frozen=True)
class Voice:
    """One of the teachers."""

    teacher: Teacher
    weight: float = 1.0
    temperature: float = 1.0
    order: Sequence[int] = ()  # which of its outputs each class is; empty: as they are


class AverageTeacher(Teacher):
    """Answers with the weighted mean of several teachers' probabilities, as logits."""

    has = Want.LOGITS

    def __init__(self, voices: Sequence[Voice]) -> None:
        total = sum(voice.weight for voice in voices)
        self._voices = [voice for voice in voices if voice.weight]
        self._shares = [voice.weight / total for voice in self._voices]

    def answer(self, batch: Batch) -> Trace:
        # In double precision, whatever order they come in
        logits = [_in_order(voice.teacher.answer(batch).logits.double(), voice) for voice in self._voices]
        return Trace(logits=average(logits, self._shares, batch.task.kind).float())


def average(logits: Sequence[Tensor], shares: Sequence[float], kind: str) -> Tensor:
    """[rows, outputs] from the logits of each teacher, already over its own temperature; the shares sum to 1."""
    if kind == "regress":
        return sum((share * one for share, one in zip(shares, logits, strict=True)), torch.zeros_like(logits[0]))
    if kind == "multilabel":
        return _log_mean([logsigmoid(one) for one in logits], shares) - _log_mean(
            [logsigmoid(-one) for one in logits], shares
        )
    scales = [share * one.logsumexp(-1, keepdim=True) for share, one in zip(shares, logits, strict=True)]
    return _log_mean([one.log_softmax(-1) for one in logits], shares) + torch.stack(scales).sum(0)


def _log_mean(log_p: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """log Σ w·p."""
    return torch.stack([one + log(share) for share, one in zip(shares, log_p, strict=True)]).logsumexp(0)


def _in_order(logits: Tensor, voice: Voice) -> Tensor:
    return (logits[:, list(voice.order)] if len(voice.order) else logits) / voice.temperature
