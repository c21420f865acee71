"""What is asked of a text: one class, any number of labels, a number, its own words, places in it, or another text."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings

Kind = Literal["classify", "multilabel", "regress", "mask-fill", "generate", "tag", "answer", "translate"]
TokenKind = Literal["mask-fill", "generate"]
PlaceKind = Literal["tag", "answer"]
SequenceKind = Literal["translate"]
OF_TEXTS: tuple[Kind, ...] = ("classify", "multilabel", "regress")
OF_TOKENS: tuple[TokenKind, ...] = ("mask-fill", "generate")  # a row is a token, an answer a distribution over words
OF_SEQUENCES: tuple[SequenceKind, ...] = ("translate",)  # the same, and the tokens together are a text that is written
# A row is a word whose tag is asked for, or one end of an answer, which is a place in the text.
OF_PLACES: tuple[PlaceKind, ...] = ("tag", "answer")
ENDS = ("start", "end")  # the two rows of a question, and the outputs of a model that answers
OF_ENCODERS: tuple[Kind, ...] = (*OF_TEXTS, *OF_PLACES, "mask-fill")  # what sees the whole text


class Task(Settings):
    kind: Kind
    labels: tuple[str, ...] = ()
    vocabulary: int = 0  # words to choose from, in a task about tokens
    watched: str = ""  # the metric that counts, where it is not the task's first

    @property
    def of_tokens(self) -> bool:
        """A row is a token: of running text, or of a text that is written."""
        return self.kind in OF_TOKENS or self.of_sequences

    @property
    def of_sequences(self) -> bool:
        return self.kind in OF_SEQUENCES

    @property
    def of_places(self) -> bool:
        return self.kind in OF_PLACES

    @property
    def outputs(self) -> int:
        if self.of_tokens:
            return self.vocabulary
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
    def metric(self) -> str:
        """The one figure that early stopping watches and the report leads with."""
        if self.watched:
            return self.watched
        names = {"classify": "accuracy", "multilabel": "f1_micro", "regress": "pearson", "translate": "bleu"}
        return names.get(self.kind, "f1" if self.of_places else "perplexity")

    @property
    def higher_is_better(self) -> bool:
        return self.of_sequences or not self.of_tokens

    def __str__(self) -> str:
        if self.of_sequences:
            return f"texts written from texts, in {self.vocabulary:,} tokens"
        if self.of_tokens:
            what = "words under a mask" if self.kind == "mask-fill" else "the next word"
            return f"{what}, {self.vocabulary:,} to choose from"
        if self.kind in ("regress", "answer"):
            return "regression" if self.kind == "regress" else "questions answered by a part of a text"
        what = {"classify": "classes", "tag": "tags of words"}.get(self.kind, "labels, any number per text")
        return f"{len(self.labels)} {what} ({', '.join(self.labels[:6])}{', …' if len(self.labels) > 6 else ''})"
