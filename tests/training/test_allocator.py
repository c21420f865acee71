"""Memory between the steps of a training."""

import resource
import sys

import pytest
import torch

from limbeck.training import allocator
from limbeck.training.allocator import kept_memory

NUMBERS, PAGES = 12_000_000, 48_000_000 // resource.getpagesize()
glibc = pytest.mark.skipif(allocator._glibc() is None, reason="needs glibc")


def faults(steps=10):
    """Pages that the system gave for a block of 48 MB, freed and asked for again, once it had found its place."""
    for _ in range(steps):
        torch.ones(NUMBERS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        torch.ones(NUMBERS)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps


@glibc
def test_a_step_takes_the_memory_of_the_last_one():
    with kept_memory():
        assert faults() < PAGES / 4


@glibc
def test_the_system_has_it_back_afterwards():
    with pytest.raises(ZeroDivisionError), kept_memory():
        _ = 1 / 0
    assert faults() > PAGES / 2


def test_elsewhere_nothing_changes(monkeypatch):
    monkeypatch.setattr(allocator, "_glibc", lambda: None)
    with kept_memory():
        assert torch.ones(3).sum() == 3


def test_it_is_known_where_glibc_is():
    assert allocator._glibc() is None or sys.platform == "linux"
