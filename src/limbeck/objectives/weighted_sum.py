"""The loss of a step: the weighted sum of an objective's terms, those over tokens in one pass over the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from limbeck.core.objective import Objective, Rows, TokenObjective
from limbeck.core.trace import Batch, Trace

if TYPE_CHECKING:
    from torch import Tensor


def weighted_sum(
    objective: Objective, student: Trace, teacher: Trace, batch: Batch, rows: Mapping[Rows, Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum and each unweighted term; `rows` are the counts of the whole optimiser step, if larger."""
    values: list[tuple[str, Tensor]] = []
    parts: list[Tensor] = []
    over_tokens: list[tuple[float, TokenObjective]] = []
    for weight, part in objective.weighted:
        if isinstance(part, TokenObjective):
            over_tokens += [(weight, part)] if weight else []
        elif weight or not part.wants:  # without weight there may be no teacher
            shown = _answered(student, teacher, batch) if part.wants else (student, teacher, batch)
            for name, mean in part.terms(*shown).items():
                value = mean.over(rows[part.rows] if rows else None)
                values.append((name, value))
                parts.append(value if weight == 1 else weight * value)
    if over_tokens:
        from limbeck.functional.chunked import token_terms

        total, means = token_terms(over_tokens, student, teacher, batch, rows)
        values += [(part.name, mean) for (_, part), mean in zip(over_tokens, means, strict=True)]
        parts.append(total)
    if not parts:
        raise ValueError("an objective without terms has no loss")
    terms: dict[str, Tensor] = {}
    for name, value in values:
        terms[name] = terms[name] + value if name in terms else value
    return sum(parts[1:], start=parts[0]), terms


def _answered(student: Trace, teacher: Trace, batch: Batch) -> tuple[Trace, Trace, Batch]:
    """The rows that the teacher has an answer to. Some may lack one only where it gives nothing but logits."""
    if batch.task.over_vocabulary or batch.task.in_windows or not batch.predicted.numel() or batch.predicted.all():
        return student, teacher, batch
    rows = batch.predicted
    inputs = {name: tensor[rows] for name, tensor in batch.inputs.items()}
    fields = {name: getattr(batch, name)[rows] for name in ("uids", "labels", "has_label", "predicted")}
    mine, its = (replace(trace, logits=trace.logits[rows]) for trace in (student, teacher))
    return mine, its, replace(batch, inputs=inputs, **fields)
