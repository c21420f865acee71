"""The order of an epoch: a permutation that only seed and epoch decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.task import TaskInfo
from limbeck.data.batches import Buckets, Collator, batches


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 50), max_size=200),
    batch=st.integers(1, 17),
    span=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 50),
    bucket=st.booleans(),
)
def test_every_row_once_and_reproducibly(
    lengths: list[int], batch: int, span: int, seed: int, epoch: int, bucket: bool
) -> None:
    one, other = (Buckets(lengths, batch, seed, span, bucket) for _ in range(2))
    list(other)  # an epoch before leaves no trace
    for sampler in (one, other):
        sampler.set_epoch(epoch)
    order = list(one)
    assert sorted(order) == list(range(len(lengths)))
    assert len(one) == len(lengths)
    assert order == list(other) == list(one)


def test_epochs_and_seeds_differ_and_the_global_generator_is_untouched() -> None:
    lengths = list(range(1, 101))
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    sampler = Buckets(lengths, 8, seed=1)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(tuple(sampler))
    orders.append(tuple(Buckets(lengths, 8, seed=2)))
    assert len(set(orders)) == 4
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_batches_hold_like_lengths_and_the_rest_comes_last() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 1003)
    size = 10
    order = np.array(list(Buckets(lengths.tolist(), size, seed=3)))
    plain = np.array(list(Buckets(lengths.tolist(), size, seed=3, bucket=False)))

    def waste(rows: np.ndarray) -> int:
        batches = lengths[rows[:1000]].reshape(-1, size)
        return int((batches.max(axis=1, keepdims=True) - batches).sum())

    assert waste(order) < waste(plain) / 10
    assert len(order) == 1003
    tops = lengths[order[:1000]].reshape(-1, size).max(axis=1)
    assert (np.diff(tops) < 0).any()  # batches are not in order of length
    assert (np.diff(tops) > 0).any()


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_round_of_a_row_is_told_by_its_index(rounds: int) -> None:
    lengths = [5, 9, 2, 7, 7]
    plain, sampler = Buckets(lengths, 2, seed=4), Buckets(lengths, 2, seed=4, rounds=rounds)
    for epoch in range(7):
        plain.set_epoch(epoch)
        sampler.set_epoch(epoch)
        expected = {0: epoch, 1: 0, 3: epoch % 3}[rounds]
        assert list(sampler) == [expected * 5 + row for row in plain]
        assert len(sampler) == 5


class Versions:
    """Three rows in two versions each: index = version · 3 + row."""

    lengths = [2, 3, 2]

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict:
        length = self.lengths[index % 3]
        return {
            "input_ids": [1] * length,
            "attention_mask": [1] * length,
            "uids": index,
            "labels": 0,
            "has_label": True,
        }


def test_some_indices_come_longest_first_and_else_in_their_order() -> None:
    collator = Collator(0, TaskInfo(kind="classify", labels=("a", "b")))
    found = [batch.uids.tolist() for batch in batches(Versions(), collator, 2, [5, 3, 4])]
    assert found == [[4, 5], [3]]
    assert [batch.uids.tolist() for batch in batches(Versions(), collator, 2)] == [[1, 0], [2]]
    assert list(batches(Versions(), collator, 2, [])) == []
