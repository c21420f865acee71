"""Opening a model to teach with, or an encoder to fine-tune; refusing what would fail later, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.core.task import LanguageKind, TaskInfo
from limbeck.students.folder import find_folder
from limbeck.students.reading import (
    explained_opening,
    incomplete,
    labels_in,
    of_encoder,
    of_head,
    quiet,
    read_config,
    read_model,
    read_tokenizer,
)
from limbeck.students.sizes import shape_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "fingerprint",
    "knows_pairs",
    "name_outputs",
    "open_classifier",
    "open_encoder",
    "open_language_model",
    "quiet",
    "shape_of",
    "tokenizer_fingerprint",
    "tokenizers_equal",
]

_LANGUAGE = {"mask-fill": "AutoModelForMaskedLM", "generate": "AutoModelForCausalLM"}
_NAMES = {"mask-fill": "masked language-model", "generate": "causal language-model"}


def open_classifier(
    where: str | Path, *, task: TaskInfo | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A fine-tuned classifier and its tokenizer, in float32 and eval mode.

    With a `task`, a classifier that answers another question is refused, and one that does not name its classes
    (LABEL_0, LABEL_1, …) takes the task's names."""
    with quiet(), explained_opening(where):
        folder = find_folder(where)
        config = read_config(folder, trust_remote_code)
        if task is not None:
            _agree(config, task, where)
        model, missing, misshapen = read_model(folder, config, trust_remote_code)
        tokenizer = read_tokenizer(folder, trust_remote_code, model)
    if lost := sorted(misshapen) or of_encoder(model, missing):
        raise incomplete(where, lost)
    if missing:
        raise ModelError(
            f"{where} is a bare encoder: it has no classification head to learn from",
            "fine-tune it first with `limbeck train`, then use the result as the teacher",
        )
    return model, tokenizer


def open_encoder(
    where: str | Path, task: TaskInfo, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A pretrained encoder with a head for `task`, to be fine-tuned.

    The head is fresh from torch's current seed, unless the checkpoint is already a classifier of the same labels."""
    with quiet(), explained_opening(where):
        folder = find_folder(where)
        config = read_config(folder, trust_remote_code)
        same_labels = labels_in(config) == task.labels != ()
        name_outputs(config, task)
        model, missing, misshapen = read_model(folder, config, trust_remote_code)
        tokenizer = read_tokenizer(folder, trust_remote_code, model)
        if not same_labels:
            fresh = type(model)._from_config(model.config).state_dict()
            model.load_state_dict({name: fresh[name] for name in of_head(model, fresh)}, strict=False)
    if lost := of_encoder(model, missing | misshapen):
        raise incomplete(where, lost)
    return model, tokenizer


def open_language_model(
    where: str | Path, kind: LanguageKind, *, fresh: bool = False, pairs: bool = False, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A masked or causal language model and its tokenizer, in float32 and eval mode.

    Only with `fresh` may the head be missing; it is then drawn from torch's current seed, its projection tied to the
    embeddings where the architecture ties them. With `pairs` it has a head for next sentences too."""
    auto = "AutoModelForPreTraining" if pairs else _LANGUAGE[kind]
    with quiet(), explained_opening(where, f"this architecture has no {_NAMES[kind]} head"):
        folder = find_folder(where)
        config = read_config(folder, trust_remote_code)
        model, missing, misshapen = read_model(folder, config, trust_remote_code, auto)
        tokenizer = read_tokenizer(folder, trust_remote_code)
    if lost := sorted(misshapen) or of_encoder(model, missing):
        raise incomplete(where, lost)
    if missing and not fresh:
        raise ModelError(
            f"{where} has no {_NAMES[kind]} head to learn from (it lacks {sorted(missing)[0]})",
            f"train one first with `limbeck train --task {kind} --model {where}`, then use the result as the teacher",
        )
    if pairs and not knows_pairs(model):
        raise ModelError(f"{where} knows no sentence pairs", "use a BERT, or leave out --blocks.pairs")
    return model, tokenizer


def knows_pairs(model: PreTrainedModel) -> bool:
    """Whether it has a head for next sentences."""
    return any(name.endswith("seq_relationship") for name, _ in model.named_modules())


def name_outputs(config: PretrainedConfig, task: TaskInfo) -> None:
    """Writes down what the model is asked and what its answers are called."""
    names = task.labels or ("score",)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = task.problem_type or None


def _agree(config: PretrainedConfig, task: TaskInfo, where: str | Path) -> None:
    labels = labels_in(config)
    if config.problem_type not in (None, task.problem_type) or len(labels) != task.outputs:
        raise MismatchError(
            f"the model {where} gives {len(labels)} outputs ({config.problem_type or 'kind not stated'}), "
            f"but the data is {task}",
            "use a model fine-tuned on this task (`limbeck train`), or data with the model's labels",
        )
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(labels))
    if task.labels and labels != task.labels and not unnamed:
        raise MismatchError(
            f"the model {where} answers with {', '.join(labels[:6])}; the data has {', '.join(task.labels[:6])}",
            "give the data the model's label names, in its order, or fine-tune one on this data with `limbeck train`",
        )
    name_outputs(config, task)
