"""Logit regression: the student learns the teacher's scores before the softmax.

    L = mean over outputs of (s − t)²

The mean over outputs is stated because it matters: a sum would be as many times stronger as there are classes.
Serves regression too, where the only output is the number itself, and tags, a row for each word. Of an answer the
outputs of a row are the places it may lie at, and only those are in the mean.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(4, 3), torch.randn(4, 3)  # [texts, classes]
    limbeck.loss(limbeck.LogitRegression(), student, teacher)
"""

from __future__ import annotations

from typing import ClassVar

from limbeck import functional
from limbeck.core.card import Paper, method
from limbeck.core.objective import Mean, Objective, Terms
from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS, Kind
from limbeck.core.trace import Batch, Trace, Want
from limbeck.objectives.places import places, within

BA_CARUANA_2014 = Paper(
    "Do Deep Nets Really Need to be Deep?",
    "Jimmy Ba and Rich Caruana",
    2014,
    "NIPS 2014, arXiv:1312.6184",
    "ba2014deep",
    "https://arxiv.org/abs/1312.6184",
)


@method("logits", BA_CARUANA_2014)
class LogitRegression(Objective):
    """Squared difference between the logits of student and teacher."""

    wants: ClassVar[Want] = Want.LOGITS
    serves: ClassVar[tuple[Kind, ...]] = (*TEXT_KINDS, *WINDOW_KINDS)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        taught, said = (within(trace.logits, batch, 0.0) for trace in (teacher, student))
        each = functional.squared_distance(taught, said)
        if batch.task.kind == "answer":
            each = each * said.shape[1] / places(batch)
        return {"logits": Mean(each.sum(), each.new_tensor(len(each)))}
