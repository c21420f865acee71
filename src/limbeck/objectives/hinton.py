"""Soft targets: the student learns the teacher's whole distribution.

    classes      L = T² · KL( softmax(t/T) ‖ softmax(s/T) )
    tags         as classes, one row for each word
    answers      as classes, one row for the start and one for the end, over the positions where they can lie
    multi-label  L = T² · mean over labels of KL( σ(t/T) ‖ σ(s/T) )

T² keeps the size of the gradient independent of T. It scales this term only, never the one over labels.
As T grows, the loss tends to half the variance of the logits' difference. The mean is over every row, labelled or not,
so unlabelled text teaches too.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(4, 3), torch.randn(4, 3)  # [texts, classes]
    objective = 0.5 * limbeck.Labels() + 0.5 * limbeck.SoftTargets(temperature=4)
    limbeck.loss(objective, student, teacher, labels=torch.tensor([0, 2, 1, -100]))
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.knob import knob
from limbeck.core.objective import Mean, Objective, Terms
from limbeck.core.task import IMAGE_KINDS, WINDOW_KINDS, Kind
from limbeck.core.trace import Batch, Trace, Want

if TYPE_CHECKING:
    from torch import Tensor

HINTON_2015 = Paper(
    "Distilling the Knowledge in a Neural Network",
    "Geoffrey Hinton and Oriol Vinyals and Jeff Dean",
    2015,
    "NIPS Deep Learning Workshop, arXiv:1503.02531",
    "hinton2015distilling",
    "https://arxiv.org/abs/1503.02531",
)


@method("hinton", HINTON_2015)
class SoftTargets(Objective):
    """KL between the softened distributions of teacher and student."""

    wants: ClassVar[Want] = Want.LOGITS
    serves: ClassVar[tuple[Kind, ...]] = ("classify", "multilabel", *WINDOW_KINDS, *IMAGE_KINDS)
    remedy: ClassVar[str] = "a number has no distribution to soften; use 'logits', which matches the number itself"

    temperature: float = knob(
        2.0, "softens both distributions; 1 leaves them as they are", above=0, source="DistilBERT code, T=2"
    )

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import binary_kl, kl

        if batch.task.kind == "multilabel":
            each = binary_kl(teacher.logits, student.logits, self.temperature) / batch.task.outputs
        else:
            t, s = (mask_positions(trace.logits, batch, -inf) for trace in (teacher, student))
            each = kl(t, s, self.temperature)
        return {"soft": Mean(self.temperature**2 * each.sum(), each.new_tensor(len(each)))}


def mask_positions(logits: Tensor, batch: Batch, fill: float) -> Tensor:
    """[rows, outputs] with `fill` at token positions where no answer can lie; logits of other tasks are unchanged.

    So nothing is compared there, at any temperature and precision."""
    if batch.task.kind != "answer":
        return logits
    return logits.masked_fill(~batch.predicted.repeat_interleave(2, 0), fill)
