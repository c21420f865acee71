"""What a model predicts of a text: one class, any number of labels, a number, tokens, tags, spans, or another text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator

from limbeck.core.knob import Settings
from limbeck.core.metric import METRICS, metric_of

Kind = Literal["classify", "multilabel", "regress", "mask-fill", "generate", "tag", "answer", "translate"]
LanguageKind = Literal["mask-fill", "generate"]
WindowKind = Literal["tag", "answer"]
Seq2SeqKind = Literal["translate"]
Level = Literal["text", "token", "span", "vocabulary"]
TEXT_KINDS: tuple[Kind, ...] = ("classify", "multilabel", "regress")
LANGUAGE_KINDS: tuple[LanguageKind, ...] = (
    "mask-fill",
    "generate",
)  # a row is a token, an answer a distribution over words
SEQ2SEQ_KINDS: tuple[Seq2SeqKind, ...] = ("translate",)  # the same, and the tokens together are a text that is written
# A row is a word whose tag is asked for, or one end of an answer, which is a place in the text.
WINDOW_KINDS: tuple[WindowKind, ...] = ("tag", "answer")
ENDS = ("start", "end")  # the two rows of a question, and the outputs of a model that answers
ENCODER_KINDS: tuple[Kind, ...] = (*TEXT_KINDS, *WINDOW_KINDS, "mask-fill")  # what sees the whole text

HUB_TAGS: dict[str, Kind] = {  # what the Hub calls a task → what we do
    "text-classification": "classify",
    "token-classification": "tag",
    "question-answering": "answer",
    "fill-mask": "mask-fill",
    "text-generation": "generate",
    "translation": "translate",
}


@dataclass(frozen=True)
class Units:
    """What things are called in reports, in the singular."""

    source: str  # what the source holds
    row: str  # what a split counts
    input: str  # what is timed, and what a significance test draws
    prediction: str  # what a model predicts once
    labelled: str = "labelled"  # a split's second count
    repeated: str = "text"  # what may occur twice
    unscored: str = "the test rows carry no labels"  # why there is no score
    judged: str = "right"  # what a prediction is beside its label; "closer" where hardly any is right
    timing: str = ""  # what to know of the milliseconds
    decoded: bool = False  # a prediction is a whole text, decoded greedily or by a beam


@dataclass(frozen=True)
class _Facts:
    tag: str  # the Hub's
    level: Level
    units: Units
    problem_type: str = ""  # transformers'; it has one for texts only


def _of_text(problem_type: str, judged: str = "right") -> _Facts:
    return _Facts("text-classification", "text", Units("row", "row", "sentence", "row", judged=judged), problem_type)


def _of_blocks(tag: str, timing: str = "") -> _Facts:
    why = "no test token was scored"
    units = Units("document", "block", "block", "token", "tokens", "document", why, timing=timing)
    return _Facts(tag, "vocabulary", units)


_FACTS: dict[str, _Facts] = {
    "classify": _of_text("single_label_classification"),
    "multilabel": _of_text("multi_label_classification"),
    "regress": _of_text("regression", judged="closer"),
    "tag": _Facts("token-classification", "token", Units("sentence", "sentence", "sentence", "word")),
    "answer": _Facts("question-answering", "span", Units("question", "question", "question", "answer end")),
    "mask-fill": _of_blocks("fill-mask"),
    "generate": _of_blocks("text-generation", "one forward pass, not generation token by token"),
    "translate": _Facts(
        "translation",
        "vocabulary",
        Units(
            *("pair", "sentence", "sentence", "token", "with a target", "source", "no test sentence was scored"),
            judged="closer",
            decoded=True,
        ),
    ),
}


class TaskInfo(Settings):
    kind: Kind
    labels: tuple[str, ...] = ()
    vocab_size: int = 0  # of a task over a vocabulary
    metric: str = ""  # what chooses the checkpoint and leads the report; by default the first of its kind

    @model_validator(mode="before")
    @classmethod
    def _with_metric(cls, values: dict[str, Any]) -> dict[str, Any]:
        if "kind" not in values or values["kind"] not in METRICS:
            return values
        return {**values, "metric": values.get("metric") or METRICS[values["kind"]][0].name}

    @property
    def tag(self) -> str:
        """The Hub's name of the task."""
        return _FACTS[self.kind].tag

    @property
    def level(self) -> Level:
        """What a row of logits is of."""
        return _FACTS[self.kind].level

    @property
    def units(self) -> Units:
        return _FACTS[self.kind].units

    @property
    def over_vocabulary(self) -> bool:
        """A row is a token: of running text, or of a text that is written."""
        return self.level == "vocabulary"

    @property
    def is_seq2seq(self) -> bool:
        return self.kind in SEQ2SEQ_KINDS

    @property
    def in_windows(self) -> bool:
        return self.level in ("token", "span")

    @property
    def outputs(self) -> int:
        if self.over_vocabulary:
            return self.vocab_size
        if self.kind == "answer":
            return len(ENDS)
        return 1 if self.kind == "regress" else len(self.labels)

    @property
    def problem_type(self) -> str:
        """The name transformers has for this kind of task; for tasks about tokens and spans it has none."""
        return _FACTS[self.kind].problem_type

    @property
    def higher_is_better(self) -> bool:
        return metric_of(self, self.metric).higher_is_better

    def __str__(self) -> str:
        if self.over_vocabulary:
            what = {"mask-fill": "masked tokens", "generate": "the next token"}.get(self.kind, "text to text")
            return f"{what}, vocabulary of {self.vocab_size:,} tokens"
        if self.kind in ("regress", "answer"):
            return "regression" if self.kind == "regress" else "extractive question answering"
        what = {"classify": "classes", "tag": "tags of words"}.get(self.kind, "labels, any number per text")
        return f"{len(self.labels)} {what} ({', '.join(self.labels[:6])}{', …' if len(self.labels) > 6 else ''})"
