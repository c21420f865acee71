"""The tap: queries, keys, values and scores, recorded where transformers computes attention.

Every model of transformers looks its attention up in one table. `install` puts a recording one there; `tapped` says
for which layers of the next forward pass it records. A layer whose scores are asked for is computed as eager attention
does, to the bit; every other one takes scaled_dot_product_attention, as without the tap.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError
from limbeck.core.trace import Request, Want

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

NAME = "limbeck-tap"
TOLERANCE = 1e-5  # between the tap and eager attention, in float32, where outputs are of size 1
_BEFORE = "_attention_before_the_tap"  # attribute of a model: a deep copy takes it along
_BEYOND = ("position_bias", "softcap", "s_aux")  # what some models do to scores beside scaling and masking
_REFUSED = (
    "use a recipe that needs no attention (hinton, logits, pkd-skip, tinybert with --objective.tinybert.attention 0), "
    "or a model such as BERT, RoBERTa, DistilBERT, ELECTRA, ALBERT, ModernBERT or MobileBERT"
)


@dataclass(frozen=True)
class Heads:
    """What the heads of one layer did. Empty where the layer was not asked for.

    Keys and values that several heads share are repeated for each. Rotary positions are in queries and keys."""

    queries: Tensor  # [batch, heads, length, head size]
    keys: Tensor
    values: Tensor
    scores: Tensor  # [batch, heads, length, length] scaled; before mask, softmax and dropout


@dataclass(frozen=True)
class _Recording:
    request: Request
    seen: list[Heads]

    @property
    def scoring(self) -> bool:
        return Want.ATTENTION in self.request.want


# A new thread starts without one, so a model in another thread is not recorded.
_RECORDING: ContextVar[_Recording | None] = ContextVar("limbeck-tap", default=None)


def install(model: PreTrainedModel) -> PreTrainedModel:
    """Makes a model's attention recordable, or refuses an architecture whose attention cannot be."""
    if _is_installed(model):
        return model
    before = model.config._attn_implementation
    _register()
    try:
        problem = _probe(model)
    finally:
        model.set_attn_implementation(before)
    if problem:
        raise ModelError(f"the attention of a {model.config.model_type} model cannot be recorded: {problem}", _REFUSED)
    setattr(model, _BEFORE, "sdpa" if before == NAME else before)  # NAME came with a config of a model that has it
    model.set_attn_implementation(NAME)
    return model


def uninstall(model: PreTrainedModel) -> PreTrainedModel:
    """Gives a model the attention back that it had before `install`."""
    if _is_installed(model):
        model.set_attn_implementation(getattr(model, _BEFORE))
        delattr(model, _BEFORE)
    return model


@contextmanager
def tapped(ask: Request, seen: list[Heads]) -> Iterator[None]:
    """Within it, each layer that runs appends to `seen`, in the order of the layers. Asked for no heads, it is idle."""
    before = _RECORDING.set(_Recording(ask, seen) if ask.heads else None)
    try:
        yield
    finally:
        _RECORDING.reset(before)
    if ask.heads and len(seen) < max(ask.heads):
        raise ModelError(
            f"layer {max(ask.heads)} was asked what its heads do, but {len(seen)} layers were seen",
            "install the tap with limbeck.core.tap.install(model), and run one process, not one thread, per device",
        )


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _is_installed(model: PreTrainedModel) -> bool:
    return hasattr(model, _BEFORE) and model.config._attn_implementation == NAME


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _mask)


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """What is added to scores if some will be shown; else the kind that the fast path likes best."""
    from transformers.masking_utils import eager_mask, sdpa_mask

    recording = _RECORDING.get()
    make = eager_mask if recording and recording.scoring else sdpa_mask
    mask: Tensor | None = make(*args, **kwargs)
    return mask


