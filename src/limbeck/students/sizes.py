"""The sizes of a model, read from and written to a transformers config of any family.

transformers maps most family names to `num_hidden_layers`, `hidden_size` and `num_attention_heads` by itself
(DistilBERT's `n_layers`, `dim`, `n_heads`). The feed-forward width has no common name, so it is looked up here, and so
are the settings that silently repeat one of the sizes. Of an encoder-decoder, `layers` are the encoder's.

Below stands the arithmetic of a smaller student: its width where some knobs are open, and which of the teacher's
coordinates it keeps.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.record import Shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

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
    """The sizes of a transformer; a config that does not say them is refused."""
    numbers = _numbers(config)
    lacking = [name for size, name in _MAIN_NAMES.items() if not numbers[size]]
    if lacking or not numbers["feed_forward"]:
        raise ModelError(
            f"the config of a {config.model_type} model does not say its {', '.join(lacking) or 'feed-forward size'}",
            _REMEDY,
        )
    if config.is_encoder_decoder and not numbers["decoder_layers"]:
        raise ModelError(
            f"the config of a {config.model_type} model does not say its number of decoder layers",
            "use an encoder-decoder of the Marian, BART, mBART, M2M100 or T5 kind",
        )
    sizes = Sizes(**numbers, free_head_size=getattr(config, "d_kv", 0) if config.is_encoder_decoder else 0)
    if sizes.hidden % sizes.heads and not sizes.free_head_size:
        raise ModelError(
            f"the hidden size {sizes.hidden} of this {config.model_type} is not a multiple of its {sizes.heads} heads",
            "use a teacher whose heads divide its hidden size",
        )
    return sizes


def shape_of(model: PreTrainedModel) -> Shape:
    """What its config says of any model, be it no transformer: 0 where it says nothing."""
    config = model.config
    text = getattr(config, "shape_text", "")
    return Shape(architecture=config.model_type or type(model).__name__, text=text, **_numbers(config))


def _numbers(config: PretrainedConfig) -> dict[str, int]:
    main = {size: _number(config, name) for size, name in _MAIN_NAMES.items()}
    feed_forward = _feed_forward_name(config)
    return {
        **main,
        "feed_forward": (getattr(config, feed_forward) or 4 * main["hidden"]) if feed_forward else 0,
        "decoder_layers": _number(config, _decoder_name(config)) if config.is_encoder_decoder else 0,
    }


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


def _number(config: PretrainedConfig, name: str) -> int:
    found = getattr(config, name, None)
    return found if isinstance(found, int) else 0


def _feed_forward_name(config: PretrainedConfig) -> str:
    names = [name for name in _FEED_FORWARD_NAMES if isinstance(getattr(config, name, None), int)]
    # GPT-2 leaves n_inner at None and means four times the hidden size.
    return next(iter(names), "n_inner" if hasattr(config, "n_inner") else "")


def _decoder_name(config: PretrainedConfig) -> str:
    return next((name for name in _DECODER_NAMES if isinstance(getattr(config, name, None), int)), "")


def positions_of(model: PreTrainedModel) -> int:
    """Tokens a model reads at once; 0 if its config does not say."""
    most = getattr(model.config, "max_position_embeddings", None) or 0
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return most - module.padding_idx - 1  # RoBERTa counts positions from there
    return most


def clip_max_length(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """The tokenizer, or a copy of it that gives no more tokens than the model reads; many a file names no limit."""
    most = positions_of(model)
    if not most or tokenizer.model_max_length <= most:
        return tokenizer
    fit = copy.deepcopy(tokenizer)
    fit.model_max_length = most
    return fit


def width(heads: int, head_size: int, hidden: int, teacher: Sizes) -> tuple[int, int]:
    """Heads and hidden size of the student, by hidden = heads × head_size where the architecture has it so. 0: open."""
    if teacher.free_head_size:
        return heads or teacher.heads, hidden or teacher.hidden
    if not hidden:
        heads = heads or teacher.heads
        return heads, heads * (head_size or teacher.head_size)
    count, size = heads, head_size
    if not heads and not head_size:
        if hidden % teacher.head_size == 0:
            return hidden // teacher.head_size, hidden
        count = teacher.heads
    elif not heads:
        count = max(1, hidden // head_size)
    size = size or hidden // count
    if count * size != hidden:
        raise KnobError(
            f"a hidden size of {hidden} does not divide into {count} heads" + (f" of {size}" if head_size else ""),
            _widths_that_fit(heads, head_size, hidden, teacher),
        )
    return count, hidden


def _widths_that_fit(heads: int, head_size: int, hidden: int, teacher: Sizes) -> str:
    """The nearest hidden sizes that do divide."""
    if heads and head_size:
        return f"set hidden to {heads * head_size} (heads × head_size), or leave one of the three out"
    steps = [heads or head_size] if heads or head_size else [teacher.head_size, teacher.heads]
    valid = {size for step in steps for size in range(step, teacher.hidden + 1, step)}
    nearest = sorted(sorted(valid, key=lambda size: abs(size - hidden))[:4])
    return f"the nearest hidden sizes that fit are {', '.join(map(str, nearest))}"


def spread(count: int, keep: int) -> list[int]:
    """`keep` of `count`, evenly spaced, with the first and the last: 12 → 6 gives 0, 2, 4, 7, 9, 11."""
    return [round(step * (count - 1) / (keep - 1)) for step in range(keep)] if keep > 1 else [0]


def strided(count: int, keep: int) -> list[int]:
    """`keep` of `count`, evenly spaced from 0. With rotary positions this keeps the frequencies θ^(-2j/count)."""
    return [step * count // keep for step in range(keep)]


def within_head(count: int, keep: int) -> list[int]:
    """Evenly spaced within each half of a head, so that rotary pairs (j, j + count/2) stay pairs."""
    if keep == count:
        return list(range(count))
    half = count // 2
    pairs = strided(half, (keep + 1) // 2)
    return pairs + [half + first for first in pairs][: keep // 2]


def hidden_coordinates(teacher: Sizes, student: Sizes) -> list[int]:
    """The stream is laid out as the heads are, unless the two are free of each other: then it has no heads in it."""
    if teacher.free_head_size:
        return strided(teacher.hidden, student.hidden)
    return head_coordinates(teacher, student)


def head_coordinates(teacher: Sizes, student: Sizes) -> list[int]:
    """Whole heads where heads go, the same coordinates in every head where heads get smaller.

    A student with fewer but larger heads regroups: neighbours merge, and coordinates are evenly spaced over all."""
    if student.head_size > teacher.head_size:
        return strided(teacher.all_heads, student.all_heads)
    inside = within_head(teacher.head_size, student.head_size)
    return [head * teacher.head_size + one for head in spread(teacher.heads, student.heads) for one in inside]


def kept_coordinates(teacher: Sizes, student: Sizes) -> dict[str, list[int]]:
    """Size → the teacher's coordinates that the student keeps."""
    return {
        "hidden": hidden_coordinates(teacher, student),
        "heads": spread(teacher.heads, student.heads),
        "all_heads": head_coordinates(teacher, student),
        "head_size": within_head(teacher.head_size, min(teacher.head_size, student.head_size)),
        "feed_forward": strided(teacher.feed_forward, student.feed_forward),
    }
