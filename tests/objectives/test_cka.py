"""CKA as an objective: rows without padding, the mean over layers, its weight in a step, and a real student."""

import pytest
import torch

from limbeck.core.forward import forward
from limbeck.core.objective import wants
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.functional.cka import linear_cka
from limbeck.objectives import LogitRegression
from limbeck.objectives.cka import CKA
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.cka import CKA as RECIPE
from limbeck.students.sizes import shape_of
from tiny import make_classifier

TASK = TaskInfo(kind="classify", labels=("a", "b", "c"))
LENGTHS = (7, 3, 5)


def batch(lengths=LENGTHS, longest=7):
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    count = len(lengths)
    return Batch(
        TASK, torch.arange(count), torch.zeros(count).long(), torch.ones(count).bool(), {"attention_mask": mask}
    )


def states(layers, width, rows=(3, 7), seed=0):
    """NaN at padding: nothing of it may reach the loss."""
    torch.manual_seed(seed)
    found = [torch.randn(*rows, width, dtype=torch.float64) for _ in range(layers + 1)]
    if len(rows) == 2:
        for x in found:
            x[batch(longest=rows[1]).inputs["attention_mask"] == 0] = torch.nan
    return tuple(found)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_rows_are_the_present_tokens_and_layers_are_averaged(estimator):
    student, teacher = states(2, 4, seed=1), states(4, 6, seed=2)
    student = tuple(x.requires_grad_() for x in student)
    expected = 0.0
    for j, i in ((1, 2), (2, 4)):
        rows = [torch.cat([x[row, :length] for row, length in enumerate(LENGTHS)]) for x in (student[j], teacher[i])]
        expected += (1 - linear_cka(*rows, estimator == "unbiased").item()) / 2
    total, shown = weighted_sum(CKA(estimator=estimator), Trace(hidden=student), Trace(hidden=teacher), batch())
    assert total.item() == pytest.approx(expected, abs=1e-12)
    assert list(shown) == ["cka"]
    total.backward()
    padding = batch().inputs["attention_mask"] == 0
    assert student[2].grad[~padding].abs().min() > 0
    assert student[2].grad[padding].abs().max() == 0
    assert student[0].grad is None


def test_texts_are_rows_too():
    student, teacher = states(3, 4, rows=(6,), seed=1), states(6, 5, rows=(6,), seed=2)
    total, _ = weighted_sum(
        CKA(among="texts", layers="skip"), Trace(pooled=student), Trace(pooled=teacher), batch((1,) * 6, 1)
    )
    expected = sum(1 - linear_cka(student[j], teacher[i]).item() for j, i in ((1, 2), (2, 4))) / 2
    assert total.item() == pytest.approx(expected, abs=1e-12)


def test_the_plain_one_is_unchanged_by_a_repeated_batch_and_the_unbiased_one_is_not():
    student, teacher = states(1, 4, seed=1), states(1, 6, seed=2)
    twice = [tuple(torch.cat([x, x]) for x in side) for side in (student, teacher)]
    for estimator, same in (("biased", True), ("unbiased", False)):
        objective = CKA(estimator=estimator)
        once = weighted_sum(objective, Trace(hidden=student), Trace(hidden=teacher), batch())[0].item()
        again = weighted_sum(objective, Trace(hidden=twice[0]), Trace(hidden=twice[1]), batch(LENGTHS * 2))[0].item()
        assert (again == pytest.approx(once, abs=1e-12)) is same


def test_micro_batches_weigh_by_their_texts():
    student, teacher = states(1, 4, seed=1), states(1, 6, seed=2)
    parts = [slice(0, 2), slice(2, 3)]
    alone, shared = [], []
    for rows in parts:
        traces = [Trace(hidden=tuple(x[rows] for x in side)) for side in (student, teacher)]
        alone.append(weighted_sum(CKA(), *traces, batch(LENGTHS[rows]))[0].item())
        shared.append(weighted_sum(CKA(), *traces, batch(LENGTHS[rows]), {"examples": torch.tensor(3)})[0].item())
    assert sum(shared) == pytest.approx((2 * alone[0] + alone[1]) / 3, abs=1e-12)


def test_a_batch_of_too_few_rows_adds_nothing_and_can_be_trained_on():
    student, teacher = states(1, 4, rows=(3,), seed=1), states(1, 6, rows=(3,), seed=2)
    student = tuple(x.requires_grad_() for x in student)
    total, _ = weighted_sum(CKA(among="texts"), Trace(pooled=student), Trace(pooled=teacher), batch((1,) * 3, 1))
    total.backward()
    assert total.item() == 0.0
    assert student[1].grad.abs().max() == 0


def test_what_it_asks_for():
    small, large = (
        Shape(architecture="bert", layers=layers, hidden=width, heads=2, feed_forward=8)
        for layers, width in ((2, 4), (4, 6))
    )
    assert CKA().requests(small, large) == (
        Request(Want.LOGITS | Want.HIDDEN, hidden=(1, 2)),
        Request(Want.HIDDEN, hidden=(2, 4)),
    )
    assert CKA(among="texts", pool="mean").requests(small, large)[1] == Request(Want.POOLED, pooled=(2, 4), pool="mean")
    assert CKA().bridges(small, large) == {}
    assert wants(1.0 * CKA()) == Want.HIDDEN
    assert wants(1.0 * CKA(among="texts")) == Want.POOLED


def real_batch(padding=0):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (4, 9), generator=generator)
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[1:3, 6:] = 0
    extra = torch.zeros(4, padding, dtype=torch.long)
    inputs = {"input_ids": torch.cat([ids, extra], 1), "attention_mask": torch.cat([mask, extra], 1)}
    return Batch(TASK, torch.arange(4), torch.tensor([0, 1, 2, 0]), torch.ones(4, dtype=torch.bool), inputs)


@pytest.mark.parametrize("knobs", [{}, {"estimator": "biased"}, {"among": "texts"}])
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(knobs):
    teacher, student = (make_classifier(("a", "b", "c")).double() for _ in range(2))
    objective, some = CKA(**knobs), real_batch()
    mine, theirs = objective.requests(shape_of(student), shape_of(teacher))
    total, _ = weighted_sum(objective, forward(student, some, mine), forward(teacher, some, theirs), some)
    total.backward()
    found = [parameter.grad.abs().max().item() for parameter in student.parameters() if parameter.grad is not None]
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert found
    assert max(found) < 1e-9


def test_padding_changes_nothing_and_widths_may_differ():
    teacher = make_classifier(("a", "b", "c")).double()
    student = make_classifier(("a", "b", "c"), layers=2, hidden=16, seed=1).double()
    mine, theirs = CKA().requests(shape_of(student), shape_of(teacher))
    found = [
        weighted_sum(CKA(), forward(student, some, mine), forward(teacher, some, theirs), some)[0].item()
        for some in (real_batch(), real_batch(padding=5))
    ]
    assert found[0] > 0.1
    assert found[1] == pytest.approx(found[0], abs=1e-12)


def test_the_recipe():
    assert [weight for weight, _ in RECIPE.objective(TASK).weighted] == [0.5, 0.5, 1.0]
    assert LogitRegression() in [part for _, part in RECIPE.objective(TaskInfo(kind="regress")).weighted]
    assert wants(RECIPE.objective(TASK)) == Want.LOGITS | Want.HIDDEN
