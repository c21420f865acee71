"""The loss of a step: the weighted sum of an objective's terms, those over tokens in one pass over the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limbeck import functional
from limbeck.core.objective import Objective, Rows, TokenObjective
from limbeck.core.trace import Batch, Chunk, Trace

if TYPE_CHECKING:
    from torch import Tensor


def weighted_sum(
    objective: Objective, student: Trace, teacher: Trace, batch: Batch, rows: Mapping[Rows, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum and each unweighted term; `rows` are the counts of the whole optimiser step, if larger."""
    shown: dict[str, Tensor] = {}
    parts: list[Tensor] = []
    over_tokens = [(w, part) for w, part in objective.weighted if isinstance(part, TokenObjective) and w]
    for weight, part in objective.weighted:
        if isinstance(part, TokenObjective) or (part.wants and not weight):  # without weight it may have no teacher
            continue
        for name, mean in part.terms(student, teacher, batch).items():
            value = mean.over(rows[part.rows] if rows else None)
            shown[name] = shown[name] + value if name in shown else value
            parts.append(weight * value)
    if over_tokens:
        total, values = _over_tokens(over_tokens, student, teacher, batch, rows)
        parts.append(total)
        for name, value in values.items():
            shown[name] = shown[name] + value if name in shown else value
    if not parts:
        raise ValueError("an objective without terms has no loss")
    return sum(parts[1:], start=parts[0]), shown


@dataclass(frozen=True)
class _Lean(Chunk):
    """A chunk whose log-probabilities cost little to differentiate at a few places."""

    def log_q(self, temperature: float = 1.0) -> Tensor:
        key = ("student", temperature)
        if key not in self._made:
            self._made[key] = functional.log_softmax(self.logits, temperature)
        return self._made[key]


def _over_tokens(
    terms: list[tuple[float, TokenObjective]],
    student: Trace,
    teacher: Trace,
    batch: Batch,
    rows: Mapping[Rows, Tensor] | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    import torch

    from limbeck.functional.chunked import chunked

    predicted = batch.in_loss
    labels, has_label = batch.labels[predicted], batch.has_label[predicted]
    counts = rows or {"has_label": has_label.sum(), "in_loss": predicted.sum()}
    dtype = torch.promote_types(student.tokens.features.dtype, torch.float32)
    share = torch.stack([1 / counts[part.rows].clamp(min=1).to(dtype) for _, part in terms])
    weights = share * share.new_tensor([weight for weight, _ in terms])

    def each(logits: Tensor, tokens: slice) -> Tensor:
        chunk = _Lean(logits, labels[tokens], has_label[tokens], teacher, tokens)
        values = [(part, part.each(chunk)) for _, part in terms]
        # Chosen, not multiplied by 0: what is left out may be NaN.
        return torch.stack([(v[chunk.has_label] if part.rows == "has_label" else v).sum() for part, v in values])

    total, sums = chunked(student.tokens, each, weights)
    shown: dict[str, Tensor] = {}
    for (_, part), value in zip(terms, share * sums, strict=True):
        shown[part.name] = shown[part.name] + value if part.name in shown else value
    return total, shown
