"""Next sentence: the student learns whether the second of two sentences follows the first.

    L = −log q(y),   y = 0 where it follows, 1 where it comes from elsewhere

The mean is over pairs. BERT adds this term to `language` with equal weight; DistilBERT and RoBERTa leave it out. An
untrained model has a loss near log 2. The term needs a student with a head of two outputs over the first token, and
documents split into sentences.

Example:

    import torch
    import limbeck

    student = torch.randn(4, 2)  # [pairs, follows or not]
    limbeck.loss(limbeck.NextSentence(), student, labels=torch.tensor([0, 1, 1, 0]))
"""

from __future__ import annotations

from typing import ClassVar

from limbeck.core.card import method
from limbeck.core.objective import Mean, Objective, Rows, Terms
from limbeck.core.task import Kind
from limbeck.core.trace import Batch, Trace
from limbeck.objectives.labels import DEVLIN_2019


@method("next-sentence", DEVLIN_2019)
class NextSentence(Objective):
    """Cross-entropy of whether the second sentence follows the first."""

    rows: ClassVar[Rows] = "examples"
    serves: ClassVar[tuple[Kind, ...]] = ("mask-fill",)
    remedy: ClassVar[str] = "it belongs to BERT's pre-training, mask-fill over pairs of sentences"

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        from limbeck.functional.divergence import hard_cross_entropy

        each = hard_cross_entropy(student.logits, batch.next_sentence_label)
        return {"next": Mean(each.sum(), each.new_tensor(len(each)))}
