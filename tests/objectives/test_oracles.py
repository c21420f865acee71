"""Hand-computed numbers of each formula, against float64."""

from math import exp, log

import pytest
import torch

from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Trace
from limbeck.functional import divergence as functional
from limbeck.objectives import Labels, LogitRegression, SoftTargets
from limbeck.objectives.weighted_sum import weighted_sum

V = torch.tensor([[2.0, 1.0, 0.1]], dtype=torch.float64)
Z = torch.tensor([[1.0, 1.5, 0.0]], dtype=torch.float64)
TASK = TaskInfo(kind="classify", labels=("a", "b", "c"))


def one(label=0):
    return Batch(TASK, torch.tensor([1]), torch.tensor([label]), torch.tensor([True]))


def value(objective, student=Z, teacher=V, batch=None):
    return weighted_sum(objective, Trace(student), Trace(teacher), batch or one())[0]


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(1.0, 0.234742), (2.0, 0.224577), (20.0, 0.194394), (1000.0, 0.190089)],
)
def test_soft_targets_carry_t_squared(temperature, expected):
    assert value(SoftTargets(temperature=temperature)).item() == pytest.approx(expected, abs=1e-6)


def test_large_temperature_tends_to_half_the_variance_of_the_difference():
    difference = (V - Z)[0]
    limit = 0.5 * (difference - difference.mean()).square().mean()
    assert limit.item() == pytest.approx(0.19, abs=1e-9)
    assert value(SoftTargets(temperature=1e5)).item() == pytest.approx(limit.item(), abs=1e-4)


def test_small_temperature_tends_to_the_teachers_argmax():
    sharp = torch.softmax(V / 0.01, -1)
    assert torch.allclose(sharp, torch.tensor([[1.0, 0, 0]], dtype=torch.float64), atol=1e-12)
    hard = functional.hard_cross_entropy(Z / 0.01, torch.tensor([0]))
    assert torch.allclose(functional.kl(V, Z, 0.01), hard, rtol=1e-6)


def test_kl_cross_entropy_and_entropy():
    assert functional.kl(V, Z).item() == pytest.approx(0.234742, abs=1e-6)
    assert functional.kl(V, Z, 2.0).item() == pytest.approx(0.056144, abs=1e-6)
    assert functional.cross_entropy(V, Z).item() == pytest.approx(1.081480, abs=1e-6)
    assert (functional.cross_entropy(V, Z) - functional.kl(V, Z)).item() == pytest.approx(
        functional.entropy(V).item(), abs=1e-12
    )


@pytest.mark.parametrize(
    ("logits", "expected"), [(V, [0.501688, 0.304289, 0.194023]), (Z, [0.345954, 0.444214, 0.209832])]
)
def test_softened_distributions(logits, expected):
    assert torch.softmax(logits / 2, -1)[0].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("temperature", "squared", "norm"), [(1.0, True, 0.4475), (2.0, True, 0.4199), (2.0, False, 0.1050)]
)
def test_gradient_norms(temperature, squared, norm):
    student = Z.clone().requires_grad_()
    total = (
        value(SoftTargets(temperature=temperature), student)
        if squared
        else functional.kl(V, student, temperature).sum()
    )
    (gradient,) = torch.autograd.grad(total, student)
    assert gradient.norm().item() == pytest.approx(norm, abs=1e-4)
    assert gradient.sum().item() == pytest.approx(0.0, abs=1e-12)


def test_gradient_at_two():
    student = Z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(SoftTargets(temperature=2.0), student), student)
    assert gradient[0].tolist() == pytest.approx([-0.311467, 0.279850, 0.031617], abs=1e-6)


def test_hintons_sum():
    total = value(0.7 * SoftTargets(temperature=2.0) + 0.3 * Labels())
    assert total.item() == pytest.approx(0.488443, abs=1e-6)


def test_a_weight_of_zero_is_plain_fine_tuning_bit_for_bit():
    z = Z.float().requires_grad_()
    plain = torch.nn.functional.cross_entropy(z, torch.tensor([0]))
    blended = value(1.0 * Labels() + 0.0 * SoftTargets(temperature=2.0), z, V.float())
    assert torch.equal(blended, plain)
    assert torch.equal(*(torch.autograd.grad(total, z)[0] for total in (blended, plain)))


def test_shifting_all_logits_changes_nothing():
    objective = SoftTargets(temperature=3.0)
    assert value(objective, Z + 7).item() == pytest.approx(value(objective).item(), abs=1e-12)
    assert value(objective, Z, V - 5).item() == pytest.approx(value(objective).item(), abs=1e-12)


def test_binary_kl_is_the_kl_of_two_sided_distributions():
    t, s = torch.randn(2, 6, 4, dtype=torch.float64)
    pairs = [torch.stack([x, torch.zeros_like(x)], -1) / 1.0 for x in (t, s)]
    assert torch.allclose(functional.binary_kl(t, s, 2.0), functional.kl(*pairs, 2.0).sum(-1), atol=1e-12)


def test_soft_targets_of_several_labels_are_t_squared_times_the_mean_over_labels():
    task = TaskInfo(kind="multilabel", labels=("a", "b", "c"))
    rows = Batch(task, torch.tensor([1, 2]), torch.zeros(2, 3), torch.tensor([True, False]))
    teacher = [[2.0, 1.0, 0.1], [-1.0, 0.5, 3.0]]
    student = [[1.0, 1.5, 0.0], [0.0, -2.0, 1.0]]

    def divergence(t, s):
        """Of two coins."""
        p, q = (1 / (1 + exp(-x / 2.0)) for x in (t, s))
        return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))

    each = [divergence(t, s) for ts, ss in zip(teacher, student, strict=True) for t, s in zip(ts, ss, strict=True)]
    given = (torch.tensor(x, dtype=torch.float64) for x in (student, teacher))
    found = value(SoftTargets(temperature=2.0), *given, batch=rows).item()
    assert found == pytest.approx(2.0**2 * sum(each) / (2 * 3), rel=1e-9)


def test_logit_regression_is_the_mean_over_outputs():
    assert value(LogitRegression()).item() == pytest.approx((1.0 + 0.25 + 0.01) / 3, abs=1e-12)


def test_half_precision_logits_are_widened():
    wide = functional.kl(V.float() * 100, Z.float() * 100, 0.5)
    assert torch.isfinite(functional.kl(V.half() * 100, Z.half() * 100, 0.5)).all()
    assert functional.kl(V.half() * 100, Z.half() * 100, 0.5).item() == pytest.approx(wide.item(), rel=1e-2)


def test_a_class_the_teacher_rules_out_costs_nothing():
    ruled_out = V.clone()
    ruled_out[0, 2] = -torch.inf
    student = Z.clone().requires_grad_()
    divergence = functional.kl(ruled_out, student)
    (gradient,) = torch.autograd.grad(divergence.sum(), student)
    assert torch.isfinite(divergence).all()
    assert torch.isfinite(gradient).all()
