"""What is asked of a text: one class, any number of labels, a number, its own words, places in it, or another text."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from limbeck.core.knob import Settings

Kind = Literal["classify", "multilabel", "regress", "mask-fill", "generate", "tag", "answer", "translate"]
Level = Literal["text", "token", "span", "vocabulary"]
LanguageKind = Literal["mask-fill", "generate"]
WindowKind = Literal["tag", "answer"]
Seq2SeqKind = Literal["translate"]
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

_METRICS: dict[str, str] = {
    "classify": "accuracy",
    "multilabel": "f1_micro",
    "regress": "pearson",
    "tag": "f1",
    "answer": "f1",
    "mask-fill": "perplexity",
    "generate": "perplexity",
    "translate": "bleu",
}


class TaskInfo(Settings):
    kind: Kind
    labels: tuple[str, ...] = ()
    vocab_size: int = 0  # of a task over a vocabulary
    metric: str = ""  # what chooses the checkpoint and leads the report; by default the first of its kind

    @model_validator(mode="before")
    @classmethod
    def _with_metric(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "metric": values.get("metric") or _METRICS[values["kind"]]} if "kind" in values else values

    @property
    def level(self) -> Level:
        """What a row is: a text, a word, a span, or a token of a vocabulary."""
        if self.over_vocabulary:
            return "vocabulary"
        return {"tag": "token", "answer": "span"}.get(self.kind, "text")  # type: ignore[return-value]

    @property
    def over_vocabulary(self) -> bool:
        """A row is a token: of running text, or of a text that is written."""
        return self.kind in LANGUAGE_KINDS or self.is_seq2seq

    @property
    def is_seq2seq(self) -> bool:
        return self.kind in SEQ2SEQ_KINDS

    @property
    def in_windows(self) -> bool:
        return self.kind in WINDOW_KINDS

    @property
    def outputs(self) -> int:
        if self.over_vocabulary:
            return self.vocab_size
        if self.kind == "answer":
            return len(ENDS)
        return 1 if self.kind == "regress" else len(self.labels)

    @property
    def problem_type(self) -> str:
        """The name transformers has for this kind of task; for tasks about tokens and places it has none."""
        names = {
            "classify": "single_label_classification",
            "multilabel": "multi_label_classification",
            "regress": "regression",
        }
        return names.get(self.kind, "")

    @property
    def higher_is_better(self) -> bool:
        return self.is_seq2seq or not self.over_vocabulary

    def __str__(self) -> str:
        if self.is_seq2seq:
            return f"texts written from texts, in {self.vocab_size:,} tokens"
        if self.over_vocabulary:
            what = "words under a mask" if self.kind == "mask-fill" else "the next word"
            return f"{what}, {self.vocab_size:,} to choose from"
        if self.kind in ("regress", "answer"):
            return "regression" if self.kind == "regress" else "questions answered by a part of a text"
        what = {"classify": "classes", "tag": "tags of words"}.get(self.kind, "labels, any number per text")
        return f"{len(self.labels)} {what} ({', '.join(self.labels[:6])}{', …' if len(self.labels) > 6 else ''})"
