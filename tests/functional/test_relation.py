"""Relations between tokens, against loops in float64."""

import math

import pytest
import torch

from limbeck.core.errors import MismatchError
from limbeck.functional.relation import attention_kl, relation, relation_kl

BATCH, HEADS, LENGTH, SIZE = 3, 4, 6, 5
PRESENT = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0]]).bool()


def states(seed=0, heads=HEADS, size=SIZE):
    return torch.randn(BATCH, heads, LENGTH, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def softmax(scores):
    top = max(scores.values())
    powers = {key: math.exp(score - top) for key, score in scores.items()}
    return {key: power / sum(powers.values()) for key, power in powers.items()}


def divergence(p, q):
    return sum(p[key] * math.log(p[key] / q[key]) for key in p)


def reference(scores_of_teacher, scores_of_student, heads):
    """One number per present token, by loops; scores: (text, head, query, key) → number."""
    found = []
    for text in range(BATCH):
        keys = [key for key in range(LENGTH) if PRESENT[text, key]]
        for query in keys:
            sides = [
                [softmax({key: scores(text, head, query, key) for key in keys}) for head in range(heads)]
                for scores in (scores_of_teacher, scores_of_student)
            ]
            found.append(sum(divergence(p, q) for p, q in zip(*sides, strict=True)) / heads)
    return torch.tensor(found, dtype=torch.float64)


def by_product(x, heads):
    """Scores of a relation: the heads side by side, cut anew, one dot product at a time."""

    def scores(text, head, query, key):
        rows = [
            [x[text, own, token, i].item() for own in range(x.shape[1]) for i in range(x.shape[3])]
            for token in (query, key)
        ]
        size = len(rows[0]) // heads
        first, second = (row[head * size : (head + 1) * size] for row in rows)
        return sum(a * b for a, b in zip(first, second, strict=True)) / math.sqrt(size)

    return scores


@pytest.mark.parametrize("heads", [1, 2, 4, 10, 20])
def test_the_relation_of_two_widths_by_loops(heads):
    teacher, student = states(1, heads=8, size=5), states(2)
    expected = reference(by_product(teacher, heads), by_product(student, heads), heads)
    assert torch.allclose(relation_kl(teacher, student, PRESENT, heads), expected, atol=1e-12)


def test_the_attention_by_loops():
    teacher, student = states(1, size=LENGTH), states(2, size=LENGTH)
    expected = reference(lambda *at: teacher[at].item(), lambda *at: student[at].item(), HEADS)
    assert torch.allclose(attention_kl(teacher, student, PRESENT), expected, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 4, 5])
def test_rows_sum_to_one_over_what_is_present(heads):
    found = relation(states(), PRESENT, heads).exp()
    assert found.shape == (BATCH, heads, LENGTH, LENGTH)
    rows = found.transpose(1, 2)[PRESENT]  # [tokens, heads, keys]
    assert torch.allclose(rows.sum(-1), torch.ones_like(rows[..., 0]), atol=1e-12)
    assert (found.transpose(1, 3)[~PRESENT] == 0).all()
    assert relation(states(size=10), PRESENT, heads).shape == found.shape  # whatever the width


def test_a_rotation_within_a_relation_head_changes_nothing():
    x, heads = states(), 2
    size = HEADS * SIZE // heads
    side_by_side = x.transpose(1, 2).flatten(2)
    turns = [torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0] for _ in range(heads)]
    turned = side_by_side @ torch.block_diag(*turns)
    again = turned.unflatten(2, (HEADS, SIZE)).transpose(1, 2)
    assert torch.allclose(relation(again, PRESENT, heads), relation(x, PRESENT, heads), atol=1e-10)
    across = torch.linalg.qr(torch.randn(HEADS * SIZE, HEADS * SIZE, dtype=torch.float64))[0]
    mixed = (side_by_side @ across).unflatten(2, (HEADS, SIZE)).transpose(1, 2)
    assert not torch.allclose(relation(mixed, PRESENT, heads), relation(x, PRESENT, heads), atol=1e-3)


def losses(teacher, student, present=PRESENT):
    """Both losses from queries and keys in one tensor: attention scores are made of its products."""
    scores = [x @ x.flip(1).transpose(2, 3) for x in (teacher, student)]
    return {"attention": attention_kl(*scores, present), "relation": relation_kl(teacher, student, present, 2)}


@pytest.mark.parametrize("name", ["attention", "relation"])
def test_equal_models_have_nothing_to_learn(name):
    student = states().requires_grad_()
    found = losses(states(), student)[name]
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert found.abs().max() < 1e-12
    assert gradient.abs().max() < 1e-12


@pytest.mark.parametrize("name", ["attention", "relation"])
def test_different_models_have(name):
    student = states(2).requires_grad_()
    found = losses(states(1), student)[name]
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert (found > 0).all()
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize("filler", [float("nan"), float("inf"), 1e30])
def test_what_stands_at_padding_reaches_neither_loss_nor_gradient(filler):
    hole = ~PRESENT[:, None, :, None]
    teacher, clean = states(1), states(2)
    expected = relation_kl(teacher, clean.requires_grad_(), PRESENT, 2)
    (slope,) = torch.autograd.grad(expected.sum(), clean)
    student = states(2).masked_fill(hole, filler).requires_grad_()
    found = relation_kl(teacher.masked_fill(hole, filler), student, PRESENT, 2)
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert torch.equal(found, expected)
    assert torch.equal(gradient, slope)
    assert (gradient.transpose(1, 2)[~PRESENT] == 0).all()


@pytest.mark.parametrize("filler", [float("nan"), float("inf"), -1e30])
def test_scores_at_padding_reach_neither_loss_nor_gradient(filler):
    hole = ~(PRESENT[:, None, :, None] & PRESENT[:, None, None, :])
    teacher, clean = states(1, size=LENGTH), states(2, size=LENGTH)
    expected = attention_kl(teacher, clean.requires_grad_(), PRESENT)
    (slope,) = torch.autograd.grad(expected.sum(), clean)
    student = states(2, size=LENGTH).masked_fill(hole, filler).requires_grad_()
    found = attention_kl(teacher.masked_fill(hole, filler), student, PRESENT)
    (gradient,) = torch.autograd.grad(found.sum(), student)
    assert torch.equal(found, expected)
    assert torch.equal(gradient, slope)
    assert (gradient[hole.expand_as(gradient)] == 0).all()


def test_a_text_that_is_all_padding_adds_nothing():
    present = PRESENT.clone()
    present[1] = False
    student = states(2).requires_grad_()
    assert torch.isfinite(relation(student, present, 2)).all()
    for found in losses(states(1), student, present).values():
        assert len(found) == present.sum()
        (gradient,) = torch.autograd.grad(found.sum(), student, retain_graph=True)
        assert torch.isfinite(gradient).all()
        assert (gradient[1] == 0).all()


def test_half_precision_is_widened():
    teacher, student = (300 * states(seed) for seed in (1, 2))  # products beyond the largest float16
    found = relation_kl(teacher.half(), student.half(), PRESENT, 2)
    assert found.dtype == torch.float32
    assert torch.isfinite(found).all()


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(MismatchError, match="3 relation heads do not divide a width of 20"):
        relation(states(), PRESENT, 3)
