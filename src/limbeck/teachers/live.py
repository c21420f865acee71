"""A frozen network, asked at every step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from limbeck.core.forward import forward
from limbeck.core.trace import OF_LAYERS, ONLY_LOGITS, Batch, Projection, Request, Teacher, Trace


class LiveTeacher(Teacher):
    """In eval mode and without gradients from the start."""

    def __init__(self, model: nn.Module, request: Request = ONLY_LOGITS, vocabulary: int = 0) -> None:
        self.model = model.eval().requires_grad_(False)
        self.has, self.request = request.want, request
        self.vocabulary = vocabulary

    def answer(self, batch: Batch) -> Trace:
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            trace = forward(self.model, batch.to(device), self.request, self.vocabulary)
        return _freed(trace, batch.uids.device)


def _freed(trace: Trace, device: torch.device) -> Trace:
    """Clones made outside inference mode may enter the student's graph; parameters were never inside it."""

    def free(tensor: Tensor) -> Tensor:
        return tensor.clone().to(device) if tensor.is_inference() else tensor.to(device)

    tokens = Projection(*map(free, (trace.tokens.features, trace.tokens.weight, trace.tokens.bias)))
    layers: Any = {name: tuple(map(free, getattr(trace, name))) for name in OF_LAYERS}
    return Trace(logits=free(trace.logits), tokens=tokens, **layers)
