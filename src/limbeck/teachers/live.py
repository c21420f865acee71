"""A frozen network, asked at every step."""

from __future__ import annotations

import torch
from torch import nn

from limbeck.core.teacher import Teacher
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want


class LiveTeacher(Teacher):
    """In eval mode and without gradients from the moment it is hired."""

    has = Want.LOGITS

    def __init__(self, model: nn.Module) -> None:
        self.model = model.eval().requires_grad_(False)

    @torch.inference_mode()
    def answer(self, batch: Batch) -> Trace:
        device = next(self.model.parameters()).device
        outputs = self.model(**{name: tensor.to(device) for name, tensor in batch.inputs.items()})
        # A clone made outside inference mode may enter the student's graph.
        with torch.inference_mode(False):
            return Trace(logits=outputs.logits.clone().to(batch.uids.device))
