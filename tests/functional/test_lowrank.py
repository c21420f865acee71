"""Low rank by methods.md §18: the optimum, its error, and how ranks are chosen."""

import pytest
import torch

from limbeck.core.errors import KnobError
from limbeck.functional.lowrank import cost, decompose, largest_rank, rank_within, ranks_within

SHAPES = [(12, 20), (20, 12), (16, 16)]


def matrix(rows, columns, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def product(weight, rank, *how):
    left, right = decompose(weight, *how).factors(weight, rank)
    return left @ right


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seen", [0, 5, 40])
def test_at_full_rank_it_is_the_matrix_whatever_was_seen(shape, seen):
    weight, x = matrix(*shape), matrix(shape[1], seen, seed=1)
    how = (x @ x.T,) if seen else ()
    assert (product(weight, min(shape), *how) - weight).abs().max() < 1e-12
    single = weight.float()
    assert (product(single, min(shape), *how) - single).abs().max() < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_it_is_the_truncated_svd_with_balanced_factors(shape):
    weight = matrix(*shape)
    u, sigma, v = torch.linalg.svd(weight, full_matrices=False)
    found = decompose(weight)
    torch.testing.assert_close(found.gains, sigma**2)
    for rank in (1, 3, 12):
        left, right = found.factors(weight, rank)
        torch.testing.assert_close(left @ right, u[:, :rank] * sigma[:rank] @ v[:rank])
        torch.testing.assert_close(left.abs(), (u[:, :rank] * sigma[:rank].sqrt()).abs())
        torch.testing.assert_close(right.abs(), (sigma[:rank].sqrt()[:, None] * v[:rank]).abs())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_squared_error_is_the_sum_of_the_tail_and_never_grows(shape):
    weight, found = matrix(*shape), decompose(matrix(*shape))
    errors = [float((product(weight, rank) - weight).square().sum()) for rank in range(1, 13)]
    tails = [float(found.gains[rank:].sum()) for rank in range(1, 13)]
    assert max(abs(a - b) for a, b in zip(errors, tails, strict=True)) < 1e-11
    assert errors == sorted(errors, reverse=True)
    assert found.error(3) == pytest.approx((errors[2] / float(weight.square().sum())) ** 0.5)


def test_data_aware_it_is_svd_of_the_whitened_matrix():
    """As the paper has it: X·Xᵀ = S·Sᵀ by Cholesky, the SVD of W·S, then S⁻¹."""
    weight, x = matrix(12, 20), matrix(20, 50, seed=1) * torch.linspace(0.1, 3, 20)[:, None]
    s = torch.linalg.cholesky(x @ x.T)
    u, sigma, v = torch.linalg.svd(weight @ s, full_matrices=False)
    for rank in (1, 4, 9):
        expected = u[:, :rank] * sigma[:rank] @ v[:rank] @ s.inverse()
        torch.testing.assert_close(product(weight, rank, x @ x.T, 0.0), expected)
    torch.testing.assert_close(decompose(weight, x @ x.T, 0.0).gains, sigma**2)


@pytest.mark.parametrize("damping", [0.0, 0.01, 1.0])
def test_with_orthonormal_inputs_data_aware_is_plain(damping):
    weight, x = matrix(12, 20), torch.linalg.qr(matrix(20, 20, seed=1)).Q
    torch.testing.assert_close(product(weight, 5, x @ x.T, damping), product(weight, 5))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seen", [3, 8, 100])  # fewer inputs than there are directions, and more
@pytest.mark.parametrize("damping", [0.0, 0.01, 1.0])
def test_on_calibration_data_it_is_never_worse_than_plain(shape, seen, damping):
    weight, x = matrix(*shape), matrix(shape[1], seen, seed=1) * torch.linspace(0.1, 3, shape[1])[:, None]
    for rank in (1, 2, 5, 11):
        whitened, plain = (((product(weight, rank, *how) - weight) @ x).norm() for how in ((x @ x.T, damping), ()))
        assert whitened <= plain + 1e-9
        assert decompose(weight, x @ x.T, damping).error(rank) == pytest.approx(
            float(whitened / (weight @ x).norm()), abs=1e-7
        )


def test_of_a_table_each_row_counts_as_often_as_it_occurs():
    table, counts = matrix(30, 8), torch.arange(30, dtype=torch.float64)
    words, back = decompose(table.T, counts, 0.0).table(table.T, 3)
    assert (words.shape, back.shape) == ((30, 3), (8, 3))
    root = counts.sqrt()[:, None]
    error = float((root * (words @ back.T - table)).square().sum())
    assert error == pytest.approx(float(torch.linalg.svdvals(root * table)[3:].square().sum()))
    assert (words.norm(dim=1) <= table.norm(dim=1) + 1e-12).all()


def test_factors_are_smaller_only_below_mn_over_m_plus_n():
    assert [largest_rank(768, 3072), largest_rank(768, 768), largest_rank(1, 1), largest_rank(2, 2)] == [614, 383, 0, 0]
    for rows, columns in ((768, 3072), (768, 768), (7, 5)):
        rank = largest_rank(rows, columns)
        assert rank * (rows + columns) < rows * columns <= (rank + 1) * (rows + columns)


def test_the_smallest_rank_within_an_error():
    gains = torch.tensor([16.0, 9.0, 4.0, 1.0], dtype=torch.float64)  # 30: tails 30 14 5 1 0
    assert [rank_within(gains, (tail / 30) ** 0.5 + 1e-9) for tail in (14, 5, 1, 0)] == [1, 2, 3, 4]
    assert rank_within(gains, 0.99) == 1
    assert rank_within(torch.zeros(4, dtype=torch.float64), 0.1) == 1


def test_a_budget_goes_where_it_gains_most():
    steep, flat = (torch.tensor(gains, dtype=torch.float64) for gains in ([90, 5, 3, 1, 1], [30, 25, 20, 15, 10]))
    shapes = [(20, 5), (20, 5)]  # 25 parameters a rank, at most 3 ranks; whole 100
    found = {budget: ranks_within([steep, flat], shapes, budget) for budget in (50, 75, 100, 125, 150, 199, 200)}
    assert found[50] == [1, 1]  # 0.9 and 0.3
    assert found[75] == [1, 2]  # 0.25 before 0.05
    assert found[100] == [1, 3]
    assert found[125] in ([1, 3], [1, 0])
    assert found[200] == [0, 0]
    assert all(cost(ranks, shapes) <= budget for budget, ranks in found.items())
    with pytest.raises(KnobError, match="50"):
        ranks_within([steep, flat], shapes, 49)


@pytest.mark.parametrize("ratio", [0.2, 0.4, 0.6, 0.8])
def test_a_budget_is_kept_and_nearly_spent(ratio):
    spread = torch.linspace(0, 1, 60, dtype=torch.float64)
    weights = [matrix(40, 60, seed) * spread**seed for seed in range(6)]
    shapes = [(40, 60)] * 6
    ranks = ranks_within([decompose(weight).gains for weight in weights], shapes, round(ratio * 6 * 2400))
    assert 0 <= ratio * 6 * 2400 - cost(ranks, shapes) < 2 * 100
