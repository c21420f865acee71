"""How a language model is examined: every predicted token of a split, once, beside a teacher where there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel

from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch, Trace
from limbeck.data.tokens import Tokens, token_batches
from limbeck.measure.quality import quality
from limbeck.measure.tokens import TokenStatistics, token_statistics
from limbeck.recipes.cell import Answers
from limbeck.recipes.words import Words

BATCH = 32  # blocks


class Remembered(Teacher):
    """A teacher whose answers stay in memory: what it said of the test split serves every student.

    Logits that are more than a projection are too large for that; such a teacher is asked again."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher
        self.has = teacher.has
        self.forgets = False  # what it was asked, so that the teacher must stay
        self._said: dict[tuple[int, ...], Trace] = {}

    def answer(self, batch: Batch) -> Trace:
        key = tuple(batch.uids.tolist())
        if key in self._said:
            return self._said[key]
        shown = self.teacher.answer(batch)
        if shown.tokens.weight.numel():
            self._said[key] = shown
        else:
            self.forgets = True
        return shown


@dataclass(frozen=True)
class TokenExam:
    words: Words
    teacher: Teacher = field(default_factory=NoTeacher)  # to compare with on the test split

    @property
    def dev(self) -> Tokens:
        return self.words.splits["dev"]

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.words.collator(rows)

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        return {"gauge": self._gauge}

    def _gauge(self, model: PreTrainedModel) -> dict[str, float]:
        found = scored(self.words, self._statistics(model, "dev", NoTeacher()))
        return {"loss": found["token_nll"], **found}

    def test(self, model: PreTrainedModel) -> Answers:
        found = self._statistics(model, "test", self.teacher)
        return Answers(found.uids, found.sums, scored(self.words, found), fidelity=found.fidelity)

    def _statistics(self, model: PreTrainedModel, split: str, teacher: Teacher) -> TokenStatistics:
        asked = token_batches(self.words.splits[split], self.words.collator, BATCH)
        return token_statistics(model, asked, self.words.task.vocab_size, teacher)


def scored(words: Words, found: TokenStatistics) -> dict[str, float]:
    rows = np.ones(len(found.sums), dtype=bool)
    return quality(words.task, found.sums, rows, rows)[0]
