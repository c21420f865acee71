"""Logit regression: the student learns the teacher's scores before the softmax.

    L = mean over outputs of (s − t)²

The mean over outputs is stated because it matters: a sum would be as many times stronger as there are classes.
Serves regression too, where the only output is the number itself.
"""

from __future__ import annotations

from typing import ClassVar

from limbeck import math
from limbeck.core.card import method
from limbeck.core.objective import Objective, Terms
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want
from limbeck.objectives.papers import BA_CARUANA_2014


@method("logits", BA_CARUANA_2014)
class LogitRegression(Objective):
    wants: ClassVar[Want] = Want.LOGITS

    def terms(self, student: Trace, teacher: Trace, batch: Batch) -> Terms:
        each = math.squared_distance(teacher.logits, student.logits)
        return {"logits": math.masked_mean(each, batch.counted)}