def _attention(
    module: nn.Module,
    query: Tensor,  # [batch, heads, length, head size]
    key: Tensor,  # [batch, heads or a divisor of it, length, head size]
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention as transformers calls it → [batch, length, heads, head size], and the weights if they were computed."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    recording = _RECORDING.get()
    if recording is not None:
        if beyond := [name for name in _BEYOND if kwargs.get(name) is not None]:
            raise ModelError(f"its scores are changed by {', '.join(beyond)}", _REFUSED)
        asked = len(recording.seen) + 1 in recording.request.heads
        if asked and recording.scoring:
            return _scored(recording, module, query, key, value, attention_mask, scaling, dropout)
        _record(recording, asked, query, key, value)
    found: tuple[Tensor, None] = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs
    )
    return found


def _scored(
    recording: _Recording,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Eager attention, whose scores can be seen."""
    import torch
    from torch.nn import functional as F

    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    _record(recording, True, query, key, value, scores)
    masked = scores if mask is None else scores + mask
    weights = masked.softmax(-1, dtype=torch.promote_types(query.dtype, torch.float32)).to(query.dtype)
    weights = F.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def _record(
    recording: _Recording, asked: bool, query: Tensor, key: Tensor, value: Tensor, scores: Tensor | None = None
) -> None:
    nothing = query.new_empty(0)
    want = recording.request.want if asked else Want.NOTHING
    recording.seen.append(
        Heads(
            query if Want.QUERIES in want else nothing,
            _for_each_head(query, key) if Want.KEYS in want else nothing,
            _for_each_head(query, value) if Want.VALUES in want else nothing,
            nothing if scores is None else scores,
        )
    )


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values, which several heads may share, once per head of the query."""
    groups = query.shape[1] // shared.shape[1]
    return shared if groups == 1 else shared.repeat_interleave(groups, dim=1)


def _probe(model: PreTrainedModel) -> str:
    """Why the model cannot have the tap, or nothing. Tried on a few tokens, some of them padding."""
    try:
        with eval_mode(model):
            return _compare(model)
    except ModelError as error:
        return error.problem
    except (AttributeError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return f"it did not run on a few tokens ({type(error).__name__}: {error})"


def _compare(model: PreTrainedModel) -> str:
    if model.config.is_encoder_decoder:
        return "it has an encoder and a decoder"
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        return "it does not look its attention up in transformers' AttentionInterface"
    model.set_attn_implementation("eager")
    wanted = _states(model)
    model.set_attn_implementation(NAME)
    layers = tuple(range(1, model.config.num_hidden_layers + 1))
    for ask in (
        Request(Want.ATTENTION, heads=layers),
        Request(Want.VALUES, heads=layers),
        Request(Want.ATTENTION, heads=(1,)),
    ):
        seen: list[Heads] = []
        recorded = _RECORDING.set(_Recording(ask, seen))
        try:
            found = _states(model)
        finally:
            _RECORDING.reset(recorded)
        if len(seen) != len(layers):
            return f"it has {len(layers)} layers, but {len(seen)} attentions were seen"
        off = (found - wanted).abs().max().item()
        if not off <= _tolerance(wanted):  # NaN is off too
            return f"its outputs would move by {off:.1e}"
    return ""


def _states(model: PreTrainedModel) -> Tensor:
    """[tokens, width] the last hidden states, which every layer has a part in."""
    import torch

    ids = torch.arange(1, 7, device=model.device).remainder(model.config.vocab_size).view(1, 6).repeat(2, 1)
    present = torch.ones_like(ids)
    present[1, 4:] = 0
    with torch.no_grad():
        states: Tensor = model.base_model(input_ids=ids, attention_mask=present)[0]
    return states[present.bool()]


def _tolerance(states: Tensor) -> float:
    """Wider for large states and for half precision, where eager attention itself is as far from the truth."""
    import torch

    step = torch.finfo(states.dtype).eps / torch.finfo(torch.float32).eps
    return TOLERANCE * max(1.0, step) * max(1.0, states.abs().max().item())
