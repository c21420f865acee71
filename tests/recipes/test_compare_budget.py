"""Time is shared fairly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.recipes.compare_budget import Stopwatch, _shorter, shares
from limbeck.train.schedule import Schedule


@pytest.mark.parametrize(
    ("needs", "budget", "found"),
    [
        ([10, 10], 30, [10, 10]),
        ([10, 10], 10, [5, 5]),
        ([2, 10, 30], 22, [2, 10, 10]),
        ([30, 2, 10], 12, [5, 2, 5]),
        ([0, 4], 2, [0, 2]),
        ([3, 3], 0, [0, 0]),
    ],
)
def test_what_one_does_not_need_goes_to_the_others(needs, budget, found):
    assert shares(needs, budget) == pytest.approx(found)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=12), st.floats(0, 1e5))
def test_shares_fit_and_nobody_gets_more_than_it_needs(needs, budget):
    found = shares(needs, budget)
    assert sum(found) <= budget * (1 + 1e-9) + 1e-9
    assert all(share <= need for share, need in zip(found, needs, strict=True))
    wanting = [share for share, need in zip(found, needs, strict=True) if share < need * (1 - 1e-9)]
    assert all(share >= max(found) * (1 - 1e-6) - 1e-9 for share in wanting)


def test_a_shorter_schedule_keeps_its_shape():
    whole = Schedule(epochs=4.0, batch_size=10, warmup=0.1)
    assert _shorter(whole, 1.0, rows=100) == whole
    half = _shorter(whole, 0.5, rows=100)
    assert (half.epochs, half.evals_per_epoch, half.warmup, half.decay) == (2.0, 2, 0.1, "linear")
    least = _shorter(whole, 0.0, rows=100)
    assert (least.epochs, least.evals_per_epoch) == (0.1, 10)  # one step, and it is looked at


def test_the_first_steps_do_not_count():
    watch = Stopwatch(phases=2)
    watch.marks = [[0.0, 9.0, 10.0, 11.0, 12.0], [0.0, 5.0]]
    assert watch.seconds_per_step() == [1.0, 5.0]
