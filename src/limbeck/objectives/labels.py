"""Labels: the student learns what people said, as in plain fine-tuning.

    classes      L = −log q(y)
    multi-label  L = mean over labels of the binary cross-entropy
    regression   L = (z − y)²
    tags         as classes, a row for each word
    answers      as classes, a row for the start and one for the end, over the places where it may lie

The mean is over labelled rows only; a row without a label adds nothing.
"""

from __future__ import annotations

from typing import ClassVar

from limbeck import math
from limbeck.core.card import method
from limbeck.core.objective import Objective, Rows, Terms
from limbeck.core.task import OF_PLACES, OF_TEXTS, Kind
from limbeck.core.trace import Batch, Trace
from limbeck.objectives.papers import DEVLIN_2019


@method("labels", DEVLIN_2019)
class Labels(Objective):
    rows: ClassVar[Rows] = "labelled"
    serves: ClassVar[tuple[Kind, ...]] = (*OF_TEXTS, *OF_PLACES)

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        # Rows are chosen before the loss: an unlabelled row's label may be any filler.
        logits, labels = student.logits[batch.labelled], batch.labels[batch.labelled]
        if batch.task.kind == "classify" or batch.task.of_places:
            each = math.hard_cross_entropy(logits, labels)
        elif batch.task.kind == "multilabel":
            each = math.hard_binary_cross_entropy(logits, labels)
        else:
            each = math.squared_distance(labels.view(-1, 1), logits.view(-1, 1))
        return {"labels": math.masked_mean(each, batch.labelled[batch.labelled])}
