"""Token classification: a tag for each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.core.progress import Watcher
from limbeck.core.record import Fidelity
from limbeck.core.task import Kind
from limbeck.data.settings import WindowSettings
from limbeck.data.token.corpus import encode_sentences, read_sentences
from limbeck.data.token.sentences import OUTSIDE, Sentence
from limbeck.data.windows import WindowCorpus, WindowRows
from limbeck.measure.tags import each_sentence, per_type, tag_quality
from limbeck.tasks.base import Evaluation, Model, task
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
        names = self.corpus.splits[split].row_uids
        return Evaluation(names, sums, tag_quality(sums), types, fidelity, known, known)


@task
@dataclass(frozen=True)
class TokenClassification(WindowTask):
    """A tag for each word, in windows of long texts."""

    kinds: ClassVar[tuple[Kind, ...]] = ("tag",)
    recipes: ClassVar[Mapping[str, str]] = {"tag": "hinton"}
    evaluator: ClassVar[type[WindowEvaluator]] = TokenEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Sentence]:
        known = model.labels if model else ()
        return read_sentences(self.knobs.data, self.knobs.table(WindowSettings), data, known, only_test)

    def cut(self, splits: WindowRows[Sentence], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_sentences(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)
