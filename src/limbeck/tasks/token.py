"""Token classification: a tag for each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from limbeck.core.record import Fidelity
from limbeck.core.task import Kind
from limbeck.data.tags import OUTSIDE
from limbeck.measure.tags import each_sentence, per_type, tag_quality
from limbeck.tasks.base import Evaluation, task
from limbeck.tasks.windows import Logits, WindowEvaluator, WindowTask


class TokenEvaluator(WindowEvaluator):
    def predictions(self, split: str, logits: Logits) -> list[list[str]]:
        labels = self.info.labels
        # A word that the tokenizer drops is predicted to be outside.
        filler = OUTSIDE if OUTSIDE in labels else labels[0]
        tags = [[filler] * len(item.gold) for item in self.corpus.items(split)]
        for windows, _, rows in logits:
            best = iter(rows.argmax(axis=1).tolist())
            for window in windows:
                for word in window.where.tolist():
                    tags[window.item][word] = labels[next(best)]
        return tags

    def scored(self, split: str, predictions: list[list[str]], fidelity: Fidelity | None) -> Evaluation:
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        sums = each_sentence(gold, predictions, self.info.labels)
        types = per_type(gold, predictions, self.info.labels)
        names = self.corpus.splits[split].names
        return Evaluation(names, sums, tag_quality(sums), types, fidelity, known, known)


@task
@dataclass(frozen=True)
class TokenClassification(WindowTask):
    """A tag for each word, in windows of long texts."""

    kinds: ClassVar[tuple[Kind, ...]] = ("tag",)
    recipes: ClassVar[Mapping[str, str]] = {"tag": "hinton"}
    evaluator: ClassVar[type[WindowEvaluator]] = TokenEvaluator
