"""Token classification: a tag for each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from limbeck.core.progress import Watcher
from limbeck.core.record import Disagreement
from limbeck.core.task import Kind
from limbeck.data.settings import WindowSettings
from limbeck.data.token.sentences import OUTSIDE, Sentence, read_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.data.windows import WindowCorpus, WindowRows
from limbeck.measure.disagreements import tag_disagreements
from limbeck.measure.tags import each_sentence, per_type, tag_quality
from limbeck.tasks.base import Evaluation, Model, task
from limbeck.tasks.windows import Logits, Predicted, WindowEvaluator, WindowTask


class TokenEvaluator(WindowEvaluator):
    def predicted(self, split: str, logits: Logits) -> Predicted:
        labels = self.info.labels
        # A word that the tokenizer drops is predicted to be outside.
        filler = OUTSIDE if OUTSIDE in labels else labels[0]
        tags = [[filler] * len(item.gold) for item in self.corpus.items(split)]
        sure = [[0.0] * len(item.gold) for item in self.corpus.items(split)]
        for windows, _, rows in logits:
            best = zip(rows.argmax(axis=1).tolist(), softmax(rows, axis=1).max(axis=1).tolist(), strict=True)
            for window in windows:
                for word in window.where.tolist():
                    label, probability = next(best)
                    tags[window.item][word], sure[window.item][word] = labels[label], probability
        return Predicted(tags, sure)

    def scored(self, split: str, predictions: list[list[str]]) -> Evaluation:
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        sums = each_sentence(gold, predictions, self.info.labels)
        types = per_type(gold, predictions, self.info.labels)
        return Evaluation(self.corpus.splits[split].row_uids, sums, tag_quality(sums), types, None, known, known)

    def disagreements(self, student: Predicted, teacher: Predicted) -> list[Disagreement]:
        items = [item for item in self.corpus.items("test") if isinstance(item, Sentence)]
        words, gold = [item.words for item in items], [item.tags for item in items]
        return tag_disagreements(words, gold, *student, *teacher, most=self.examples)


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
