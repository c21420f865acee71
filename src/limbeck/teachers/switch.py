"""Teachers of several directions, each of which steps back when the student has outgrown it.

    answer = w · p + (1 − w) · 1[label]        p the teacher's, w its direction's share

At w = 1 this is the teacher; at w = 0 all mass is on the label, and a term that compares with it is the plain
−log q(label). In between, the cross-entropy is w times the one and 1 − w times the other, so a term of weight λ gives
the teacher a weight of λ·w.

    fixed        w = 1
    threshold    w = 0 while s ≥ t + margin, else 1       s, t: dev BLEU of student and teacher
    adaptive     w = 0.5^(s − t + 2) from s = t − 2 on, 1 below
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limbeck.core.trace import Batch, Teacher, Trace, Want
from limbeck.teachers.settings import SwitchSettings

HALVES_BELOW = 2.0  # BLEU below its own from which an adaptive teacher gives way


def score_name(direction: str) -> str:
    """The dev figure of a direction; the only one of a run has no name."""
    return f"bleu of {direction}" if direction else "bleu"


def share(settings: SwitchSettings, student: float, teacher: float) -> float:
    """Of the teacher in its answers, by dev BLEU of both; all of it where a score is not a number."""
    if settings.strategy == "threshold":
        return 0.0 if student >= teacher + settings.margin else 1.0
    if settings.strategy == "adaptive":
        return 0.5 ** max(0.0, student - teacher + HALVES_BELOW)
    return 1.0


@dataclass(frozen=True)
class DirectionIndex:
    """The direction of each example; an example in several directions belongs to the first."""

    names: tuple[str, ...]  # of the directions
    uids: np.ndarray  # [examples] int64, ascending
    indices: np.ndarray  # [examples] into the names

    @classmethod
    def of(cls, names: Sequence[str], uids: np.ndarray, indices: np.ndarray) -> DirectionIndex:
        distinct, first = np.unique(uids, return_index=True)
        return cls(tuple(names), distinct, indices[first])

    def find(self, uids: np.ndarray) -> np.ndarray:
        return self.indices[np.searchsorted(self.uids, uids)]


class Switch(Teacher):
    """Cached answers of all teachers. `update` sets their shares by the student's dev figures."""

    has = Want.TOP

    def __init__(
        self,
        cached: Teacher,
        directions: DirectionIndex,
        scores: Mapping[str, float],
        settings: SwitchSettings | None = None,
    ) -> None:
        self.cached, self.directions, self.scores = cached, directions, dict(scores)  # scores: dev BLEU of each teacher
        self.settings = settings or SwitchSettings()
        self.shares = dict.fromkeys(directions.names, 1.0)

    def update(self, dev: Mapping[str, float]) -> None:
        """Sets every share by the student's dev figures; without them all teachers are on."""
        self.shares = {name: self.share_at(name, dev.get(score_name(name), float("nan"))) for name in self.shares}

    def share_at(self, direction: str, student: float) -> float:
        return share(self.settings, student, self.scores[direction])

    def answer(self, batch: Batch) -> Trace:
        import torch

        from limbeck.functional.truncated import mix_with_labels

        trace = self.cached.answer(batch)
        if all(value == 1 for value in self.shares.values()):
            return trace
        shares = torch.tensor([self.shares[name] for name in self.directions.names], device=batch.uids.device)
        indices = torch.from_numpy(self.directions.find(batch.uids.cpu().numpy())).to(batch.uids.device)
        of_token = shares[indices].repeat_interleave(batch.in_loss.sum(1))
        return replace(trace, top=mix_with_labels(trace.top, batch.labels[batch.in_loss], of_token))
