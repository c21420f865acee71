"""A teacher of tokens whose vocabulary was trimmed for the student: its answers, in the student's ids.

What a cache holds keeps its probabilities: the mass of tokens that went is part of the rest. A live teacher shows the
logits of the tokens that stayed, as if it had been trimmed too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from limbeck.core.trace import Batch, Projection, Teacher, Trace
from limbeck.functional.truncated import remapped


class RemappedTeacher(Teacher):
    """Answers of `teacher` over a vocabulary in which id n was old_ids[n]."""

    def __init__(self, teacher: Teacher, old_ids: Sequence[int] | np.ndarray) -> None:
        self.teacher, self.old_ids, self.has = teacher, torch.as_tensor(old_ids), teacher.has

    def answer(self, batch: Batch) -> Trace:
        trace = self.teacher.answer(replace(batch, inputs={**batch.inputs, **self._as_before(batch)}))
        if len(trace.top):
            trace = replace(trace, top=remapped(trace.top, self.old_ids))
        if len(trace.sampled):
            trace = replace(trace, sampled=remapped(trace.sampled, self.old_ids))
        return replace(trace, tokens=self._stayed(trace.tokens)) if len(trace.tokens) else trace

    def _as_before(self, batch: Batch) -> dict[str, Tensor]:
        """What a live teacher reads, in its own ids."""
        read = {name: ids for name, ids in batch.inputs.items() if name in ("input_ids", "decoder_input_ids")}
        return {name: self.old_ids.to(ids.device)[ids] for name, ids in read.items()}

    def _stayed(self, tokens: Projection) -> Projection:
        index = self.old_ids.to(tokens.features.device)
        bias = tokens.bias[index] if tokens.bias.numel() else tokens.bias
        if tokens.weight.numel():
            return replace(tokens, weight=tokens.weight[index], bias=bias)
        return replace(tokens, features=tokens.features[:, index], bias=bias)
