"""A saved model of whatever kind: what it was made for, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.task import Kind
from limbeck.students.folder import find_folder
from limbeck.students.open import open_classifier, open_language_model
from limbeck.students.open_places import open_reader, open_tagger
from limbeck.students.open_translator import open_translator
from limbeck.students.reading import explained_opening, quiet, read_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ENDINGS: dict[Kind, tuple[str, ...]] = {
    "mask-fill": ("MaskedLM",),
    "generate": ("CausalLM", "LMHeadModel"),
    "tag": ("ForTokenClassification",),
    "answer": ("ForQuestionAnswering",),
    "translate": ("ForConditionalGeneration", "MTModel"),
}
_PROBLEMS: dict[str, Kind] = {
    "single_label_classification": "classify",
    "multi_label_classification": "multilabel",
    "regression": "regress",
}


def kind_of(network: PreTrainedModel) -> Kind | None:
    """The kind of task a model says it was trained for, if it says."""
    return _of_head(type(network).__name__) or _PROBLEMS.get(network.config.problem_type or "")


def kind_saved(where: str | Path, trust_remote_code: bool = False) -> Kind | None:
    """The kind of task that a saved model's head is for; None for one about whole texts, or without a head."""
    with quiet(), explained_opening(where):
        saved = (read_config(find_folder(where), trust_remote_code).architectures or [""])[0]
    return _of_head(saved)


def _of_head(architecture: str) -> Kind | None:
    return next((kind for kind, endings in _ENDINGS.items() if architecture.endswith(endings)), None)


def open_saved(
    where: str | Path, *, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A classifier, tagger, reader, language model or translator, whichever the folder says it is."""
    kind = kind_saved(where, trust_remote_code)
    if kind == "mask-fill" or kind == "generate":
        return open_language_model(where, kind, trust_remote_code=trust_remote_code)
    openers = {"tag": open_tagger, "answer": open_reader, "translate": open_translator}
    return openers.get(kind or "", open_classifier)(where, trust_remote_code=trust_remote_code)
