"""The bias that classes need: by hand, and against trying every shift."""

import numpy as np
import pytest

from limbeck.measure.bias_shift import best_shift, errors_of, shifted


def test_by_hand():
    """Class 2 lies 1 and 3 below the others on its own rows, and 5 below on another's: 4 is the middle of 3 and 5."""
    logits = np.array([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    labels = np.array([2, 2, 0, 1])
    assert errors_of(logits, labels) == 2
    found = best_shift(logits, labels, [2])
    assert (found.by, found.errors) == (4.0, 0)
    assert errors_of(shifted(logits, [2], 4.0), labels) == 0
    assert errors_of(shifted(logits, [2], 2.0), labels) == 1


def test_nothing_to_gain_leaves_the_bias_alone():
    logits, labels = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([0, 1])
    assert best_shift(logits, labels, [1]).by == 0.0


def test_two_classes_go_down_together():
    logits = np.array([[4.0, 5.0, 1.0], [4.0, 0.0, 1.0], [9.0, 0.0, 1.0]])
    found = best_shift(logits, np.array([2, 2, 0]), [0, 1])
    assert (found.by, found.errors) == (-6.0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_no_shift_of_a_grid_has_fewer_errors(seed):
    draw = np.random.default_rng(seed)
    logits, labels = draw.normal(size=(60, 4)), draw.integers(0, 4, 60)
    logits[:20] = logits[20:40]  # equal rows: equal steps
    classes = [[3], [0, 2]][seed % 2]
    found = best_shift(logits, labels, classes)
    grid = [errors_of(shifted(logits, classes, by), labels) for by in np.arange(-8, 8, 0.003)]
    assert found.errors == min(grid)
    assert found.errors == errors_of(shifted(logits, classes, found.by), labels)


@pytest.mark.parametrize("classes", [[], [0, 1]])
def test_all_classes_or_none_cannot_shift(classes):
    assert best_shift(np.array([[0.0, 1.0]]), np.array([0]), classes).by == 0.0
