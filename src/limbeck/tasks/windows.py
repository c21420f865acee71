"""Token classification and extractive QA: long texts are read in windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import Kind
from limbeck.core.trace import Want
from limbeck.data.settings import WindowSettings
from limbeck.data.sources.tables import Table
from limbeck.data.span.questions import Question, new_questions, read_questions, unlabelled_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.token.sentences import Sentence, new_sentences, read_sentences, unlabelled_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.data.windows import WindowCorpus, WindowRow, WindowRows
from limbeck.measure.window_evaluator import SpanEvaluator, TokenEvaluator, WindowEvaluator
from limbeck.students.load import labels_in
from limbeck.tasks.base import Answer, EncodedData, Inputs, Model, Options, Setup, Task, task
from limbeck.tasks.whole import check_outputs, data_fingerprint, encoded_rows, labels_fingerprint
from limbeck_runtime.tags import is_plain, tagged

W = TypeVar("W", bound=WindowRow)


@dataclass(frozen=True)
class WindowTask(Task[WindowRows[W]], Generic[W]):
    """Reads windows; what is predicted of them is the subclasses' own."""

    unlabelled_remedy: ClassVar[str] = ""
    evaluator: ClassVar[Callable[..., WindowEvaluator[Any, Any]]]

    @abstractmethod
    def cut(self, splits: WindowRows[W], processor: Any, watcher: Watcher) -> WindowCorpus:
        """The rows as windows of a tokenizer's tokens."""

    def encode(
        self, splits: WindowRows[W], model: Model, watcher: Watcher, teacher: Model | None = None
    ) -> EncodedData:
        if teacher is not None:
            check_alike(model, teacher, self.info.kind == "tag", remedy="evaluate each alone, without --teacher")
        settings: WindowSettings = self.knobs.table(WindowSettings)
        corpus = self.cut(splits, model.processor, watcher)
        salt = f"{self.knobs.data.max_length} {settings.stride} {settings.longest_question}"
        # Of several gold answers a row holds one, so they are named here too.
        golds = repr([[item.gold for item in corpus.items(name)] for name in corpus.splits])
        prints = {"data": data_fingerprint(corpus, salt), "labels": labels_fingerprint(corpus, golds)}
        evaluator = self.evaluator(corpus, model.processor, settings, self.knobs.measure.examples)
        items = corpus.items("train")
        labelled = np.array([items[window.item].has_label for window in corpus.train.windows], dtype=bool)
        return encoded_rows(corpus.splits, evaluator, corpus.card, prints, labelled)

    def predictions(self, model: Model, rows: WindowRows[W]) -> Iterator[tuple[Any, Any]]:
        """What is predicted of each row, and how sure the model is of it."""
        corpus, settings = self.cut(rows, model.processor, Silent()), self.knobs.table(WindowSettings)
        evaluator = self.evaluator(corpus, model.processor, settings)
        return zip(*evaluator.predictions(model.network), strict=True)

    def texts(self, setup: Setup[WindowRows[W]], split: str) -> list[tuple[str, str]]:
        return [row.texts for row in setup.splits.parts[split].rows]

    def check(
        self, run: Options, setup: Setup[WindowRows[W]], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        assert setup.teacher is not None  # or `prepare` refuses
        check_outputs(student, setup.teacher)
        check_alike(student, setup.teacher)


def check_alike(
    student: Model,
    teacher: Model,
    labels: bool = False,
    remedy: str = "start from a model with the teacher's tokenizer, or leave out --student-from and shrink the teacher",
) -> None:
    """Predictions about tokens compare only where tokens and tags are the same."""
    if not tokenizers_equal(student.processor, teacher.processor):
        raise MismatchError("student and teacher use different tokenizers, so token positions do not line up", remedy)
    ours, theirs = labels_in(student.network.config), labels_in(teacher.network.config)
    if labels and ours != theirs:
        raise MismatchError(
            f"the model's tags are {', '.join(ours[:6])}; the teacher's {', '.join(theirs[:6])}",
            "compare models of the same tags in the same order, or evaluate each alone, without --teacher",
        )


@task
@dataclass(frozen=True)
class TokenClassification(WindowTask[Sentence]):
    """A tag for each word, in windows of long texts."""

    kinds: ClassVar[tuple[Kind, ...]] = ("tag",)
    evaluator: ClassVar[Callable[..., WindowEvaluator[Any, Any]]] = TokenEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Sentence]:
        known = labels_in(model.network.config) if model else ()
        found = read_sentences(self.knobs.data, self.knobs.table(WindowSettings), data, known, only_test)
        return replace(found, task=self.with_metric(found.task))

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        return new_sentences(self.knobs.data, self.knobs.table(WindowSettings), data)

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        info = replace(self.info, labels=labels_in(model.network.config))
        found = self.predictions(model, unlabelled_sentences(rows, info))
        plain = is_plain(info.labels)
        return [tagged(words, tags, sure, plain) for words, (tags, sure) in zip(rows, found, strict=True)]

    def cut(self, splits: WindowRows[Sentence], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_sentences(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)


@task
@dataclass(frozen=True)
class QuestionAnswering(WindowTask[Question]):
    """The span of a text that answers a question, or none."""

    kinds: ClassVar[tuple[Kind, ...]] = ("answer",)
    evaluator: ClassVar[Callable[..., WindowEvaluator[Any, Any]]] = SpanEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Question]:
        found = read_questions(self.knobs.data, self.knobs.table(WindowSettings), data, only_test)
        return replace(found, task=self.with_metric(found.task))

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        return new_questions(self.knobs.data, self.knobs.table(WindowSettings), data)

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        """A question has no answer only where --windows.null-threshold says when."""
        nullable = "null_threshold" in self.knobs.table(WindowSettings).model_fields_set
        found = self.predictions(model, unlabelled_questions(rows, nullable))
        return [{"answer": answer, "probability": sure} for answer, sure in found]

    def cut(self, splits: WindowRows[Question], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_questions(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)
