"""Logit regression: the student learns the teacher's scores before the softmax.

    L = mean over outputs of (s − t)²

The mean over outputs matters: a sum would be as many times stronger as there are classes.
It also serves regression, where the only output is the number itself, and tags, with one row for each word. In answers,
the outputs of a row are the positions at which the answer can lie, and the mean is over those only.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(4, 3), torch.randn(4, 3)  # [texts, classes]
    limbeck.loss(limbeck.LogitRegression(), student, teacher)
"""

from __future__ import annotations

from typing import ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.objective import Mean, Objective, Terms
from limbeck.core.task import WHOLE_KINDS, WINDOW_KINDS, Kind
from limbeck.core.trace import Batch, Trace, Want
from limbeck.objectives.hinton import mask_positions

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
    serves: ClassVar[tuple[Kind, ...]] = (*WHOLE_KINDS, *WINDOW_KINDS)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import squared_distance

        t, s = (mask_positions(trace.logits, batch, 0.0) for trace in (teacher, student))
        each = squared_distance(t, s)
        if batch.task.kind == "answer":
            each = each * s.shape[1] / batch.predicted.sum(1).repeat_interleave(2)
        return {"logits": Mean(each.sum(), each.new_tensor(len(each)))}
