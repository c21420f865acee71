"""Cosine: the student's last hidden states learn to point where the teacher's do.

    L = 1 − cos( h_student, h_teacher )

The mean is over all tokens but padding. The loss is 0 at equality, at most 2, and ignores the length of the vectors.
Both models need the same width, since no map lies between them.

DistilBERT's triple loss is 5 · T²·KL of the tokens ('word-kd' at T = 2, over all tokens but padding, or 'truncated') +
2 · 'language' + 1 · 'cosine'. Without this term the paper loses 1.5 points of GLUE, without the KL 3.0.

Example:

    import torch
    import limbeck
    from limbeck import Trace

    student = Trace(hidden=tuple(torch.randn(2, 7, 16) for _ in range(3)))  # embeddings and 2 layers
    teacher = Trace(hidden=tuple(torch.randn(2, 7, 16) for _ in range(5)))  # embeddings and 4 layers, the same width
    limbeck.loss(limbeck.Cosine(), student, teacher)
"""

from __future__ import annotations

from typing import ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.record import Shape
from limbeck.core.task import LANGUAGE_KINDS, Kind
from limbeck.core.trace import Batch, Request, Trace, Want

SANH_2019 = Paper(
    "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    "Victor Sanh and Lysandre Debut and Julien Chaumond and Thomas Wolf",
    2019,
    "NeurIPS EMC2 Workshop 2019, arXiv:1910.01108",
    "sanh2019distilbert",
    "https://arxiv.org/abs/1910.01108",
)


@method("cosine", SANH_2019)
class Cosine(Objective):
    """1 − cosine between the last hidden states of student and teacher."""

    rows: ClassVar[Rows] = "present"
    wants: ClassVar[Want] = Want.HIDDEN
    serves: ClassVar[tuple[Kind, ...]] = LANGUAGE_KINDS
    remedy: ClassVar[str] = "it belongs to pre-training; for texts with labels use 'hinton' or 'logits'"

    def requests(self, student: Shape, teacher: Shape) -> tuple[Request, Request]:
        if student.hidden != teacher.hidden:
            raise MismatchError(
                f"'cosine' compares states of one width, but the student has {student.hidden} and the teacher "
                f"{teacher.hidden}",
                "keep the teacher's width, or give the term the weight 0",
            )
        of_student = Request(Want.LOGITS | Want.HIDDEN, hidden=(student.layers,))
        return of_student, Request(Want.HIDDEN, hidden=(teacher.layers,))

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import cosine_distance

        present = batch.inputs["attention_mask"].bool()
        # Tokens are selected before the formula: padding may hold anything.
        each = cosine_distance(teacher.hidden[-1][present], student.hidden[-1][present])
        return {"cosine": Mean(each.sum(), present.sum())}
