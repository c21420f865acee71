"""`limbeck.significance` over predictions and logits."""

import numpy as np
import pytest
import torch

import limbeck
from limbeck.core.errors import KnobError

DRAW = np.random.default_rng(0)
LABELS = DRAW.integers(0, 3, 300)
GOOD = np.where(DRAW.random(300) < 0.9, LABELS, (LABELS + 1) % 3)
POOR = np.where(DRAW.random(300) < 0.6, LABELS, (LABELS + 1) % 3)


def test_predictions_and_logits_say_the_same():
    found = limbeck.significance(GOOD, POOR, LABELS, names=("good", "poor"), rounds=1000)
    assert found.difference == pytest.approx((GOOD == LABELS).mean() - (POOR == LABELS).mean())
    assert 0 < found.low < found.difference < found.high
    assert found.sentence.startswith("“good” does better than “poor” by")
    one_hot = [torch.nn.functional.one_hot(torch.tensor(x), 3).float() for x in (GOOD, POOR)]
    again = limbeck.significance(*one_hot, torch.tensor(LABELS), names=("good", "poor"), rounds=1000)
    assert again == found
    assert limbeck.significance(GOOD.tolist(), POOR.tolist(), LABELS.tolist(), rounds=1000).low == found.low


def test_several_seeds_unlabelled_rows_and_other_metrics():
    labels = LABELS.copy()
    labels[:100] = -100
    found = limbeck.significance([GOOD, GOOD], [POOR, GOOD], labels, "f1_macro", rounds=1000)
    assert (found.seeds, found.rows) == (2, 200)
    marks = np.eye(3)[LABELS]
    many = limbeck.significance(np.eye(3, dtype=int)[GOOD], 4.0 * np.eye(3)[POOR] - 2, marks, "f1_micro", rounds=1000)
    assert many.low > 0
    numbers = DRAW.normal(size=300)
    close, far = numbers + 0.1 * DRAW.normal(size=300), numbers + DRAW.normal(size=300)
    assert limbeck.significance(close, far, numbers, "pearson", rounds=1000).low > 0


def test_predictions_have_no_probabilities():
    with pytest.raises(KnobError, match="pass logits"):
        limbeck.significance(GOOD, POOR, LABELS, "nll")
    with pytest.raises(KnobError, match="no metric 'nonsense'"):
        limbeck.significance(GOOD, POOR, LABELS, "nonsense")
