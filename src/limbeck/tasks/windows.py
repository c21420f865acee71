"""Token classification and extractive QA: long texts are read in windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from limbeck.core.errors import MismatchError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import Kind
from limbeck.core.trace import Want
from limbeck.data.settings import WindowSettings
from limbeck.data.span.questions import Question, read_questions
from limbeck.data.span.windows import encode_questions
from limbeck.data.token.sentences import Sentence, read_sentences
from limbeck.data.token.windows import encode_sentences
from limbeck.data.windows import WindowCorpus, WindowRow, WindowRows
from limbeck.measure.evaluator import Evaluator
from limbeck.measure.window_evaluator import SpanEvaluator, TokenEvaluator
from limbeck.students.load import labels_in
from limbeck.tasks.base import EncodedData, Model, Options, Setup, Task, task
from limbeck.tasks.text import check_outputs, data_fingerprint, encoded_rows, labels_fingerprint

W = TypeVar("W", bound=WindowRow)


@dataclass(frozen=True)
class WindowTask(Task[WindowRows[W]], Generic[W]):
    """Reads windows; what is predicted of them is the subclasses' own."""

    evaluator: ClassVar[Callable[..., Evaluator]]

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
        return encoded_rows(corpus.splits, evaluator, corpus.card, prints)

    def timing_inputs(self, setup: Setup[WindowRows[W]]) -> list[tuple[str, str]]:
        return [row.texts for row in setup.splits.parts["test"].rows]

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
    evaluator: ClassVar[Callable[..., Evaluator]] = TokenEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Sentence]:
        known = labels_in(model.network.config) if model else ()
        found = read_sentences(self.knobs.data, self.knobs.table(WindowSettings), data, known, only_test)
        return replace(found, task=self.with_metric(found.task))

    def cut(self, splits: WindowRows[Sentence], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_sentences(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)


@task
@dataclass(frozen=True)
class QuestionAnswering(WindowTask[Question]):
    """The span of a text that answers a question, or none."""

    kinds: ClassVar[tuple[Kind, ...]] = ("answer",)
    evaluator: ClassVar[Callable[..., Evaluator]] = SpanEvaluator

    def read(
        self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False
    ) -> WindowRows[Question]:
        found = read_questions(self.knobs.data, self.knobs.table(WindowSettings), data, only_test)
        return replace(found, task=self.with_metric(found.task))

    def cut(self, splits: WindowRows[Question], processor: Any, watcher: Watcher) -> WindowCorpus:
        return encode_questions(splits, processor, self.knobs.data, self.knobs.table(WindowSettings), watcher)
