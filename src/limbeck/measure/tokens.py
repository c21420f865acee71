"""How well a language model predicts, block by block: the sums that every figure and every resample is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.record import Fidelity
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.trace import Batch
from limbeck.core.want import Want
from limbeck.measure.answers import Array
from limbeck.measure.metrics import BINS
from limbeck.measure.predict import at_rest

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_LOGITS = 4_000_000  # of one chunk: what is held at once


@dataclass(frozen=True)
class Tally:
    """What a model said of each block, as sums over the block's predicted tokens."""

    uids: Array  # [blocks]
    sums: Array  # [blocks, 3 + BINS] nats of surprise, right answers, tokens, overconfidence per bin
    fidelity: Fidelity | None = None  # to a teacher, over the asked tokens


def tally(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    vocabulary: int = 0,
    teacher: Teacher = NoTeacher(),  # noqa: B008
    on_batch: Callable[[int], None] | None = None,
) -> Tally:
    """Every token that has a label is predicted once. `on_batch` hears how many blocks are done."""
    import torch

    from limbeck.core.forward import forward

    uids: list[Array] = [np.empty(0, dtype=np.int64)]
    sums: list[Array] = [np.empty((0, 3 + BINS))]
    near = torch.zeros(5, dtype=torch.float64)
    with at_rest(model), torch.inference_mode():
        for batch in batches:
            shown = forward(model, batch.to(model.device), vocabulary=vocabulary).tokens
            answers = teacher.answer(batch).tokens
            predicted = batch.in_loss
            block = torch.arange(len(predicted))[:, None].expand_as(predicted)[predicted]  # [tokens]
            labels, has_label = batch.labels[predicted], batch.has_label[predicted]
            found = torch.zeros(len(predicted), 3 + BINS, dtype=torch.float64)
            step = max(_LOGITS // max(shown.vocabulary, 1), 1)
            for start in range(0, len(shown), step):
                part = slice(start, start + step)
                log_q = shown.logits(part).float().log_softmax(-1).cpu()
                rows = _rows(log_q, labels[part])
                found.index_add_(0, block[part][has_label[part]], rows[has_label[part]])
                if len(answers):
                    near += _nearness(
                        log_q, answers.logits(part).float().log_softmax(-1), labels[part], has_label[part]
                    )
            uids.append(batch.uids.numpy())
            sums.append(found.numpy())
            if on_batch is not None:
                on_batch(sum(map(len, uids)))
    return Tally(np.concatenate(uids), np.concatenate(sums), _fidelity(near) if teacher.has & Want.LOGITS else None)


def _rows(log_q: Tensor, labels: Tensor) -> Tensor:
    """[n, 3 + BINS] what each token adds to its block."""
    import torch

    sure, said = log_q.max(-1)
    right = said == labels
    bin_of = (sure.exp() * BINS).ceil().long().sub(1).clamp(0, BINS - 1)
    rows = torch.zeros(len(log_q), 3 + BINS, dtype=torch.float64)
    rows[:, 0] = -log_q.gather(1, labels[:, None])[:, 0]
    rows[:, 1] = right
    rows[:, 2] = 1
    rows.scatter_(1, 3 + bin_of[:, None], (sure.exp().double() - right.double())[:, None])
    return rows


def _nearness(log_q: Tensor, log_p: Tensor, labels: Tensor, has_label: Tensor) -> Tensor:
    """Tokens, those answered alike, KL(teacher ‖ student), and of labelled ones: teacher right, and student with it."""
    import torch

    student, teacher = log_q.argmax(-1), log_p.argmax(-1)
    divergence = torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0).sum()
    knows = has_label & (teacher == labels)
    both = knows & (student == labels)
    counts = ((student == teacher).sum(), divergence, knows.sum(), both.sum())
    return torch.tensor([len(log_q), *(count.item() for count in counts)], dtype=torch.float64)


def _fidelity(near: Tensor) -> Fidelity:
    tokens, alike, divergence, knows, both = near.tolist()
    return Fidelity(
        agreement=alike / max(tokens, 1),
        divergence=divergence / max(tokens, 1),
        teacher_right_rows=int(knows),
        accuracy_teacher_right=both / knows if knows else None,
    )
