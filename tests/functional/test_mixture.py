"""Reverse, skewed and Jensen–Shannon divergences against numbers computed by hand and by float64."""

import math

import pytest
import torch

from limbeck.functional.divergence import jsd, kl_family, scaled_jsd, skewed_kl

P = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
Q = torch.tensor([[0.3, 0.4, 0.3]], dtype=torch.float64)
KNOBS = [(reverse, skew) for reverse in (0.0, 0.3, 1.0) for skew in (0.0, 0.1, 0.9)]


def plain_kl(a, b):
    return (a * (a / b).log()).sum(-1)


def family(p, q, reverse, skew):
    forward = plain_kl(p, skew * p + (1 - skew) * q)
    return (1 - reverse) * forward + reverse * plain_kl(q, (1 - skew) * p + skew * q)


def random_pair(dtype=torch.float64, rows=8, words=50):
    torch.manual_seed(0)
    return (2 * torch.randn(2, rows, words, dtype=dtype)).log_softmax(-1)


@pytest.mark.parametrize(
    ("reverse", "skew", "expected"),
    [
        (0.0, 0.0, 0.344618),
        (1.0, 0.0, 0.352653),
        (0.0, 0.1, 0.274162),
        (1.0, 0.1, 0.277485),
        (0.0, 0.5, 0.085123),
        (1.0, 0.5, 0.083465),
        (0.5, 0.5, 0.084294),
        (0.0, 1.0, 0.0),
        (1.0, 1.0, 0.0),
    ],
)
def test_the_family(reverse, skew, expected):
    assert kl_family(P.log(), Q.log(), reverse, skew).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("beta", "expected"), [(0.5, 0.084294), (0.1, 0.030716), (0.9, 0.031253)])
def test_the_generalised_jsd(beta, expected):
    assert jsd(P.log(), Q.log(), beta).item() == pytest.approx(expected, abs=1e-6)
    assert jsd(Q.log(), P.log(), 1 - beta).item() == pytest.approx(expected, abs=1e-6)


def test_the_unscaled_jsd_vanishes_at_the_ends():
    assert jsd(P.log(), Q.log(), 0.001).item() / 0.001 == pytest.approx(0.344235, abs=1e-6)
    assert jsd(P.log(), Q.log(), 0.0).item() == jsd(P.log(), Q.log(), 1.0).item() == 0


@pytest.mark.parametrize(("reverse", "skew"), KNOBS)
def test_any_row_equals_the_reference(reverse, skew):
    log_p, log_q = random_pair()
    expected = family(log_p.exp(), log_q.exp(), reverse, skew)
    assert torch.allclose(kl_family(log_p, log_q, reverse, skew), expected, atol=1e-12)
    assert torch.allclose(
        kl_family(log_p.float(), log_q.float(), reverse, skew).double(), expected, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("beta", [0.0, 1e-6, 1e-3, 0.3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_scaled_jsd_keeps_its_digits_up_to_the_ends(beta, dtype):
    log_p, log_q = random_pair()
    p, q = log_p.exp(), log_q.exp()
    if beta in (0.0, 1.0):
        expected = plain_kl(p, q) if beta == 0 else plain_kl(q, p)
    else:
        # (1/β) Σ q φ(β(p/q − 1)) with φ(x) = x − log(1 + x): the reference avoids the cancellation in another way
        x, y = beta * (p / q - 1), (1 - beta) * (q / p - 1)
        expected = (q * (x - x.log1p())).sum(-1) / beta + (p * (y - y.log1p())).sum(-1) / (1 - beta)
    found = scaled_jsd(log_p.to(dtype), log_q.to(dtype), beta).double()
    assert torch.allclose(found, expected, rtol=1e-8 if dtype == torch.float64 else 1e-4)


@pytest.mark.parametrize("knob", ["reverse", "skew", "beta"])
def test_a_small_turn_of_a_knob_is_a_small_change(knob):
    log_p, log_q = random_pair()

    def at(value):
        if knob == "beta":
            return scaled_jsd(log_p, log_q, value)
        return kl_family(log_p, log_q, **{knob: value})

    for end in (0.0, 0.5, 1.0):
        near = end + 1e-8 if end < 1 else end - 1e-8
        assert (at(end) - at(near)).abs().max() < 1e-3


def test_bounds_and_symmetry():
    log_p, log_q = random_pair()
    far_p, far_q = (1e3 * torch.randn(2, 8, 50, dtype=torch.float64)).log_softmax(-1)
    for a, b in ((log_p, log_q), (far_p, far_q)):
        middle = kl_family(a, b, 0.5, 0.5)
        assert torch.allclose(middle, kl_family(b, a, 0.5, 0.5), atol=1e-12)
        assert torch.allclose(middle, jsd(a, b, 0.5), atol=1e-12)
        assert (middle <= math.log(2) + 1e-9).all()
        for skew in (0.01, 0.1, 0.5):
            assert (skewed_kl(a, b, skew) <= -math.log(skew) + 1e-9).all()


@pytest.mark.parametrize(("reverse", "skew"), KNOBS)
def test_equality_is_zero_in_value_and_slope(reverse, skew):
    log_p, _ = random_pair()
    student = log_p.clone().requires_grad_()
    found = kl_family(log_p, student.log_softmax(-1), reverse, skew)
    found.sum().backward()
    assert found.abs().max() < 1e-12
    assert student.grad.abs().max() < 1e-12


@pytest.mark.parametrize("divergence", [kl_family, jsd, scaled_jsd, lambda p, q: kl_family(p, q, 0.5, 0.5)])
def test_gradients(divergence):
    p, q = torch.randn(2, 3, 6, dtype=torch.float64)
    q.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: divergence(p.log_softmax(-1), x.log_softmax(-1)), q)


@pytest.mark.parametrize(("reverse", "skew"), KNOBS)
def test_extremes_stay_finite(reverse, skew):
    teacher = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, -torch.inf]])
    student = torch.tensor([[-1e4, 1e4, 0.0], [-1e4, 1e4, 0.0], [1.0, 0.0, -torch.inf]], requires_grad=True)
    found = kl_family(teacher.log_softmax(-1), student.log_softmax(-1), reverse, skew)
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(student.grad).all()
