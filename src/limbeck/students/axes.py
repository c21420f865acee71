"""Which axis of which parameter is the hidden size, the heads, the feed-forward; learned, not listed.

The model is built again on the meta device (no memory, little time) with a single size changed. An axis that changes
with the hidden size is a hidden axis. So no table of parameter names is needed, and an architecture seen for the first
time works like a known one. An axis may hold its size several times over: ModernBERT's Wqkv has
3 × hidden rows, its Wi 2 × feed-forward rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch

from limbeck.core.errors import ModelError
from limbeck.students.sizes import Sizes, resized, sizes_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

Shapes = dict[str, tuple[int, ...]]  # by parameter name
# Fused projections laid out head by head ([head][q, k, v][coordinate]); shapes cannot tell them from [q, k, v][head].
_HEAD_MAJOR = {"deberta": "in_proj"}


@dataclass(frozen=True)
class Axis:
    size: str  # "hidden", "heads", "head_size", "all_heads", "feed_forward"
    blocks: int = 1  # how many times over
    head_major: bool = False


def learn_axes(model: PreTrainedModel) -> dict[str, dict[int, Axis]]:
    """Parameter → axis number → what that axis is. Axes that depend on no size (vocabulary, positions) are left out."""
    sizes = sizes_of(model.config)
    probes = [
        # two more per head: an even number, because rotary positions need pairs
        (replace(sizes, hidden=sizes.hidden + 2 * sizes.heads), ("hidden", "head_size")),
        (replace(sizes, feed_forward=sizes.feed_forward + 2), ("feed_forward",)),
        (replace(sizes, heads=1), ("all_heads", "heads")),  # hidden fixes all heads together, but not in T5
    ]
    base = _shapes(model)
    axes: dict[str, dict[int, Axis]] = {}
    for probe, candidates in probes:
        for name, shape in _shapes(_varied(model, probe)).items():
            for number, (before, after) in enumerate(zip(base.get(name, ()), shape, strict=False)):
                for size in candidates if before != after else ():
                    blocks, rest = divmod(before, getattr(sizes, size))
                    if rest == 0 and blocks * getattr(probe, size) == after:
                        axis = Axis(size, blocks, head_major=_is_head_major(model.config, name))
                        axes.setdefault(name, {}).setdefault(number, axis)
                        break
    return axes


def layer_prefixes(model: PreTrainedModel, size: Literal["layers", "decoder_layers"] = "layers") -> list[str]:
    """What the names of layer parameters start with, before the number: the lists that grow when a layer is added.

    Empty when layers share their weights (ALBERT)."""
    sizes = sizes_of(model.config)
    count: int = getattr(sizes, size)
    more = replace(sizes, layers=count + 1) if size == "layers" else replace(sizes, decoder_layers=count + 1)
    grown = _shapes(_varied(model, more)).keys() - _shapes(model).keys()
    pattern = re.compile(rf"(.*?\.){count}\.")
    return sorted({match[1] for match in map(pattern.match, grown) if match})


def _shapes(model: PreTrainedModel) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _varied(model: PreTrainedModel, sizes: Sizes) -> PreTrainedModel:
    layers = sizes_of(model.config).layers
    config = resized(model.config, sizes, [min(layer, layers - 1) for layer in range(sizes.layers)])
    return empty_model(model, config, "meta")


def empty_model(model: PreTrainedModel, config: PretrainedConfig, device: torch.device | str) -> PreTrainedModel:
    """A freshly initialised model of the same class, in eval mode."""
    try:
        with torch.device(device):
            return type(model)._from_config(config, dtype=model.dtype).eval()
    except (ValueError, RuntimeError, TypeError) as error:
        raise ModelError(
            f"transformers cannot build a {config.model_type} model of these sizes: {str(error).splitlines()[0]}",
            "keep the teacher's heads, hidden and feed_forward sizes, and take only layers away",
        ) from None


def _is_head_major(config: PretrainedConfig, name: str) -> bool:
    fused = _HEAD_MAJOR.get(config.model_type)
    return fused is not None and fused in name.split(".")
