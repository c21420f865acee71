"""The loss of an objective over plain tensors, for your own training loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from limbeck.core.errors import MismatchError
from limbeck.core.objective import Objective, TokenObjective, wants
from limbeck.core.task import Kind, TaskInfo
from limbeck.core.trace import OF_LAYERS, Batch, Projection, Trace, Want
from limbeck.objectives.weighted_sum import weighted_sum

if TYPE_CHECKING:
    from torch import Tensor

OF_HEADS = ("attention", "queries", "keys", "values")
UNLABELLED = -100  # what transformers puts where a row has no label


def loss(
    objective: Objective, student: Tensor | Trace, teacher: Tensor | Trace | None = None, labels: Tensor | None = None
) -> Tensor:
    """The weighted sum of an objective's terms: a scalar, with the gradient of the student.

    Args:
        objective: one term or a sum of them, such as `0.5 * Labels() + 0.5 * SoftTargets()`.
        student, teacher: logits. [texts, classes] of texts, or [texts] for numbers; [texts, 2, positions] of the start
            and the end of an answer; [tokens, vocabulary] for objectives over a vocabulary. An objective that compares
            more than logits takes a `limbeck.Trace`, as in `Trace(hidden=(embeddings, layer_1))`.
        labels: class ids [texts], a 0 or 1 for each label [texts, labels], numbers [texts], positions [texts, 2], or
            token ids [tokens]. -100, and NaN among numbers, marks a row without a label: it adds nothing to a term over
            labels, and still learns from the teacher.

    Every row counts; select rows (no padding, only masked tokens) before the call. The loss is a mean over these rows,
    so micro-batches of unequal size need weights.

    Example:

        import torch
        import limbeck

        student, teacher = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3)  # [texts, classes]
        objective = 0.5 * limbeck.Labels() + 0.5 * limbeck.SoftTargets(temperature=4)
        limbeck.loss(objective, student, teacher, labels=torch.tensor([0, 2, 1, -100])).backward()

        student, teacher = torch.randn(6, 100, requires_grad=True), torch.randn(6, 100)  # [tokens, vocabulary]
        limbeck.loss(limbeck.WordKD(), student, teacher).backward()
    """
    shown = student if isinstance(student, Trace) else Trace(logits=student)
    taught = teacher if isinstance(teacher, Trace) else Trace() if teacher is None else Trace(logits=teacher)
    tokens = any(isinstance(part, TokenObjective) for _, part in objective.weighted)
    kind = _kind(objective, shown, labels, tokens)
    _check(objective, taught)
    batch = _batch(kind, shown, labels, tokens)
    return weighted_sum(objective, _shaped(shown, kind, tokens), _shaped(taught, kind, tokens), batch)[0]


def _kind(objective: Objective, student: Trace, labels: Tensor | None, tokens: bool) -> Kind:
    """The first kind of task that fits the shapes of the tensors and is served by every term."""
    logits, terms = student.logits, [part for _, part in objective.weighted]
    kinds: tuple[Kind, ...] = ("classify", "mask-fill", "generate")
    if tokens:
        kinds = ("mask-fill", "generate")
    elif logits.dim() == 3:
        kinds = ("answer",)
    elif labels is not None and labels.dim() == 2:
        kinds = ("multilabel",)
    elif logits.numel() and logits.shape[1:] in ((), (1,)):
        kinds = ("regress",)
    for kind in kinds:
        if all(kind in part.serves for part in terms):
            return kind
    wrong = next(part for part in terms if kinds[0] not in part.serves)
    shape = f"logits of shape {list(logits.shape)}" if logits.numel() else "such tensors"
    raise MismatchError(
        f"{type(wrong).__name__} takes no {shape} as {kinds[0]}",
        wrong.remedy or f"it serves {', '.join(wrong.serves)}; see help(limbeck.{type(wrong).__name__})",
    )


def _check(objective: Objective, teacher: Trace) -> None:
    made_of_logits = Want.TOP | Want.SAMPLED if teacher.logits.numel() else Want.NOTHING
    if lacking := wants(objective) & ~teacher.has & ~made_of_logits:
        raise MismatchError(
            f"the objective looks at the teacher's {lacking}, which are not there",
            "pass its logits as a tensor; hidden states and heads go into a limbeck.Trace, for both models",
        )


def _shaped(trace: Trace, kind: Kind, tokens: bool) -> Trace:
    """Logits as the terms take them: one row for each label."""
    logits = trace.logits
    if tokens and logits.numel():
        return replace(trace, logits=Trace().logits, tokens=Projection(logits.flatten(0, -2)))
    if kind == "answer":
        return replace(trace, logits=logits.flatten(0, 1))
    return replace(trace, logits=logits[:, None]) if kind == "regress" and logits.dim() == 1 else trace


def _batch(kind: Kind, student: Trace, labels: Tensor | None, tokens: bool) -> Batch:
    import torch

    shown = [student.logits, *(states for name in OF_LAYERS for states in getattr(student, name))]
    first = next(tensor for tensor in shown if tensor.numel())
    uids = torch.arange(len(first), device=first.device)
    shape = first.shape[:-1] if tokens or kind == "answer" else uids.shape
    rows = uids.new_full(shape, UNLABELLED) if labels is None else labels
    known = (rows != UNLABELLED) & ~rows.isnan()
    outputs = tuple(map(str, range(student.logits.shape[-1]))) if kind in ("classify", "multilabel") else ()
    nothing = Trace().logits
    return Batch(
        TaskInfo(kind=kind, labels=outputs),
        uids=uids,
        labels=rows if kind == "multilabel" else rows.flatten(),
        has_label=known.all(1) if kind == "multilabel" and known.dim() == 2 else known.flatten(),
        inputs={"attention_mask": _present(student, uids)},
        predicted=torch.ones_like(first[:, 0], dtype=torch.bool) if kind == "answer" else nothing,
        next_sentence_label=nothing if tokens or kind != "mask-fill" else rows,
    )


def _present(student: Trace, uids: Tensor) -> Tensor:
    """[texts, length] ones: a Trace holds no padding."""
    states = [x.shape[1] for x in student.hidden if x.numel()]
    heads = [x.shape[2] for name in OF_HEADS for x in getattr(student, name) if x.numel()]
    return uids.new_ones(len(uids), next(iter([*states, *heads]), 0))
