from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.task import TaskInfo
from limbeck.measure.fidelity import disagreements, fidelity
from limbeck.measure.quality import quality

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


def part_ways() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes, 100 rows: on 90 the teacher alone is right and both are sure; on 5 the student alone; on 5 both."""
    labels = np.zeros(100, dtype=int)
    student, teacher = np.tile([-4.0, 4.0, -9.0], (100, 1)), np.tile([4.0, -4.0, -9.0], (100, 1))
    student[90:, :2] = [1.0, -1.0]
    teacher[90:95, :2] = [-0.5, 0.5]
    return student, teacher, labels


def test_disagreements_show_both_sides_and_the_surest_first() -> None:
    student, teacher, labels = part_ways()
    texts = [f"text {i}" for i in range(100)]
    found = disagreements(THREE, texts, [], student, teacher, labels, np.ones(100, dtype=bool), most=20)
    assert len(found) == 20
    alone = [row for row in found if row.student == "a"]
    assert sorted(row.text for row in alone) == [f"text {i}" for i in range(90, 95)]
    assert {row.teacher for row in alone} == {"b"}
    sure = [row.student_confidence * row.teacher_confidence for row in found]
    assert sure == sorted(sure, reverse=True)
    assert found[0].teacher_confidence == pytest.approx(special.softmax([4, -4, -9]).max())
    assert {row.label for row in found} == {"a"}


def test_disagreements_without_labels_or_with_pairs() -> None:
    student, teacher, labels = part_ways()
    texts, pairs = ["t"] * 100, [f"pair {i}" for i in range(100)]
    found = disagreements(THREE, texts, pairs, student, teacher, labels, np.zeros(100, dtype=bool), most=1000)
    assert len(found) == 95
    assert {row.label for row in found} == {""}
    assert found[0].pair == "pair 0"


def test_disagreements_of_several_labels_name_the_whole_answer() -> None:
    student, teacher = np.array([[2.0, -2.0, -2.0], [1.0, 1.0, 1.0]]), np.array([[-2.0] * 3, [1.0] * 3])
    (row,) = disagreements(MANY, ["t", "u"], [], student, teacher, np.array([[1, 0, 1], [0, 0, 0]]), np.ones(2, bool))
    assert (row.text, row.student, row.teacher, row.label) == ("t", "x", "(none)", "x, z")
    assert row.student_confidence == pytest.approx(special.expit(2.0) ** 3)


def test_disagreements_of_numbers_are_the_widest_gaps() -> None:
    student, teacher = np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 5.0])
    found = disagreements(NUMBER, ["s", "t", "u"], [], student, teacher, np.array([1.0, 2.0, 4.0]), np.ones(3, bool))
    assert [(row.text, row.student, row.teacher, row.label) for row in found] == [
        ("u", "3", "5", "4"),
        ("s", "1", "1.5", "1"),
    ]
