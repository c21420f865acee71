"""The sizes of a model, read from and written to a transformers config of any family.

transformers maps most family names to `num_hidden_layers`, `hidden_size` and `num_attention_heads` by itself
(DistilBERT's `n_layers`, `dim`, `n_heads`). The feed-forward width has no common name, so it is looked up here, and so
are the settings that silently repeat one of the sizes. Of an encoder-decoder, `layers` are the encoder's.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError
from limbeck.core.record import Shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_FEED_FORWARD_NAMES = ("intermediate_size", "hidden_dim", "d_inner", "n_inner", "ffn_dim", "encoder_ffn_dim", "d_ff")
_MAIN_NAMES = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}
# Settings that repeat a size. One that equals the teacher's size follows it; one that differs is a choice and stays.
_FOLLOWERS = {
    "layers": ("num_hidden_groups",),
    "hidden": ("embedding_size", "pooler_hidden_size"),
    "heads": ("num_key_value_heads", "decoder_attention_heads"),
    "head_size": ("attention_head_size", "head_dim"),
    "feed_forward": ("decoder_ffn_dim",),
}
_DECODER_NAMES = ("decoder_layers", "num_decoder_layers")
_REMEDY = "use an encoder of the BERT kind (BERT, RoBERTa, DistilBERT, ELECTRA, MPNet, ALBERT, DeBERTa, ModernBERT)"
_PER_LAYER_LISTS = ("layer_types",)  # one entry per layer: the kind of attention


@dataclass(frozen=True)
class Sizes:
    """hidden = heads × head_size, in every family of transformers but T5, whose heads are as wide as they like."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    decoder_layers: int = 0  # of an encoder-decoder
    free_head_size: int = 0  # of T5; 0: hidden / heads

    @property
    def head_size(self) -> int:
        return self.free_head_size or self.hidden // self.heads

    @property
    def all_heads(self) -> int:
        """Width of all heads side by side."""
        return self.heads * self.head_size


def sizes_of(config: PretrainedConfig) -> Sizes:
    feed_forward = _feed_forward_name(config)
    lacking = [name for name in _MAIN_NAMES.values() if not isinstance(getattr(config, name, None), int)]
    if lacking or not feed_forward:
        raise ModelError(
            f"the config of a {config.model_type} model does not say its {', '.join(lacking) or 'feed-forward size'}",
            _REMEDY,
        )
    sizes = Sizes(
        **{size: getattr(config, name) for size, name in _MAIN_NAMES.items()},
        feed_forward=getattr(config, feed_forward) or 4 * config.hidden_size,
        **_of_decoder(config),
    )
    if sizes.hidden % sizes.heads and not sizes.free_head_size:
        raise ModelError(
            f"the hidden size {sizes.hidden} of this {config.model_type} is not a multiple of its {sizes.heads} heads",
            "use a teacher whose heads divide its hidden size",
        )
    return sizes


def resized(config: PretrainedConfig, sizes: Sizes, kept: Sequence[int]) -> PretrainedConfig:
    """A copy of `config` with these sizes, whose layers are the `kept` ones of the original; all else unchanged."""
    before = sizes_of(config)
    config = copy.deepcopy(config)
    for size, names in _FOLLOWERS.items():
        for name in names:
            if getattr(config, name, None) == getattr(before, size):
                setattr(config, name, getattr(sizes, size))
    try:
        for size, name in _MAIN_NAMES.items():
            setattr(config, name, getattr(sizes, size))
    except (AttributeError, NotImplementedError):  # a size worked out from other settings
        raise ModelError(f"the {name} of a {config.model_type} model cannot be set", _REMEDY) from None
    setattr(config, _feed_forward_name(config), sizes.feed_forward)
    if sizes.decoder_layers:
        setattr(config, _decoder_name(config), sizes.decoder_layers)
    for name in _PER_LAYER_LISTS:
        if kinds := getattr(config, name, None):
            setattr(config, name, [kinds[layer] for layer in kept])
    return config


def shape_of(model: PreTrainedModel) -> Shape:
    """What its config says of any model, be it no transformer: 0 where it says nothing."""
    config = model.config
    main = {size: _number(config, name) for size, name in _MAIN_NAMES.items()}
    feed_forward = _feed_forward_name(config)
    return Shape(
        architecture=config.model_type or type(model).__name__,
        **main,
        feed_forward=(getattr(config, feed_forward) or 4 * main["hidden"]) if feed_forward else 0,
        decoder_layers=_number(config, _decoder_name(config)) if config.is_encoder_decoder else 0,
    )


def positions_of(model: PreTrainedModel) -> int:
    """Tokens a model reads at once; 0 if its config does not say."""
    most = getattr(model.config, "max_position_embeddings", None) or 0
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return most - module.padding_idx - 1  # RoBERTa counts positions from there
    return most


def clip_max_length(tokenizer: Any, model: PreTrainedModel) -> Any:
    """The tokenizer, or a copy of it that gives no more tokens than the model reads; many a file names no limit."""
    most = positions_of(model)
    if not most or tokenizer.model_max_length <= most:
        return tokenizer
    fit = copy.deepcopy(tokenizer)
    fit.model_max_length = most
    return fit


def _number(config: PretrainedConfig, name: str) -> int:
    found = getattr(config, name, None)
    return found if isinstance(found, int) else 0


def _feed_forward_name(config: PretrainedConfig) -> str:
    names = [name for name in _FEED_FORWARD_NAMES if isinstance(getattr(config, name, None), int)]
    # GPT-2 leaves n_inner at None and means four times the hidden size.
    return next(iter(names), "n_inner" if hasattr(config, "n_inner") else "")


def _of_decoder(config: PretrainedConfig) -> dict[str, int]:
    """Sizes that only a model with two stacks has."""
    if not config.is_encoder_decoder:
        return {}
    if not (name := _decoder_name(config)):
        raise ModelError(
            f"the config of a {config.model_type} model does not say its number of decoder layers",
            "use an encoder-decoder of the Marian, BART, mBART, M2M100 or T5 kind",
        )
    return {"decoder_layers": getattr(config, name), "free_head_size": getattr(config, "d_kv", 0)}


def _decoder_name(config: PretrainedConfig) -> str:
    return next((name for name in _DECODER_NAMES if isinstance(getattr(config, name, None), int)), "")
