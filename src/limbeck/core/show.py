"""How a forward pass becomes a Trace: the one place that knows what models return.

A language model's output projection is not run. Its input is kept instead, so that whoever needs logits multiplies out
a few tokens at a time. Architectures whose logits are more than such a projection are shown whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from limbeck.core.trace import Batch, Projection, Trace
from limbeck.core.want import Want

if TYPE_CHECKING:
    from torch import Tensor, nn

_PLAIN: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # model → its logits are one product


def show(model: nn.Module, batch: Batch, want: Want = Want.LOGITS, vocabulary: int = 0) -> Trace:
    """What `model` says of a batch; `vocabulary` cuts off rows of the projection that pad it to a round number."""
    if not batch.task.of_tokens:
        return Trace(logits=model(**batch.inputs).logits)
    inner: Any = getattr(model, "module", model)  # inside a wrapper for several processes
    kept: list[Tensor] = []
    plain = projects(inner, batch)
    with _without_projection(inner.get_output_embeddings(), kept) if plain else _as_it_is():
        outputs = model(**batch.inputs, **_options(inner, want))
    if plain:
        head = inner.get_output_embeddings()
        tokens = _projection(kept[0][batch.counted], head.weight, getattr(head, "bias", None), vocabulary)
    else:
        tokens = Projection(_logits(outputs)[batch.counted][:, : vocabulary or None])
    return Trace(
        logits=outputs.seq_relationship_logits if batch.follows.numel() else Trace().logits,
        hidden=tuple(outputs.hidden_states) if want & Want.HIDDEN else (),
        tokens=tokens,
    )


def _projection(features: Tensor, weight: Tensor, bias: Tensor | None, vocabulary: int) -> Projection:
    rows = slice(vocabulary or None)
    return Projection(features, weight[rows]) if bias is None else Projection(features, weight[rows], bias[rows])


def projects(model: Any, batch: Batch) -> bool:
    """Whether the model's logits are its output projection and nothing more. Tried once, on a few tokens.

    Numbers are planted where the projection's output would be: they must come out as they are, not scaled or capped."""
    if model not in _PLAIN:
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            _PLAIN[model] = _passes_planted(model, {name: tensor[:1, :4] for name, tensor in batch.inputs.items()})
        finally:
            for module, training in modes:
                module.training = training
    return _PLAIN[model]


def _passes_planted(model: Any, inputs: dict[str, Tensor]) -> bool:
    import torch

    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        return False
    kept: list[Tensor] = []
    planted = torch.linspace(-99, 99, head.out_features, device=head.weight.device, dtype=head.weight.dtype)
    with torch.no_grad(), _without_projection(head, kept, planted):
        found = _logits(model(**inputs, **_options(model, Want.LOGITS)))
    return bool(kept) and torch.equal(found, planted.expand_as(found))


def _logits(outputs: Any) -> Tensor:
    """BERT with a head for next sentences has two kinds of logits."""
    found: Tensor = outputs.prediction_logits if "prediction_logits" in outputs else outputs.logits
    return found


def _options(model: nn.Module, want: Want) -> dict[str, bool]:
    known = inspect.signature(model.forward).parameters
    options = {"output_hidden_states": bool(want & Want.HIDDEN), "use_cache": False}
    return {name: value for name, value in options.items() if name in known or (value and "kwargs" in known)}


@contextmanager
def _without_projection(head: nn.Module, kept: list[Tensor], planted: Tensor | None = None) -> Iterator[None]:
    """The head keeps what it is given, and gives nothing, or what is planted."""

    def keep(features: Tensor) -> Tensor:
        kept.append(features)
        out = features.new_empty(0) if planted is None else planted
        return out.expand(*features.shape[:-1], -1)

    before = vars(head).get("forward")  # of hooks that replace it, as accelerate's do
    head.forward = keep
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield
