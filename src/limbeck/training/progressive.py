"""Not all of a model learns: one layer at a time, or the head alone.

One layer: those below it at a tenth of the rate, those above it not at all (MobileBERT's code)."""

from __future__ import annotations

import re

from torch import nn
from torch.optim import Optimizer
from transformers import PreTrainedModel

from limbeck.core.errors import MismatchError
from limbeck.students.inherit import layer_prefixes
from limbeck.training.bridges import bridges_of

BELOW = 0.1  # of the rate


def freeze_above(model: PreTrainedModel, layer: int) -> list[nn.Parameter]:
    """Freezes the layers above `layer`, counted from 1, and returns their parameters."""
    frozen = [p for p, number in _layer_numbers(model).items() if number > layer and p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    return frozen


def freeze_encoder(model: PreTrainedModel) -> list[nn.Parameter]:
    """Freezes all but the head, and returns what it froze."""
    body = model.base_model
    if body is model:
        raise MismatchError(
            f"a {type(model).__name__} has no encoder apart from its head", "train all of it: set --head-epochs to 0"
        )
    frozen = [parameter for parameter in body.parameters() if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    return frozen


def slow_below(optimizer: Optimizer, model: PreTrainedModel, layer: int) -> None:
    """Embeddings count as layer 0; parameters outside the layers (head, bridges) have the full rate."""
    numbers = _layer_numbers(model)
    for group in list(optimizer.param_groups):
        below = [p for p in group["params"] if numbers.get(p, layer) < layer]
        if below:
            slow = {id(p) for p in below}
            group["params"] = [p for p in group["params"] if id(p) not in slow]
            optimizer.add_param_group({**group, "params": below, "lr": BELOW * group["lr"]})


def _layer_numbers(model: PreTrainedModel) -> dict[nn.Parameter, int]:
    """The layer of each parameter that has one."""
    patterns = [re.compile(rf"{re.escape(prefix)}(\d+)\.") for prefix in layer_prefixes(model)]
    bridges = {id(p) for bridge in bridges_of(model).values() for p in bridge.parameters()}
    embedded = {id(p) for name, m in model.named_modules() if "embeddings" in name for p in m.parameters()}
    numbers: dict[nn.Parameter, int] = {}
    for name, parameter in model.named_parameters():
        match = next(filter(None, (pattern.match(name) for pattern in patterns)), None)
        if match:
            numbers[parameter] = int(match[1]) + 1
        elif id(parameter) in embedded and id(parameter) not in bridges:
            numbers[parameter] = 0
    return numbers
