"""Teachers that run a frozen network: at every step, or once for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from limbeck.core.forward import forward
from limbeck.core.trace import OF_LAYERS, ONLY_LOGITS, Batch, Projection, Request, Teacher, Trace


class LiveTeacher(Teacher):
    """Runs the network at every step, in eval mode and without gradients."""

    def __init__(self, model: nn.Module, request: Request = ONLY_LOGITS, vocabulary: int = 0) -> None:
        self.model = model.eval().requires_grad_(False)
        self.has, self.request = request.want, request
        self.vocabulary = vocabulary

    def answer(self, batch: Batch) -> Trace:
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            trace = forward(self.model, batch.to(device), self.request, self.vocabulary)
        return _freed(trace, batch.uids.device)


def answers_per_second(teacher: Teacher, batches: Sequence[Batch]) -> float:
    """Rows; the first batch is answered twice, and only warms the machine up before."""
    teacher.answer(batches[0])
    begin = perf_counter()
    for batch in batches:
        teacher.answer(batch)
    return sum(len(batch.uids) for batch in batches) / (perf_counter() - begin)


class MemoryTeacher(Teacher):
    """Keeps the answers of another teacher in memory: its answers to the test split serve every student.

    Logits that are no projection are too large for that; the teacher then runs again."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher
        self.has = teacher.has
        self.forgets = False  # some answers, so that the teacher must stay
        self._traces: dict[tuple[int, ...], Trace] = {}

    def answer(self, batch: Batch) -> Trace:
        key = tuple(batch.uids.tolist())
        if key in self._traces:
            return self._traces[key]
        trace = self.teacher.answer(batch)
        if trace.tokens.weight.numel():
            self._traces[key] = trace
        else:
            self.forgets = True
        return trace


def _freed(trace: Trace, device: torch.device) -> Trace:
    """Clones from outside inference mode may enter the student's graph; parameters were never in that mode."""

    def free(tensor: Tensor) -> Tensor:
        return tensor.clone().to(device) if tensor.is_inference() else tensor.to(device)

    tokens = Projection(*map(free, (trace.tokens.features, trace.tokens.weight, trace.tokens.bias)))
    layers: Any = {name: tuple(map(free, getattr(trace, name))) for name in OF_LAYERS}
    return Trace(logits=free(trace.logits), tokens=tokens, **layers)
