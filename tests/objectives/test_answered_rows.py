"""Rows that the teacher has no answer to: terms over its answers pass them over, labels do not."""

from dataclasses import replace

import pytest
import torch

import limbeck
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Trace
from limbeck.objectives.weighted_sum import weighted_sum

KINDS = {
    "classify": (limbeck.SoftTargets(temperature=2), torch.tensor([0, 1, 2, 0, 1, 2])),
    "multilabel": (limbeck.SoftTargets(temperature=2), torch.randint(0, 2, (6, 3)).float()),
    "regress": (limbeck.LogitRegression(), torch.randn(6)),
}
ANSWERED = torch.tensor([True, False, True, True, False, True])


def made(kind):
    width = 1 if kind == "regress" else 3
    draw = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(6, width, generator=draw, dtype=torch.float64) for _ in range(2))
    labels = () if kind == "regress" else ("a", "b", "c")
    batch = Batch(TaskInfo(kind=kind, labels=labels), torch.arange(6), KINDS[kind][1], torch.ones(6, dtype=torch.bool))
    return student.requires_grad_(), teacher, batch


def chosen(batch, rows):
    return replace(batch, **{name: getattr(batch, name)[rows] for name in ("uids", "labels", "has_label")})


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_the_answered_rows_and_of_all_labels(kind):
    student, teacher, batch = made(kind)
    soft = KINDS[kind][0]
    lost = teacher.masked_fill(~ANSWERED[:, None], 1e6)  # whatever stands there
    objective = 0.5 * limbeck.Labels() + 0.5 * soft
    total, terms = weighted_sum(objective, Trace(student), Trace(lost), replace(batch, predicted=ANSWERED))
    alone, _ = weighted_sum(1.0 * soft, Trace(student[ANSWERED]), Trace(teacher[ANSWERED]), chosen(batch, ANSWERED))
    labels, _ = weighted_sum(1.0 * limbeck.Labels(), Trace(student), Trace(), batch)
    torch.testing.assert_close(total, 0.5 * labels + 0.5 * alone, rtol=0, atol=1e-14)
    assert len(terms) == 2
    total.backward()
    wanted = torch.autograd.grad(0.5 * labels + 0.5 * alone, student)[0]
    torch.testing.assert_close(student.grad, wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_of_unequal_counts_give_the_loss_of_one_batch(kind):
    student, teacher, batch = made(kind)
    batch, objective = replace(batch, predicted=ANSWERED), 1.0 * KINDS[kind][0]
    whole, _ = weighted_sum(objective, Trace(student), Trace(teacher), batch)
    counts = {"has_label": torch.tensor(6), "in_loss": batch.in_loss.sum()}
    parts = []
    for rows in (slice(0, 2), slice(2, 6)):
        part = replace(chosen(batch, rows), predicted=ANSWERED[rows])
        parts.append(weighted_sum(objective, Trace(student[rows]), Trace(teacher[rows]), part, counts)[0])
    torch.testing.assert_close(sum(parts), whole, rtol=0, atol=1e-14)


def test_a_batch_without_any_answer_has_no_soft_loss():
    student, teacher, batch = made("classify")
    batch = replace(batch, predicted=torch.zeros(6, dtype=torch.bool))
    total, _ = weighted_sum(1.0 * KINDS["classify"][0], Trace(student), Trace(teacher), batch)
    assert total.item() == 0.0
