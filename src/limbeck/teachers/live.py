"""A frozen network, asked at every step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from limbeck.core.show import show
from limbeck.core.teacher import Teacher
from limbeck.core.trace import Batch, Projection, Trace
from limbeck.core.want import Want


class LiveTeacher(Teacher):
    """In eval mode and without gradients from the moment it is hired."""

    def __init__(self, model: nn.Module, want: Want = Want.LOGITS, vocabulary: int = 0) -> None:
        self.model = model.eval().requires_grad_(False)
        self.has = want
        self.vocabulary = vocabulary

    def answer(self, batch: Batch) -> Trace:
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            shown = show(self.model, batch.to(device), self.has, self.vocabulary)
        return _freed(shown, batch.uids.device)


def _freed(shown: Trace, device: torch.device) -> Trace:
    """Clones made outside inference mode may enter the student's graph; parameters were never inside it."""

    def free(tensor: Tensor) -> Tensor:
        return tensor.clone().to(device) if tensor.is_inference() else tensor.to(device)

    tokens = Projection(*map(free, (shown.tokens.features, shown.tokens.weight, shown.tokens.bias)))
    return Trace(logits=free(shown.logits), hidden=tuple(map(free, shown.hidden)), tokens=tokens)
