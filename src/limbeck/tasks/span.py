"""Extractive question answering: an answer is a span of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from limbeck.core.progress import Watcher
from limbeck.core.record import Disagreement
from limbeck.core.task import Kind
from limbeck.data.settings import WindowSettings
from limbeck.data.span.questions import Question, read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.windows import Window, WindowCorpus, WindowRows
from limbeck.measure.disagreements import span_disagreements
from limbeck.measure.spans import Span, answer_quality, best_spans, chosen, confidence, each_answer
from limbeck.tasks.base import Evaluation, Model, task
from limbeck.tasks.windows import Logits, Predicted, WindowEvaluator, WindowTask


class SpanEvaluator(WindowEvaluator):
    def predicted(self, split: str, logits: Logits) -> Predicted:
        questions = self._questions(split)
        spans: list[list[tuple[Span, Window]]] = [[] for _ in questions]
        nullable, longest = self.corpus.rows.nullable, self.settings.longest_answer
        for windows, batch, rows in logits:
            best = best_spans(rows[0::2], rows[1::2], batch.predicted.numpy(), longest, nullable)
            for window, span in zip(windows, best, strict=True):
                spans[window.item].append((span, window))
        answers = [self._answer(question, of_one) for question, of_one in zip(questions, spans, strict=True)]
        limit = self.settings.null_threshold
        return Predicted(answers, [confidence([span for span, _ in of_one], limit) for of_one in spans])

    def _questions(self, split: str) -> list[Question]:
        return [item for item in self.corpus.items(split) if isinstance(item, Question)]

    def _answer(self, question: Question, spans: Sequence[tuple[Span, Window]]) -> str:
        best = chosen([span for span, _ in spans], self.settings.null_threshold) if spans else -1
        if best < 0:
            return ""
        span, window = spans[best]
        return question.context[window.where[span.start, 0] : window.where[span.end, 1]].strip()

    def scored(self, split: str, predictions: list[str]) -> Evaluation:
        gold = [item.gold for item in self.corpus.items(split)]
        known = np.array([item.has_label for item in self.corpus.items(split)], dtype=bool)
        sums = np.stack(each_answer(predictions, gold), axis=1)[known]
        names, rows = self.corpus.splits[split].row_uids[known], known[known]
        return Evaluation(names, sums, answer_quality(sums), (), None, rows, rows)

    def disagreements(self, student: Predicted, teacher: Predicted) -> list[Disagreement]:
        items = self._questions("test")
        asked = [item.question for item in items], [item.context for item in items]
        gold = [item.answers for item in items], [item.has_label for item in items]
        return span_disagreements(*asked, *gold, *student, *teacher, most=self.examples)


@task
@dataclass(frozen=True)
class QuestionAnswering(WindowTask):
    """The span of a text that answers a question, or none."""

    kinds: ClassVar[tuple[Kind, ...]] = ("answer",)
    recipes: ClassVar[Mapping[str, str]] = {"answer": "hinton"}
    evaluator: ClassVar[type[WindowEvaluator]] = SpanEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Question]:
        return read_questions(self.knobs.data, self.knobs.table(WindowSettings), data, only_test)

    def cut(self, splits: WindowRows[Question], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_questions(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)
