"""Integer quantisation by methods.md §17."""

import pytest
import torch

from limbeck.core.integers import dequantise, pack, unpack
from limbeck.functional.quantise import quantise

ROW = torch.tensor([[-1.0, 0.0, 0.5, 2.0]], dtype=torch.float64)


def test_affine_by_hand():
    found = quantise(ROW, affine=True)
    assert found.codes.tolist() == [[-128, -43, -1, 127]]
    assert (float(found.scales), found.zeros.tolist()) == (pytest.approx(0.0117647, abs=1e-7), [[-43]])
    assert found.numbers.tolist()[0] == pytest.approx([-1, 0, 0.494118, 2], abs=1e-6)


def test_symmetric_by_hand():
    found = quantise(ROW)
    assert found.codes.tolist() == [[-64, 0, 32, 127]]  # −63.5 to even
    assert (float(found.scales), found.zeros) == (pytest.approx(0.0157480, abs=1e-7), None)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [0, 32, 7])  # 7 does not divide the width
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_error_is_at_most_half_a_step_and_zero_is_exact(bits, group, affine, shift):
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(bits), dtype=torch.float64) + shift
    x[:, ::5], x[3], x[4, 32:] = 0, 0, 0
    found = quantise(x, bits, group, affine)
    steps = dequantise(torch.ones_like(found.codes), found.scales, None, group)
    assert ((found.numbers - x).abs() <= steps / 2 * (1 + 1e-12)).all()
    assert (found.numbers[x == 0] == 0).all()
    lowest = -(2 ** (bits - 1)) if affine else 1 - 2 ** (bits - 1)
    assert lowest <= int(found.codes.min())
    assert int(found.codes.max()) <= 2 ** (bits - 1) - 1
    assert found.scales.shape == (9, 1 if not group else -(-64 // group))


def test_a_channel_with_large_weights_does_not_coarsen_another():
    x = torch.tensor([[1e-3, -2e-3], [1e3, 5e2]])
    assert ((quantise(x).numbers - x).abs() <= x.abs().amax(1, keepdim=True) / 253.9).all()


def test_what_is_quantised_stays_as_it_is():
    once = quantise(torch.randn(5, 40, generator=torch.Generator().manual_seed(0)), 4, 32)
    again = quantise(once.numbers, 4, 32)
    assert torch.equal(once.codes, again.codes)


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_two_codes_share_a_byte(width):
    codes = torch.randint(-8, 8, (3, 5, width), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    packed = pack(codes)
    assert (packed.dtype, packed.shape) == (torch.uint8, (3, 5, -(-width // 2)))
    assert torch.equal(unpack(packed, width), codes)


def test_the_first_of_a_pair_is_in_the_lower_half():
    assert pack(torch.tensor([[-8, 7], [0, -7]], dtype=torch.int8)).tolist() == [[0xF0], [0x18]]
