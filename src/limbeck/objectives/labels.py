"""Labels: the student learns the labels of the data, as in plain fine-tuning.

    classes      L = −log q(y)
    multi-label  L = mean over labels of the binary cross-entropy
    regression   L = (z − y)²
    tags         as classes, one row for each word
    answers      as classes, one row for the start and one for the end, over the positions where they can lie

The mean is over labelled rows only; a row without a label adds nothing.

Example:

    import torch
    import limbeck

    student = torch.randn(4, 3)  # [texts, classes]
    limbeck.loss(limbeck.Labels(), student, labels=torch.tensor([0, 2, 1, -100]))  # -100: no label
"""

from __future__ import annotations

from typing import ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.task import TEXT_KINDS, WINDOW_KINDS, Kind
from limbeck.core.trace import Batch, Trace

DEVLIN_2019 = Paper(
    "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    "Jacob Devlin and Ming-Wei Chang and Kenton Lee and Kristina Toutanova",
    2019,
    "NAACL 2019, arXiv:1810.04805",
    "devlin2019bert",
    "https://arxiv.org/abs/1810.04805",
)


@method("labels", DEVLIN_2019)
class Labels(Objective):
    """Cross-entropy with labels; for numbers the squared difference."""

    rows: ClassVar[Rows] = "has_label"
    serves: ClassVar[tuple[Kind, ...]] = (*TEXT_KINDS, *WINDOW_KINDS)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import hard_binary_cross_entropy, hard_cross_entropy, squared_distance

        # Rows are selected before the loss: the label of an unlabelled row may be any filler.
        logits, labels = student.logits[batch.has_label], batch.labels[batch.has_label]
        if batch.task.kind == "classify" or batch.task.in_windows:
            each = hard_cross_entropy(logits, labels)
        elif batch.task.kind == "multilabel":
            each = hard_binary_cross_entropy(logits, labels)
        else:
            each = squared_distance(labels.view(-1, 1), logits.view(-1, 1))
        return {"labels": Mean(each.sum(), batch.has_label.sum())}
