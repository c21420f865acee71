from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.record import Fidelity
from limbeck.core.task import TaskInfo
from limbeck.measure.fidelity import FidelityMeter, fidelity, sequence_fidelity
from limbeck.measure.quality import quality
from limbeck.measure.translation import BEST, TAUGHT

THREE = TaskInfo(kind="classify", labels=("a", "b", "c"))
MANY = TaskInfo(kind="multilabel", labels=("x", "y", "z"))
NUMBER = TaskInfo(kind="regress")


def sample(task: TaskInfo, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    teacher = rng.normal(size=(n, task.outputs)).astype(np.float32)
    student = teacher + rng.normal(size=teacher.shape).astype(np.float32)
    labels = rng.integers(0, 2, (n, 3)) if task is MANY else rng.integers(0, 3, n)
    return student, teacher, labels, rng.random(n) < 0.7


@pytest.mark.parametrize("task", [THREE, MANY])
def test_accuracy_splits_by_where_the_teacher_is_right(task: TaskInfo) -> None:
    student, teacher, labels, has_label = sample(task)
    found = fidelity(task, student, teacher, labels, has_label)
    share = quality(task, teacher, labels, has_label)[0]["accuracy"]
    assert found.teacher_right_rows + found.teacher_wrong_rows == has_label.sum()
    assert found.teacher_right_rows / has_label.sum() == pytest.approx(share)
    assert found.accuracy_teacher_right is not None
    assert found.accuracy_teacher_wrong is not None
    whole = share * found.accuracy_teacher_right + (1 - share) * found.accuracy_teacher_wrong
    assert whole == pytest.approx(quality(task, student, labels, has_label)[0]["accuracy"])


def test_divergence_is_kl_of_the_teacher_from_the_student() -> None:
    student, teacher, labels, has_label = sample(THREE)
    kl = special.rel_entr(special.softmax(teacher, axis=1), special.softmax(student, axis=1)).sum(1).mean()
    found = fidelity(THREE, student, teacher, labels, has_label)
    assert found.divergence == pytest.approx(kl, rel=1e-5)
    assert found.agreement == (student.argmax(1) == teacher.argmax(1)).mean()


def test_divergence_of_several_labels_is_the_mean_of_binary_ones() -> None:
    student, teacher, labels, has_label = sample(MANY)
    p, q = special.expit(teacher.astype(float)), special.expit(student.astype(float))
    kl = (special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)).mean()
    found = fidelity(MANY, student, teacher, labels, has_label)
    assert found.divergence == pytest.approx(kl)
    assert found.agreement == ((student > 0) == (teacher > 0)).all(1).mean()


@pytest.mark.parametrize("task", [THREE, MANY])
def test_divergence_stays_finite_where_probabilities_vanish(task: TaskInfo) -> None:
    teacher = np.array([[1e4, -1e4, 0.0]], dtype=np.float32)
    found = fidelity(task, -teacher, teacher, np.zeros((1, 3)) if task is MANY else np.zeros(1), np.array([True]))
    # One class: log p(s) of the teacher's class is −2e4. Several: two labels each 1e4 off, the third at 0 equal.
    assert found.divergence == pytest.approx(2e4 if task is THREE else 2e4 / 3)


@pytest.mark.parametrize("task", [THREE, MANY, NUMBER])
def test_a_student_equal_to_its_teacher(task: TaskInfo) -> None:
    _, teacher, labels, has_label = sample(task)
    found = fidelity(task, teacher, teacher, labels, has_label)
    assert found.agreement == pytest.approx(1.0)
    assert found.divergence == 0.0
    if task is not NUMBER:
        assert (found.accuracy_teacher_right, found.accuracy_teacher_wrong) == (1.0, 0.0)


def test_regression_is_compared_by_correlation_and_distance() -> None:
    student, teacher, labels, has_label = sample(NUMBER)
    found = fidelity(NUMBER, student, teacher[:, 0], labels.astype(float), has_label)
    assert found.agreement == pytest.approx(stats.pearsonr(student[:, 0], teacher[:, 0]).statistic, rel=1e-5)
    assert found.divergence == pytest.approx(((student - teacher) ** 2).mean(), rel=1e-5)
    assert found.accuracy_teacher_right is None


def test_without_labels_only_the_two_models_are_compared() -> None:
    student, teacher, labels, has_label = sample(THREE)
    found = fidelity(THREE, student, teacher, np.full_like(labels, -100), np.zeros_like(has_label))
    assert found.agreement > 0
    assert found.teacher_right_rows == found.teacher_wrong_rows == 0
    assert found.accuracy_teacher_right is found.accuracy_teacher_wrong is None


def test_rows_that_do_not_pair_are_refused() -> None:
    student, teacher, labels, has_label = sample(THREE)
    with pytest.raises(MismatchError, match="199"):
        fidelity(THREE, student[1:], teacher, labels, has_label)
    with pytest.raises(DataError, match="no rows"):
        fidelity(THREE, student[:0], teacher[:0], labels[:0], has_label[:0])


def test_logits_in_batches_are_counted_as_rows() -> None:
    student, teacher = (
        torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]),
        torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]),
    )
    labels, has_label = torch.tensor([0, 0, 0]), torch.tensor([True, True, False])
    meter = FidelityMeter()
    for part in (slice(0, 1), slice(1, 3)):
        meter.add(student[part], teacher[part], labels[part], has_label[part])
    found = meter.fidelity
    assert found is not None
    assert found.agreement == 1 / 3
    kl = special.rel_entr(special.softmax(teacher.numpy(), axis=1), special.softmax(student.numpy(), axis=1)).sum(1)
    assert found.divergence == pytest.approx(kl.mean(), rel=1e-6)
    assert (found.teacher_right_rows, found.accuracy_teacher_right) == (2, 0.5)
    assert (found.teacher_wrong_rows, found.accuracy_teacher_wrong) == (0, None)


def test_no_teacher_is_no_fidelity() -> None:
    meter = FidelityMeter()
    meter.add(torch.zeros(2, 2), torch.empty(0), torch.zeros(2).long(), torch.ones(2).bool())
    assert meter.fidelity is None


def statistics(*taught: tuple[float, float]) -> np.ndarray:
    """sentence_statistics of which only (nats, tokens) on the teacher's translations matter."""
    sums = np.zeros((len(taught), BEST + 1))
    sums[:, TAUGHT] = taught
    return sums


def test_translations_are_compared_by_text_and_by_nats() -> None:
    student, teacher = statistics((6.0, 4), (3.0, 2)), statistics((2.0, 4), (1.0, 2))
    found = sequence_fidelity(student, teacher, ["a", "b"], ["a", "c"])
    assert found == Fidelity(agreement=0.5, divergence=1.0)  # (9 − 3) nats over 6 tokens
    black_box = statistics((0, 0), (0, 0))
    assert sequence_fidelity(student, black_box, ["a", "b"], ["a", "c"]) == Fidelity(agreement=0.5, divergence=None)
    assert sequence_fidelity(student, teacher, [], ["a", "c"]) == Fidelity(agreement=None, divergence=1.0)
    assert sequence_fidelity(student, black_box, ["a"], []) is None
    with pytest.raises(MismatchError, match="1 translations and the teacher 2"):
        sequence_fidelity(student, teacher, ["a"], ["a", "c"])
