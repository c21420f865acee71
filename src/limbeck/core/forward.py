"""How a forward pass becomes a Trace: the one place that knows what models return.

A language model's output projection is not run. Its input is kept instead, so that whoever needs logits multiplies out
a few tokens at a time. Architectures whose logits are more than such a projection are shown whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from limbeck.core.tap import Heads, eval_mode, tapped
from limbeck.core.trace import ATTENTION_PARTS, ONLY_LOGITS, Batch, Projection, Request, Trace, Want

if TYPE_CHECKING:
    from torch import Tensor, nn

NOWHERE = -1e4  # logit of a place where no answer can lie: its probability is 0, and gradients stay finite
_ADDED = "final_logits_bias"  # what BART and Marian add to their logits, most often zeros
_KNOWN: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()  # function → names of its parameters
_PLAIN: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # model → its logits are one product


def forward(model: nn.Module, batch: Batch, ask: Request = ONLY_LOGITS, vocabulary: int = 0) -> Trace:
    """What `model` says of a batch; `vocabulary` cuts off rows of the projection that pad it to a round number."""
    inner: Any = getattr(model, "module", model)  # inside a wrapper for several processes
    if batch.task.over_vocabulary:
        return _forward_tokens(model, inner, batch, ask, vocabulary)
    seen: list[Heads] = []
    with tapped(ask, seen):
        outputs = model(**batch.inputs, **_options(inner, ask))
    return Trace(logits=_rows(outputs, batch), **_states(outputs, batch, ask), **_heads(seen, ask))


def _rows(outputs: Any, batch: Batch) -> Tensor:
    """[rows, outputs]: of texts as they are; of places, a row for each label a batch has."""
    import torch

    if batch.task.kind == "tag":
        found: Tensor = outputs.logits[batch.predicted]
    elif batch.task.kind == "answer":
        both = torch.stack([outputs.start_logits, outputs.end_logits], 1).masked_fill(
            ~batch.predicted[:, None], NOWHERE
        )
        found = both.flatten(0, 1)
    else:
        found = outputs.logits
    return found


def _states(outputs: Any, batch: Batch, ask: Request) -> dict[str, Any]:
    if not ask.want & (Want.HIDDEN | Want.POOLED):
        return {}
    states = outputs.hidden_states
    hidden = tuple(x if layer in ask.hidden else x.new_empty(0) for layer, x in enumerate(states))
    pooled = tuple(_pool(x, batch, ask) if layer in ask.pooled else x.new_empty(0) for layer, x in enumerate(states))
    return {"hidden": hidden if ask.hidden else (), "pooled": pooled if ask.pooled else ()}


def _pool(states: Tensor, batch: Batch, ask: Request) -> Tensor:
    """[batch, length, width] → [batch, width], without padding."""
    present = batch.inputs["attention_mask"].bool()
    if ask.pool == "cls":  # the first token that is there: padding may stand on the left
        return states[range(len(states)), present.int().argmax(1)]
    total = states.masked_fill(~present[..., None], 0).sum(1)  # what stands at padding may be anything
    return total / present.sum(1, keepdim=True).clamp(min=1)


def _heads(seen: list[Heads], ask: Request) -> dict[str, Any]:
    if not ask.want & ATTENTION_PARTS:
        return {}
    shown = {
        "attention": [heads.scores for heads in seen],
        "queries": [heads.queries for heads in seen],
        "keys": [heads.keys for heads in seen],
        "values": [heads.values for heads in seen],
    }
    return {name: (Trace().logits, *parts) for name, parts in shown.items() if Want[name.upper()] & ask.want}


def _forward_tokens(model: nn.Module, inner: Any, batch: Batch, ask: Request, vocabulary: int) -> Trace:
    kept: list[Tensor] = []
    seen: list[Heads] = []
    plain = projects(inner, batch)
    with tapped(ask, seen), _without_projection(inner, kept) if plain else nullcontext():
        outputs = model(**batch.inputs, **_options(inner, ask))
    if plain:
        head = inner.get_output_embeddings()
        tokens = _projection(kept[0][batch.in_loss], head.weight, getattr(head, "bias", None), vocabulary)
    else:
        tokens = Projection(_logits(outputs)[batch.in_loss][:, : vocabulary or None])
    return Trace(
        logits=outputs.seq_relationship_logits if batch.next_sentence_label.numel() else Trace().logits,
        tokens=tokens,
        **_states(outputs, batch, ask),
        **_heads(seen, ask),
    )


def _projection(features: Tensor, weight: Tensor, bias: Tensor | None, vocabulary: int) -> Projection:
    rows = slice(vocabulary or None)
    return Projection(features, weight[rows]) if bias is None else Projection(features, weight[rows], bias[rows])


def projects(model: Any, batch: Batch) -> bool:
    """Whether the model's logits are its output projection and nothing more. Tried once, on a few tokens.

    Numbers are planted where the projection's output would be: they must come out as they are, not scaled or capped."""
    if model not in _PLAIN:
        with eval_mode(model):
            _PLAIN[model] = _passes_planted(model, {name: tensor[:1, :4] for name, tensor in batch.inputs.items()})
    return _PLAIN[model]


def _passes_planted(model: Any, inputs: dict[str, Tensor]) -> bool:
    import torch

    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        return False
    kept: list[Tensor] = []
    planted = torch.linspace(-99, 99, head.out_features, device=head.weight.device, dtype=head.weight.dtype)
    with torch.no_grad(), _without_projection(model, kept, planted):
        found = _logits(model(**inputs, **_options(model, ONLY_LOGITS)))
    return bool(kept) and torch.equal(found, planted.expand_as(found))


def _logits(outputs: Any) -> Tensor:
    """BERT with a head for next sentences has two kinds of logits."""
    found: Tensor = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    return found


def _options(model: nn.Module, ask: Request) -> dict[str, bool]:
    known = _parameters(getattr(model.forward, "__func__", model.forward))
    options = {"output_hidden_states": bool(ask.want & (Want.HIDDEN | Want.POOLED)), "use_cache": False}
    return {name: value for name, value in options.items() if name in known or (value and "kwargs" in known)}


def _parameters(function: Any) -> frozenset[str]:
    """Names of a function's parameters, looked up once: that takes as long as a layer of a small model."""
    if function not in _KNOWN:
        _KNOWN[function] = frozenset(inspect.signature(function).parameters)
    return _KNOWN[function]


@contextmanager
def _without_projection(model: Any, kept: list[Tensor], planted: Tensor | None = None) -> Iterator[None]:
    """The head keeps what it is given, and gives nothing, or what is planted."""
    head = model.get_output_embeddings()
    added = getattr(model, _ADDED, None)  # of a model whose logits are a projection and no more, it is zero

    def keep(features: Tensor) -> Tensor:
        kept.append(features)
        out = features.new_empty(0) if planted is None else planted
        return out.expand(*features.shape[:-1], -1)

    before = vars(head).get("forward")  # of hooks that replace it, as accelerate's do
    head.forward = keep
    if added is not None and planted is None:
        setattr(model, _ADDED, added[..., :0])
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before
        if added is not None:
            setattr(model, _ADDED, added)
