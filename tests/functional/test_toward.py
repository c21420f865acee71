"""A top drawn towards its label: exact at both ends, and in between the mixture it says it is."""

import pytest
import torch

from limbeck.functional.truncated import mix_with_labels, top_of, truncated_loss

WORDS, ROWS = 11, 6


@pytest.fixture
def case():
    draw = torch.Generator().manual_seed(3)
    teacher = 2 * torch.randn(ROWS, WORDS, generator=draw, dtype=torch.float64)
    student = torch.randn(ROWS, WORDS, generator=draw, dtype=torch.float64)
    inside, outside = teacher.argmax(-1), teacher.argmin(-1)
    labels = torch.where(torch.arange(ROWS) % 2 == 0, inside, outside)
    return teacher, student, labels


def whole(share):
    return torch.full((ROWS,), share, dtype=torch.float64)


def gradient(loss, student):
    student = student.clone().requires_grad_()
    value = loss(student.log_softmax(-1))
    value.sum().backward()
    return value.detach(), student.grad


@pytest.mark.parametrize("k", [1, 4, WORDS])
@pytest.mark.parametrize("form", ["tail", "renorm", "raw"])
def test_a_teacher_that_is_off_leaves_the_log_probability_of_the_label(case, form, k):
    teacher, student, labels = case
    sure = mix_with_labels(top_of(teacher, k), labels, whole(0.0))
    assert (sure.ids[:, 0] == labels).all()
    assert (sure.log_p[:, 0] == 0).all()
    found, slope = gradient(lambda log_q: truncated_loss(form, sure, log_q), student)
    plain, expected = gradient(lambda log_q: -log_q.gather(-1, labels[:, None])[:, 0], student)
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["tail", "renorm", "raw"])
def test_a_student_as_sure_as_the_label_costs_nothing_and_is_not_moved(case, form):
    teacher, student, labels = case
    sure = mix_with_labels(top_of(teacher, 4), labels, whole(0.0))
    agreeing = student.scatter(-1, labels[:, None], 60.0)
    found, slope = gradient(lambda log_q: truncated_loss(form, sure, log_q), agreeing)
    torch.testing.assert_close(found, torch.zeros(ROWS, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


def test_in_float32_nothing_is_lost_but_rounding(case):
    teacher, student, labels = case
    sure = mix_with_labels(top_of(teacher.float(), 4), labels, whole(0.0).float())
    for scale in (1.0, 30.0, 300.0):
        found, slope = gradient(lambda log_q: truncated_loss("tail", sure, log_q), scale * student.float())
        plain, expected = gradient(lambda log_q: -log_q.gather(-1, labels[:, None])[:, 0], scale * student.float())
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(slope, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_of_the_whole_vocabulary_it_is_the_mixture(case, temperature):
    teacher, _, labels = case
    share = torch.tensor([0.0, 0.1, 0.4, 0.9, 1.0, 0.5], dtype=torch.float64)
    mixed = mix_with_labels(top_of(teacher, WORDS, temperature), labels, share)
    certain = torch.nn.functional.one_hot(labels, WORDS).double()
    expected = share[:, None] * teacher.softmax(-1) + (1 - share[:, None]) * certain
    found = torch.zeros_like(expected).scatter(-1, mixed.ids, mixed.log_p.exp())
    torch.testing.assert_close(found, expected)
    assert (mixed.log_p.diff(dim=-1) <= 0).all(), "the most probable word comes first"
    if temperature != 1:
        torch.testing.assert_close(mixed.softened, (expected ** (1 / temperature)).sum(-1).log())


def test_the_loss_is_shared_out_between_teacher_and_label(case):
    teacher, student, labels = case
    top = top_of(teacher, WORDS)
    _, both = gradient(lambda log_q: truncated_loss("tail", mix_with_labels(top, labels, whole(0.3)), log_q), student)
    _, taught = gradient(lambda log_q: truncated_loss("tail", top, log_q), student)
    _, plain = gradient(lambda log_q: -log_q.gather(-1, labels[:, None])[:, 0], student)
    torch.testing.assert_close(both, 0.3 * taught + 0.7 * plain)


def test_a_label_outside_the_top_takes_the_last_place_and_mass_is_kept(case):
    teacher, _, labels = case
    top = top_of(teacher, 4)
    mixed = mix_with_labels(top, labels, whole(0.6))
    for row in range(ROWS):
        words = set(top.ids[row].tolist())
        label = int(labels[row])
        expected = words if label in words else {*top.ids[row, :-1].tolist(), label}
        assert set(mixed.ids[row].tolist()) == expected
    inside = (top.ids == labels[:, None]).any(-1)
    torch.testing.assert_close(mixed.log_p.exp().sum(-1)[inside], (0.6 * top.log_p.exp().sum(-1) + 0.4)[inside])
    assert (mixed.log_p.exp().sum(-1) < 1).all()


def test_rows_of_a_teacher_that_is_on_stay_bit_for_bit(case):
    teacher, _, labels = case
    top = top_of(teacher, 4, 2.0)
    share = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.5, 1.0], dtype=torch.float64)
    mixed = mix_with_labels(top, labels, share)
    on = share == 1
    for name in ("ids", "log_p", "log_sum", "softened"):
        assert torch.equal(getattr(mixed, name)[on], getattr(top, name)[on])
    assert mix_with_labels(top, labels, whole(1.0)) is top
