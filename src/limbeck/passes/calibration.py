"""What passes learn from calibration rows, and which layers of a model they may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError
from limbeck.core.tap import eval_mode
from limbeck.core.trace import Batch

if TYPE_CHECKING:
    from torch import Tensor, nn


def run(model: nn.Module, batches: Sequence[Batch]) -> Iterator[Any]:
    """What the model says of each batch, without dropout and gradients."""
    import torch

    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    with torch.no_grad(), eval_mode(model):
        for batch in batches:
            yield model(**batch.to(device).inputs)


def second_moments(model: nn.Module, layers: Mapping[str, nn.Module], batches: Sequence[Batch]) -> dict[str, Tensor]:
    """Σ x·xᵀ over the inputs of each layer, [n, n] float64; of a table how often each row is looked up, [rows].

    Padding does not count, wherever the mask says what it is."""
    found: dict[str, Tensor] = {}
    mask: list[Tensor] = []
    latest: list[Any] = [None, None]  # an input and its moment: query, key and value read the same one

    def watch(name: str, module: nn.Module) -> Callable[..., None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if latest[0] is not inputs[0]:
                latest[:] = inputs[0], _moment(inputs[0].detach(), module, mask)
            found[name] = found[name] + latest[1] if name in found else latest[1]

        return hook

    with ExitStack() as hooks:
        for name, module in layers.items():
            hooks.enter_context(module.register_forward_pre_hook(watch(name, module)))
        for batch in batches:
            seen = batch.inputs.get("attention_mask")
            mask[:] = [seen] if seen is not None and "decoder_input_ids" not in batch.inputs else []
            for _ in run(model, [batch]):
                pass
    return found


def _moment(x: Tensor, module: Any, mask: Sequence[Tensor]) -> Tensor:
    import torch

    table = isinstance(module, torch.nn.Embedding)
    places = x.shape if table else x.shape[:-1]
    if mask and mask[0].shape == places:
        x = x[mask[0].bool().to(x.device)]
    if table:
        return torch.bincount(x.flatten(), minlength=module.num_embeddings).double()
    x = x.flatten(0, -2).double()
    return x.T @ x


def matrices(model: nn.Module, wanted: Callable[[nn.Module], bool]) -> dict[str, nn.Module]:
    """Layers by name, each wherever it stands; one whose weights are not all numbers is refused."""
    from limbeck.core.layers import matrix

    found = {name: module for name, module in model.named_modules(remove_duplicate=False) if wanted(module)}
    for name, module in found.items():
        if not matrix(module).isfinite().all():
            raise ModelError(f"the weights of {name} are not all finite numbers", "train the model again")
    return found


def shared_weights(model: nn.Module) -> set[int]:
    """The ids of parameters that several modules have in common, such as a head's that is the word table."""
    ids = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    return {one for one, count in ids.items() if count > 1}


def in_head(model: Any) -> Callable[[str], bool]:
    """Whether a layer belongs to the head that makes answers of states; an output projection to words does not."""
    base = getattr(model, "base_model", model)
    if base is model:
        return lambda name: False
    words = getattr(model, "get_output_embeddings", lambda: None)()
    outputs = next((name for name, module in model.named_modules() if words is not None and module is words), None)
    return lambda name: not name.startswith(f"{model.base_model_prefix}.") and name != outputs
