"""`limbeck.loss` over plain tensors against torch's own formulas."""

import pytest
import torch
from torch.nn import functional as F

import limbeck
from examples import example_of
from limbeck.core.errors import MismatchError

torch.manual_seed(0)
STUDENT, TEACHER = torch.randn(2, 5, 3, dtype=torch.float64)
LABELS = torch.tensor([0, 2, -100, 1, -100])


def test_classes_and_rows_without_a_label():
    labels = limbeck.loss(limbeck.Labels(), STUDENT, labels=LABELS)
    assert torch.allclose(labels, F.cross_entropy(STUDENT, LABELS))  # ignores -100
    soft = limbeck.loss(limbeck.SoftTargets(temperature=2), STUDENT, TEACHER)
    expected = F.kl_div(
        (STUDENT / 2).log_softmax(-1), (TEACHER / 2).log_softmax(-1), log_target=True, reduction="batchmean"
    )
    assert torch.allclose(soft, 4 * expected)  # over every row
    both = limbeck.loss(0.3 * limbeck.Labels() + 0.7 * limbeck.SoftTargets(temperature=2), STUDENT, TEACHER, LABELS)
    assert torch.allclose(both, 0.3 * labels + 0.7 * soft)


def test_many_labels_and_numbers():
    marks = torch.tensor([[0.0, 1, 1], [1, 0, 0], [0, 0, 0], [-100, -100, -100], [1, 1, 1]], dtype=torch.float64)
    found = limbeck.loss(limbeck.Labels(), STUDENT, labels=marks)
    kept = marks[:, 0] != -100
    assert torch.allclose(found, F.binary_cross_entropy_with_logits(STUDENT[kept], marks[kept]))
    numbers, gold = STUDENT[:, 0], torch.tensor([1.0, 2, 3, torch.nan, 5], dtype=torch.float64)
    expected = F.mse_loss(numbers[~gold.isnan()], gold[~gold.isnan()])
    assert torch.allclose(limbeck.loss(limbeck.Labels(), numbers, labels=gold), expected)
    assert torch.allclose(limbeck.loss(limbeck.Labels(), numbers[:, None], labels=gold), expected)
    assert torch.allclose(
        limbeck.loss(limbeck.LogitRegression(), numbers, TEACHER[:, 0]), F.mse_loss(numbers, TEACHER[:, 0])
    )


def test_tokens_flat_or_by_text():
    student, teacher = torch.randn(2, 6, 11)
    words = torch.tensor([3, -100, 0, 10, -100, 5])
    objective = 0.5 * limbeck.LanguageModeling() + 0.5 * limbeck.WordKD()
    found = limbeck.loss(objective, student, teacher, words)
    kl = F.kl_div(student.log_softmax(-1), teacher.log_softmax(-1), log_target=True, reduction="batchmean")
    assert torch.allclose(found, 0.5 * F.cross_entropy(student, words) + 0.5 * kl)
    again = limbeck.loss(objective, student.view(2, 3, 11), teacher.view(2, 3, 11), words.view(2, 3))
    assert torch.equal(found, again)


def test_only_the_student_gets_a_gradient():
    student, teacher = STUDENT.clone().requires_grad_(), TEACHER.clone()
    limbeck.loss(limbeck.SoftTargets(), student, teacher).backward()
    assert student.grad.abs().sum() > 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(MismatchError, match="teacher's logits"):
        limbeck.loss(limbeck.SoftTargets(), STUDENT)
    with pytest.raises(MismatchError, match="teacher's hidden"):
        limbeck.loss(limbeck.TinyBERT(attention=0.0), STUDENT, TEACHER)
    with pytest.raises(MismatchError, match="use 'logits'"):
        limbeck.loss(limbeck.SoftTargets(), STUDENT[:, 0], TEACHER[:, 0])


def test_its_example_runs():
    exec(example_of(limbeck.loss.__doc__), {})
