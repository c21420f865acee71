"""Opening a model to teach with, or an encoder to fine-tune; refusing what would fail later, with the remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import Task, TokenKind
from limbeck.students.families import register_if_ours
from limbeck.students.fingerprint import fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.students.folder import find_folder
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
    where: str | Path, *, task: Task | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A fine-tuned classifier and its tokenizer, in float32 and eval mode.

    With a `task`, a classifier that answers another question is refused, and one that does not name its classes
    (LABEL_0, LABEL_1, …) takes the task's names."""
    with quiet(), _explained(where):
        folder = find_folder(where)
        config = _config(folder, trust_remote_code)
        if task is not None:
            _agree(config, task, where)
        model, missing, misshapen = _load(folder, config, trust_remote_code)
        tokenizer = _tokenizer(folder, trust_remote_code)
    if lost := sorted(misshapen) or _of_encoder(model, missing):
        raise _incomplete(where, lost)
    if missing:
        raise ModelError(
            f"{where} is a bare encoder: it has no classification head to learn from",
            "fine-tune it first with `limbeck train`, then use the result as the teacher",
        )
    return model, tokenizer


def open_encoder(
    where: str | Path, task: Task, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A pretrained encoder with a head for `task`, to be fine-tuned.

    The head is fresh from torch's current seed, unless the checkpoint is already a classifier of the same labels."""
    with quiet(), _explained(where):
        folder = find_folder(where)
        config = _config(folder, trust_remote_code)
        same_labels = _labels(config) == task.labels != ()
        name_outputs(config, task)
        model, missing, misshapen = _load(folder, config, trust_remote_code)
        tokenizer = _tokenizer(folder, trust_remote_code)
        if not same_labels:
            fresh = type(model)._from_config(model.config).state_dict()
            model.load_state_dict({name: fresh[name] for name in _of_head(model, fresh)}, strict=False)
    if lost := _of_encoder(model, missing | misshapen):
        raise _incomplete(where, lost)
    return model, tokenizer


def open_language_model(
    where: str | Path, kind: TokenKind, *, fresh: bool = False, pairs: bool = False, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A masked or causal language model and its tokenizer, in float32 and eval mode.

    Only with `fresh` may the head be missing; it is then drawn from torch's current seed, its projection tied to the
    embeddings where the architecture ties them. With `pairs` it has a head for next sentences too."""
    auto = "AutoModelForPreTraining" if pairs else _LANGUAGE[kind]
    with quiet(), _explained(where, f"this architecture has no {_NAMES[kind]} head"):
        folder = find_folder(where)
        config = _config(folder, trust_remote_code)
        model, missing, misshapen = _load(folder, config, trust_remote_code, auto)
        tokenizer = _tokenizer(folder, trust_remote_code)
    if lost := sorted(misshapen) or _of_encoder(model, missing):
        raise _incomplete(where, lost)
    if missing and not fresh:
        raise ModelError(
            f"{where} has no {_NAMES[kind]} head to learn from (it lacks {sorted(missing)[0]})",
            f"train one first with `limbeck train --task {kind} --model {where}`, then use the result as the teacher",
        )
    if pairs and not knows_pairs(model):
        raise ModelError(f"{where} knows no sentence pairs", "use a BERT, or leave out --text.pairs")
    return model, tokenizer


def knows_pairs(model: PreTrainedModel) -> bool:
    """Whether it has a head for next sentences."""
    return any(name.endswith("seq_relationship") for name, _ in model.named_modules())


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, log lines or warnings from transformers inside; as before afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _explained(where: str | Path, unknown: str = "this architecture has no text classifier") -> Iterator[None]:
    """transformers' own refusals, in a sentence; `unknown` is said of an architecture that lacks the head."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{where} cannot be opened: {first}", _remedy(str(error), unknown)) from None


def _remedy(message: str, unknown: str = "") -> str:
    if "trust_remote_code" in message:
        return "the model brings its own code; if you have read and trust it, add --trust-remote-code"
    if "sentencepiece" in message.lower() or "tiktoken" in message.lower():
        return "its tokenizer needs SentencePiece: pip install 'limbeck[sentencepiece]'"
    if "does not recognize this architecture" in message:
        return "this transformers does not know the architecture; upgrade it, or use another model"
    if "Unrecognized configuration class" in message:
        if "write" in unknown:
            return f"{unknown}; use a model such as Marian, T5, BART, mBART or M2M100"
        causal = "causal" in unknown
        example = "a model such as GPT-2, Llama or Qwen" if causal else "an encoder such as BERT, RoBERTa or ModernBERT"
        return f"{unknown}; use {example}"
    return "check that it is a model of text saved with save_pretrained, or copy it again"


def _config(folder: Path, trust_remote_code: bool) -> PretrainedConfig:
    from transformers import AutoConfig

    register_if_ours(folder)
    return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)


def _tokenizer(folder: Path, trust_remote_code: bool) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # the Rust tokenizer raises bare Exception on a damaged file
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"the tokenizer in {folder} cannot be opened: {first}", _remedy(str(error))) from None


def _load(
    folder: Path, config: PretrainedConfig, trust_remote_code: bool, auto: str = "AutoModelForSequenceClassification"
) -> tuple[PreTrainedModel, set[str], set[str]]:
    """The model, and the parameters that the checkpoint lacks, and those it has in another shape."""
    import torch
    import transformers

    model, info = getattr(transformers, auto).from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=trust_remote_code,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    return model.eval(), set(info["missing_keys"]), {entry[0] for entry in info["mismatched_keys"]}


def _of_head(model: PreTrainedModel, names: Any) -> list[str]:
    return [name for name in names if not name.startswith(f"{model.base_model_prefix}.")]


def _of_encoder(model: PreTrainedModel, names: set[str]) -> list[str]:
    """Those that belong to the encoder proper; a pooler is part of the head in all but name."""
    return sorted(name for name in names.difference(_of_head(model, names)) if ".pooler." not in name)


def _incomplete(where: str | Path, lost: list[str]) -> ModelError:
    return ModelError(
        f"{where} lacks {len(lost)} weights of the size its config says, such as {lost[0]}",
        "config and weights are of different models: copy or download both again",
    )


def _labels(config: PretrainedConfig) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in sorted(config.id2label))


def name_outputs(config: PretrainedConfig, task: Task) -> None:
    """Writes down what the model is asked and what its answers are called."""
    names = task.labels or ("score",)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    config.problem_type = task.problem_type or None


def _agree(config: PretrainedConfig, task: Task, where: str | Path) -> None:
    labels = _labels(config)
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
