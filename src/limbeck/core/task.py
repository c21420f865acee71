"""What a model predicts: of a text one class, any number of labels, a number, tokens, tags, spans, or another text;
of an image one class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import ConfigDict

from limbeck.core.metric import METRICS, metric_of

Kind = Literal["classify", "multilabel", "regress", "mask-fill", "generate", "tag", "answer", "translate", "image"]
LanguageKind = Literal["mask-fill", "generate"]
WindowKind = Literal["tag", "answer"]
Seq2SeqKind = Literal["translate"]
Level = Literal["text", "token", "span", "vocabulary", "image"]
TEXT_KINDS: tuple[Kind, ...] = ("classify", "multilabel", "regress")
IMAGE_KINDS: tuple[Kind, ...] = ("image",)
WHOLE_KINDS: tuple[Kind, ...] = (*TEXT_KINDS, *IMAGE_KINDS)  # one row of logits for a whole text or image
LANGUAGE_KINDS: tuple[LanguageKind, ...] = ("mask-fill", "generate")  # a row is a token, with a distribution over words
SEQ2SEQ_KINDS: tuple[Seq2SeqKind, ...] = ("translate",)  # the same, and the tokens together are a text
WINDOW_KINDS: tuple[WindowKind, ...] = ("tag", "answer")  # a row is a word with a tag, or one end of an answer
_SINGLE = "single_label_classification"
ENDS = ("start", "end")  # the two rows of a question, and the outputs of a model that answers
ENCODER_KINDS: tuple[Kind, ...] = (*TEXT_KINDS, *WINDOW_KINDS, "mask-fill")  # what sees the whole text


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
    untried: str = "other texts, other languages and other lengths"  # on what nothing was measured
    decoded: bool = False  # a prediction is a whole text, decoded greedily or by a beam


@dataclass(frozen=True)
class _Facts:
    tag: str  # the Hub's
    level: Level
    units: Units
    problem_type: str = ""  # transformers'; it has one for whole texts and images only
    outputs: int = 0  # of a model; 0 where it has as many as there are labels


def _of_text(problem_type: str, judged: str = "right", outputs: int = 0) -> _Facts:
    units = Units("row", "row", "sentence", "row", judged=judged)
    return _Facts("text-classification", "text", units, problem_type, outputs)


def _of_blocks(tag: str, timing: str = "") -> _Facts:
    why = "no test token was scored"
    units = Units("document", "block", "block", "token", "tokens", "document", why, timing=timing)
    return _Facts(tag, "vocabulary", units)


_FACTS: dict[str, _Facts] = {
    "classify": _of_text(_SINGLE),
    "multilabel": _of_text("multi_label_classification"),
    "regress": _of_text("regression", judged="closer", outputs=1),
    "tag": _Facts("token-classification", "token", Units("sentence", "sentence", "sentence", "word")),
    "answer": _Facts(
        "question-answering", "span", Units("question", "question", "question", "answer end"), outputs=len(ENDS)
    ),
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
    "image": _Facts(
        "image-classification",
        "image",
        Units(
            *("image", "image", "image", "image"),
            repeated="image",
            unscored="the test images carry no labels",
            untried="images from elsewhere",
        ),
        _SINGLE,
    ),
}


@dataclass(frozen=True)
class TaskInfo:
    """What a model predicts, as plain data. What follows from the first four fields is filled in once, here."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")  # Records hold the first four fields only

    kind: Kind
    labels: tuple[str, ...] = ()
    vocab_size: int = 0  # of a task over a vocabulary
    metric: str = ""  # what chooses the checkpoint and leads the report; by default the first of its kind

    tag: str = field(init=False, repr=False)  # the Hub's name of the task
    level: Level = field(init=False, repr=False)  # what a row of logits is of
    units: Units = field(init=False, repr=False)
    problem_type: str = field(init=False, repr=False)  # transformers' name; of whole texts and images only
    single_label: bool = field(init=False, repr=False)  # a row has one class of several
    over_vocabulary: bool = field(init=False, repr=False)  # a row is a token, of running text or of a translation
    is_seq2seq: bool = field(init=False, repr=False)
    in_windows: bool = field(init=False, repr=False)
    outputs: int = field(init=False, repr=False)
    higher_is_better: bool = field(init=False, repr=False)
    description: str = field(init=False, repr=False)  # for people

    def __post_init__(self) -> None:
        facts = _FACTS[self.kind]
        metric = self.metric or METRICS[self.kind][0].name
        over_vocabulary = facts.level == "vocabulary"
        derived = {
            **vars(facts),
            "metric": metric,
            "over_vocabulary": over_vocabulary,
            "single_label": facts.problem_type == _SINGLE,
            "is_seq2seq": self.kind in SEQ2SEQ_KINDS,
            "in_windows": facts.level in ("token", "span"),
            "outputs": self.vocab_size if over_vocabulary else facts.outputs or len(self.labels),
            "higher_is_better": metric_of(self, metric).higher_is_better,
            "description": _describe(self.kind, self.labels, self.vocab_size),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return self.description


def _describe(kind: Kind, labels: tuple[str, ...], vocab_size: int) -> str:
    if _FACTS[kind].level == "vocabulary":
        what = {"mask-fill": "masked tokens", "generate": "the next token"}.get(kind, "text to text")
        return f"{what}, vocabulary of {vocab_size:,} tokens"
    if kind in ("regress", "answer"):
        return "regression" if kind == "regress" else "extractive question answering"
    what = {"classify": "classes", "tag": "tags of words", "image": "classes of images"}.get(
        kind, "labels, any number per text"
    )
    return f"{len(labels)} {what} ({', '.join(labels[:6])}{', …' if len(labels) > 6 else ''})"
