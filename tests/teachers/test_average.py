"""Several teachers as one: the mean of their probabilities, against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Teacher, Trace, Want
from limbeck.teachers.average import AverageTeacher, Voice, average

LABELS = ("a", "b", "c")
KINDS = ("classify", "multilabel", "regress")


class Fixed(Teacher):
    has = Want.LOGITS

    def __init__(self, logits):
        self.logits = torch.as_tensor(logits)

    def answer(self, batch):
        return Trace(logits=self.logits)


def batch(kind="classify", rows=4):
    task = TaskInfo(kind=kind, labels=() if kind == "regress" else LABELS)
    return Batch(task, torch.arange(rows), torch.zeros(rows), torch.zeros(rows, dtype=torch.bool))


def drawn(seed, kind="classify"):
    width = 1 if kind == "regress" else 3
    return 3 * torch.randn(4, width, generator=torch.Generator().manual_seed(seed))


def answer(voices, kind="classify"):
    return AverageTeacher(voices).answer(batch(kind)).logits


def test_the_mean_of_softmaxes_in_double_precision():
    z = [drawn(seed).double().numpy() for seed in (0, 1)]
    p = [np.exp(one / heat) / np.exp(one / heat).sum(1, keepdims=True) for one, heat in zip(z, (1.0, 2.0), strict=True)]
    mean = 0.25 * p[0] + 0.75 * p[1]
    scale = 0.25 * np.log(np.exp(z[0]).sum(1)) + 0.75 * np.log(np.exp(z[1] / 2).sum(1))
    found = average([torch.from_numpy(z[0]), torch.from_numpy(z[1] / 2)], [0.25, 0.75], "classify").numpy()
    np.testing.assert_allclose(found, np.log(mean) + scale[:, None], rtol=0, atol=1e-13)
    voices = [Voice(Fixed(z[0]), 1.0), Voice(Fixed(z[1]), 3.0, temperature=2.0)]
    np.testing.assert_allclose(answer(voices).softmax(-1).numpy(), mean, rtol=0, atol=1e-6)


def test_a_mean_by_hand():
    """Probabilities 0.8, 0.2 and 0.4, 0.6: their mean is 0.6, 0.4."""
    first, second = np.log([[0.8, 0.2]]), np.log([[0.4, 0.6]])
    found = average([torch.from_numpy(first), torch.from_numpy(second)], [0.5, 0.5], "classify")
    np.testing.assert_allclose(found.exp().numpy(), [[0.6, 0.4]], atol=1e-14)
    labels = [torch.from_numpy(np.log(p) - np.log1p(-p)) for p in (np.array([[0.8]]), np.array([[0.4]]))]
    np.testing.assert_allclose(average(labels, [0.25, 0.75], "multilabel").sigmoid().numpy(), [[0.5]], atol=1e-14)
    numbers = [torch.tensor([[2.0]]), torch.tensor([[4.0]])]
    assert average(numbers, [0.25, 0.75], "regress").tolist() == [[3.5]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_teachers_does_not_matter(kind):
    voices = [Voice(Fixed(drawn(seed, kind)), weight) for seed, weight in ((0, 1.0), (1, 1.0), (2, 3.0))]
    torch.testing.assert_close(answer(voices, kind), answer(voices[::-1], kind), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_zero_drops_one(kind):
    kept = [Voice(Fixed(drawn(0, kind)), 1.0), Voice(Fixed(drawn(1, kind)), 2.0)]
    more = [kept[0], Voice(Fixed(torch.full_like(drawn(0, kind), torch.nan)), 0.0), kept[1]]
    assert torch.equal(answer(more, kind), answer(kept, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_one_teacher_twice_is_that_teacher(kind):
    logits = drawn(5, kind)
    for weights in ((1.0, 1.0), (1.0, 3.0)):
        found = answer([Voice(Fixed(logits), weight) for weight in weights], kind)
        torch.testing.assert_close(found, logits, rtol=0, atol=1e-6)


def test_large_logits_stay_finite():
    sure = torch.tensor([[500.0, -500.0, 0.0]])
    for kind in KINDS[:2]:
        found = AverageTeacher([Voice(Fixed(sure)), Voice(Fixed(-sure))]).answer(batch(kind, rows=1)).logits
        assert found.isfinite().all()


def test_classes_in_another_order():
    logits = drawn(1)
    found = answer([Voice(Fixed(logits)), Voice(Fixed(logits[:, [2, 0, 1]]), order=[1, 2, 0])])
    torch.testing.assert_close(found, logits, rtol=0, atol=1e-6)
