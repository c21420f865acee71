"""How well a language model predicts, block by block: the sums that every figure and every resample is made from."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.record import Fidelity
from limbeck.core.tap import eval_mode
from limbeck.core.trace import Batch, NoTeacher, Teacher
from limbeck.measure.fidelity import FidelityMeter, TokenExample
from limbeck.measure.metrics import BINS
from limbeck.measure.predictions import Array

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

CONTEXT = 40  # tokens left of an example that are kept with it
_LOGITS = 4_000_000  # of one chunk: what is held at once


@dataclass(frozen=True)
class TokenStatistics:
    """A model's sums over the predicted tokens of each block."""

    uids: Array  # [blocks]
    sums: Array  # [blocks, 3 + BINS] nats of surprise, right predictions, tokens, overconfidence per bin
    fidelity: Fidelity | None = None  # to a teacher, over the predicted tokens
    examples: tuple[TokenExample, ...] = ()  # disagreements with the teacher, the surest first
    constant: int = -1  # the token that the model predicts everywhere, if it does


def token_statistics(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    vocabulary: int = 0,
    teacher: Teacher = NoTeacher(),  # noqa: B008
    on_batch: Callable[[int], None] | None = None,
    examples: int = 0,
) -> TokenStatistics:
    """Every token that has a label is predicted once. `on_batch` gets the number of blocks that are done; at most
    `examples` disagreements with the teacher come along."""
    import torch

    from limbeck.core.forward import forward

    uids: list[Array] = [np.empty(0, dtype=np.int64)]
    sums: list[Array] = [np.empty((0, 3 + BINS))]
    # Where the teacher of a language model is wrong, the token can mostly not be known.
    meter, surest = FidelityMeter(where_wrong=False), _Surest(examples)
    outputs: set[int] = set()  # the first few of the predicted tokens
    with eval_mode(model), torch.inference_mode():
        for batch in batches:
            shown = forward(model, batch.to(model.device), vocabulary=vocabulary).tokens
            answers = teacher.answer(batch).tokens
            predicted = batch.in_loss
            places = predicted.nonzero()  # [tokens, 2]
            block = places[:, 0]
            labels, has_label = batch.labels[predicted], batch.has_label[predicted]
            found = torch.zeros(len(predicted), 3 + BINS, dtype=torch.float64)
            step = max(_LOGITS // max(shown.vocabulary, 1), 1)
            for start in range(0, len(shown), step):
                part = slice(start, start + step)
                log_q = shown.logits(part).float().log_softmax(-1).cpu()
                rows = _rows(log_q, labels[part])
                if len(outputs) < 2:
                    outputs.update(log_q.argmax(-1).tolist())
                found.index_add_(0, block[part][has_label[part]], rows[has_label[part]])
                if len(answers):
                    log_p = answers.logits(part).float().log_softmax(-1).cpu()
                    _compare(meter, log_q, log_p, labels[part], has_label[part])
                    surest.add(log_q, log_p, batch, places[part])
            uids.append(batch.uids.numpy())
            sums.append(found.numpy())
            if on_batch is not None:
                on_batch(sum(map(len, uids)))
    constant = outputs.pop() if len(outputs) == 1 else -1
    return TokenStatistics(np.concatenate(uids), np.concatenate(sums), meter.fidelity, surest.examples, constant)


def _rows(log_q: Tensor, labels: Tensor) -> Tensor:
    """[n, 3 + BINS] what each token adds to its block."""
    import torch

    sure, predicted = log_q.max(-1)
    right = predicted == labels
    bin_of = (sure.exp() * BINS).ceil().long().sub(1).clamp(0, BINS - 1)
    rows = torch.zeros(len(log_q), 3 + BINS, dtype=torch.float64)
    rows[:, 0] = -log_q.gather(1, labels[:, None])[:, 0]
    rows[:, 1] = right
    rows[:, 2] = 1
    rows.scatter_(1, 3 + bin_of[:, None], (sure.exp().double() - right.double())[:, None])
    return rows


def _compare(meter: FidelityMeter, log_q: Tensor, log_p: Tensor, labels: Tensor, has_label: Tensor) -> None:
    import torch

    student, teacher = log_q.argmax(-1), log_p.argmax(-1)
    divergence = torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0).sum()
    right = ((student == labels)[has_label].numpy(), (teacher == labels)[has_label].numpy())
    meter.count((student == teacher).numpy(), divergence.item(), *right)


class _Surest:
    """The disagreements with the highest confidence of student times teacher, at most so many at any time."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, 0
        self._heap: list[tuple[float, int, TokenExample]] = []  # the least sure first; of equals, the latest

    def add(self, log_q: Tensor, log_p: Tensor, batch: Batch, places: Tensor) -> None:
        """Log-probabilities [n, vocabulary] of student and teacher at places [n, 2] of the batch."""
        if not self._most:
            return
        (sure, student), (taught, teacher) = log_q.max(-1), log_p.max(-1)
        weight = (sure + taught).exp().masked_fill(student == teacher, -1.0)
        for row in weight.argsort(descending=True, stable=True)[: self._most].tolist():
            if weight[row] < 0:
                break
            self._seen += 1
            block, place = places[row].tolist()
            end = place + (batch.task.kind == "generate")  # there a token predicts the one after it
            context = batch.inputs["input_ids"][block, max(end - CONTEXT, 0) : end].tolist()
            example = TokenExample(
                context=tuple(context),
                label=int(batch.labels[block, place]) if batch.has_label[block, place] else -1,
                teacher=int(teacher[row]),
                teacher_confidence=float(taught[row].exp()),
                student=int(student[row]),
                student_confidence=float(sure[row].exp()),
            )
            keep = heapq.heappush if len(self._heap) < self._most else heapq.heappushpop
            keep(self._heap, (float(weight[row]), -self._seen, example))

    @property
    def examples(self) -> tuple[TokenExample, ...]:
        return tuple(example for *_, example in sorted(self._heap, key=lambda item: item[:2], reverse=True))
