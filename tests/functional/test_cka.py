"""CKA against its definition, written out over kernels in float64."""

import numpy as np
import pytest
import torch

from limbeck.functional.cka import linear_cka


def features(rows=9, width=5, other=7, seed=0):
    torch.manual_seed(seed)
    return torch.randn(rows, width, dtype=torch.float64) + 3, torch.randn(rows, other, dtype=torch.float64) - 1


def biased_hsic(k, line):
    n = len(k)
    h = np.eye(n) - 1 / n
    return np.trace(k @ h @ line @ h) / (n - 1) ** 2


def unbiased_hsic(k, line):
    """Song et al.: the mean of k_ij·l_ij + k_ij·l_qr − 2·k_ij·l_iq over draws of different rows."""
    n = len(k)
    total, count = 0.0, 0
    for i in range(n):
        for j in range(n):
            for q in range(n):
                for r in range(n):
                    if len({i, j, q, r}) == 4:
                        total += k[i, j] * line[i, j] + k[i, j] * line[q, r] - 2 * k[i, j] * line[i, q]
                        count += 1
    return total / count


@pytest.mark.parametrize(("unbiased", "hsic"), [(True, unbiased_hsic), (False, biased_hsic)])
def test_it_is_the_definition_over_kernels(unbiased, hsic):
    x, y = features()
    y[:, :3] += 2 * x[:, :3]
    k, line = ((side @ side.T).numpy() for side in (x, y))
    expected = hsic(k, line) / np.sqrt(hsic(k, k) * hsic(line, line))
    assert 0.1 < expected < 0.99
    assert linear_cka(x, y, unbiased).item() == pytest.approx(expected, abs=1e-12)
    assert linear_cka(y, x, unbiased).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("unbiased", [True, False])
def test_rotation_scale_and_shift_change_nothing_but_other_maps_do(unbiased):
    x, y = features()
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0]
    moved = 1e3 * x @ rotation + 4
    assert linear_cka(x, moved, unbiased).item() == pytest.approx(1.0, abs=1e-10)
    assert linear_cka(moved, y, unbiased).item() == pytest.approx(linear_cka(x, y, unbiased).item(), abs=1e-10)
    bent = x * torch.tensor([10.0, 1, 1, 1, 0.1], dtype=torch.float64)
    assert linear_cka(x, bent, unbiased).item() < 0.95


def test_few_rows_of_great_width_look_alike_to_the_biased_one_only():
    torch.manual_seed(0)
    pairs = [torch.randn(2, 32, 768) for _ in range(10)]
    assert np.mean([linear_cka(x, y, False).item() for x, y in pairs]) == pytest.approx(0.96, abs=0.01)
    assert np.mean([linear_cka(x, y, True).item() for x, y in pairs]) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_their_ranges(seed):
    x, y = features(seed=seed)
    assert 0 <= linear_cka(x, y, False).item() <= 1
    assert -1 <= linear_cka(x, y, True).item() <= 1


@pytest.mark.parametrize("unbiased", [True, False])
def test_at_equality_there_is_no_gradient(unbiased):
    x, _ = features()
    student = x.clone().requires_grad_()
    alike = linear_cka(student, x, unbiased)
    alike.backward()
    assert alike.item() == pytest.approx(1.0, abs=1e-12)
    assert student.grad.abs().max().item() < 1e-12


def test_the_gradient_is_that_of_the_formula():
    x, y = (side.requires_grad_() for side in features(rows=6, width=3, other=4))
    for unbiased in (True, False):
        assert torch.autograd.gradcheck(lambda a, b, u=unbiased: linear_cka(a, b, u), (x, y))


def test_single_precision_and_autocast_lose_nothing():
    torch.manual_seed(0)
    x = 5 + torch.randn(64, 300)
    y = x[:, :40] + 0.5 * torch.randn(64, 40)
    exact = linear_cka(x.double(), y.double()).item()
    assert linear_cka(x, y).item() == pytest.approx(exact, abs=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear_cka(x, y).item() == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(("unbiased", "enough"), [(True, 4), (False, 2)])
def test_too_few_rows_say_nothing(unbiased, enough):
    x, y = (side.requires_grad_() for side in features())
    alike = linear_cka(x[: enough - 1], y[: enough - 1], unbiased)
    alike.backward()
    assert alike.item() == 1.0
    assert x.grad.abs().sum().item() == 0.0
    assert torch.isfinite(linear_cka(x[:enough], y[:enough], unbiased))


@pytest.mark.parametrize("unbiased", [True, False])
def test_features_without_variance_are_like_nothing_and_give_no_nan(unbiased):
    _, y = features()
    flat = torch.ones(9, 5, dtype=torch.float64, requires_grad=True)
    alike = linear_cka(flat, y, unbiased)
    alike.backward()
    assert alike.item() == 0.0
    assert torch.isfinite(flat.grad).all()
