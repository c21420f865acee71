"""Reading a saved model, with transformers' refusals in sentences and without its noise."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError
from limbeck.students.families import register_if_ours
from limbeck.students.sizes import clip_max_length

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


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
def explained_opening(source: str | Path, unknown: str = "") -> Iterator[None]:
    """transformers' own refusals, in a sentence; `unknown` is the remedy for an architecture that lacks the head."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{source} cannot be opened: {first}", _remedy(str(error), unknown)) from None


def _remedy(message: str, unknown: str = "") -> str:
    if "trust_remote_code" in message:
        return "the model brings its own code; if you have read and trust it, add --trust-remote-code"
    if "sentencepiece" in message.lower() or "tiktoken" in message.lower():
        return "its tokenizer needs SentencePiece: pip install 'limbeck[sentencepiece]'"
    if "does not recognize this architecture" in message:
        return "this transformers does not know the architecture; upgrade it, or use another model"
    if "Unrecognized configuration class" in message and unknown:
        return unknown
    return "check that it is a model of text saved with save_pretrained, or copy it again"


def read_config(folder: Path, trust_remote_code: bool) -> PretrainedConfig:
    from transformers import AutoConfig

    register_if_ours(folder)
    return AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code)


def read_tokenizer(
    folder: Path, trust_remote_code: bool, model: PreTrainedModel | None = None
) -> PreTrainedTokenizerBase:
    """With its model, it gives no more tokens than the model reads."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
    except Exception as error:  # the Rust tokenizer raises bare Exception on a damaged file
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"the tokenizer in {folder} cannot be opened: {first}", _remedy(str(error))) from None
    return clip_max_length(tokenizer, model) if model is not None else tokenizer


def read_model(
    folder: Path, config: PretrainedConfig, trust_remote_code: bool, auto: str
) -> tuple[PreTrainedModel, set[str], set[str]]:
    """A model of the Auto class; the parameters that the checkpoint lacks; those it has in another shape."""
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


def incomplete(source: str | Path, lost: list[str]) -> ModelError:
    return ModelError(
        f"{source} lacks {len(lost)} weights of the size its config says, such as {lost[0]}",
        "config and weights are of different models: copy or download both again",
    )


def labels_in(config: PretrainedConfig) -> tuple[str, ...]:
    return tuple(str(config.id2label[number]) for number in sorted(config.id2label))


def of_head(model: PreTrainedModel, names: Any) -> list[str]:
    return [name for name in names if not name.startswith(f"{model.base_model_prefix}.")]


def of_encoder(model: PreTrainedModel, names: set[str]) -> list[str]:
    """Those that belong to the encoder proper; a pooler is part of the head in all but name."""
    return sorted(name for name in names.difference(of_head(model, names)) if ".pooler." not in name)
