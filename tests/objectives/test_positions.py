"""Objectives over words to be tagged and places of answers, against slow references in float64."""

import math

import pytest
import torch

from limbeck.core.forward import NOWHERE, forward
from limbeck.core.task import ENDS, TaskInfo
from limbeck.core.trace import Batch, Trace
from limbeck.objectives import Labels, LogitRegression, SoftTargets
from limbeck.objectives.answers import ConfusingAnswers
from limbeck.objectives.weighted_sum import weighted_sum
from tiny_places import make_reader, make_tagger

TAG = TaskInfo(kind="tag", labels=("O", "B-X", "I-X"))
ANSWER = TaskInfo(kind="answer", labels=ENDS)
F64 = torch.float64


def questions(texts=5, length=9, nullable=False, seed=0, more=0):
    """Batch, student and teacher logits; padding of `more` places changes neither."""
    draw = torch.Generator().manual_seed(seed)
    asked = torch.zeros(texts, length, dtype=torch.bool)
    labels = torch.zeros(texts, 2, dtype=torch.int64)
    for text in range(texts):
        first, last = 2 + text % 2, length - 1 - text % 3
        asked[text, first : last + 1] = True
        labels[text] = torch.tensor([first + 1, first + 2])
    asked[:, 0] |= nullable
    has_label = torch.ones(2 * texts, dtype=torch.bool)
    has_label[2:4] = False
    student, teacher = torch.randn(2, texts, 2, length, generator=draw, dtype=F64)
    wide = torch.nn.functional.pad(asked, (0, more))

    def rows(logits):
        return torch.nn.functional.pad(logits, (0, more)).masked_fill(~wide[:, None], NOWHERE).flatten(0, 1)

    batch = Batch(ANSWER, torch.arange(texts), labels.flatten(), has_label, predicted=wide)
    return batch, rows(student), rows(teacher)


def words(seed=0):
    draw = torch.Generator().manual_seed(seed)
    asked = torch.rand(3, 6, generator=draw) < 0.6
    count = int(asked.sum())
    has_label = torch.ones(count, dtype=torch.bool)
    has_label[1] = False
    labels = torch.randint(3, (count,), generator=draw)
    labels[1] = -100
    student, teacher = torch.randn(2, count, 3, generator=draw, dtype=F64)
    return Batch(TAG, torch.arange(3), labels, has_label, predicted=asked), student, teacher


def value(objective, batch, student, teacher):
    return weighted_sum(1.0 * objective, Trace(student), Trace(teacher), batch)[0]


def softmax(row, temperature=1.0):
    weights = [math.exp(x / temperature) for x in row]
    return [weight / sum(weights) for weight in weights]


def allowed(batch, row):
    """The outputs of a row that count."""
    return batch.predicted[row // 2].nonzero()[:, 0].tolist() if batch.task.kind == "answer" else [0, 1, 2]


def slow(objective, batch, student, teacher):
    total, count = 0.0, 0
    for row in range(len(batch.has_label)):
        places = allowed(batch, row)
        s, t = ([float(x[row, place]) for place in places] for x in (student, teacher))
        if isinstance(objective, Labels):
            if not batch.has_label[row]:
                continue
            total -= math.log(softmax(s)[places.index(int(batch.labels[row]))])
        elif isinstance(objective, SoftTargets):
            p, q = softmax(t, objective.temperature), softmax(s, objective.temperature)
            total += objective.temperature**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        else:
            total += sum((a - b) ** 2 for a, b in zip(s, t, strict=True)) / len(places)
        count += 1
    return total / count


OBJECTIVES = [Labels(), SoftTargets(temperature=2.0), SoftTargets(temperature=500.0), LogitRegression()]
BATCHES = {"tag": words, "answer": questions, "nullable": lambda: questions(nullable=True)}


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_against_a_slow_reference(objective, make):
    batch, student, teacher = make()
    found = value(objective, batch, student, teacher)
    assert found.item() == pytest.approx(slow(objective, batch, student, teacher), rel=1e-9)


@pytest.mark.parametrize("objective", [*OBJECTIVES, ConfusingAnswers()], ids=str)
def test_padding_changes_neither_loss_nor_gradient(objective):
    found = []
    for more in (0, 7):
        batch, student, teacher = questions(more=more)
        student.requires_grad_()
        total = value(objective, batch, student, teacher)
        (gradient,) = torch.autograd.grad(total, student)
        found.append((total, gradient))
    (once, slope), (again, wider) = found
    assert once.item() == pytest.approx(again.item(), abs=1e-12)
    assert torch.allclose(slope, wider[:, :9], atol=1e-12)
    assert not wider[:, 9:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 4.0, 1000.0])
def test_where_no_answer_can_lie_the_divergence_is_exactly_zero(temperature, dtype):
    batch, student, teacher = questions()
    student = student.to(dtype).requires_grad_()
    taught = teacher.to(dtype).masked_fill(
        ~batch.predicted.repeat_interleave(2, 0), NOWHERE + 16
    )  # as bfloat16 keeps it
    total = value(SoftTargets(temperature=temperature), batch, student, taught)
    (gradient,) = torch.autograd.grad(total, student)
    assert torch.equal(total, value(SoftTargets(temperature=temperature), batch, student, teacher.to(dtype)))
    assert torch.isfinite(gradient).all()
    assert not gradient[~batch.predicted.repeat_interleave(2, 0)].any()


@pytest.mark.parametrize("objective", [SoftTargets(temperature=3.0), LogitRegression()], ids=str)
@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(objective, make):
    batch, _, teacher = make()
    student = teacher.clone().requires_grad_()
    total = value(objective, batch, student, teacher)
    (gradient,) = torch.autograd.grad(total, student)
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert gradient.abs().max().item() < 1e-12


def part(batch, texts):
    chosen = torch.tensor([row for text in texts for row in (2 * text, 2 * text + 1)])
    piece = Batch(
        ANSWER, batch.uids[texts], batch.labels[chosen], batch.has_label[chosen], predicted=batch.predicted[texts]
    )
    return piece, chosen


@pytest.mark.parametrize("objective", [*OBJECTIVES, ConfusingAnswers()], ids=str)
def test_unequal_micro_batches_and_repeats_give_the_gradient_of_one_batch(objective):
    batch, student, teacher = questions()
    whole = student.clone().requires_grad_()
    value(objective, batch, whole, teacher).backward()
    rows = {"has_label": batch.has_label.sum(), "in_loss": torch.tensor(len(batch.has_label))}
    split = student.clone().requires_grad_()
    for texts in ([0, 1, 2], [3], [4]):
        piece, chosen = part(batch, texts)
        weighted_sum(1.0 * objective, Trace(split[chosen]), Trace(teacher[chosen]), piece, rows)[0].backward()
    assert torch.allclose(whole.grad, split.grad, atol=1e-12)
    twice, chosen = part(batch, [0, 1, 2, 3, 4] * 2)
    again = value(objective, twice, student[chosen], teacher[chosen])
    assert again.item() == pytest.approx(value(objective, batch, student, teacher).item())


def slow_confusing(objective, batch, student, teacher):
    total, texts = 0.0, 0
    for text in range(len(batch.uids)):
        if not batch.has_label[2 * text]:
            continue
        texts += 1
        places = allowed(batch, 2 * text)
        q, p = (
            [dict(zip(places, softmax([float(x[2 * text + end, i]) for i in places]), strict=True)) for end in (0, 1)]
            for x in (student, teacher)
        )
        gold = batch.labels[2 * text : 2 * text + 2].tolist()
        spans = [
            (p[0][i] * p[1][j], i, j)
            for i in places
            for j in places
            if i <= j < i + objective.longest and not (i == 0 and j > 0) and (j < gold[0] or i > gold[1])
        ]
        right = math.log(q[0][gold[0]] * q[1][gold[1]])
        for _, i, j in sorted(spans, reverse=True)[: objective.spans]:
            total += max(0.0, objective.margin - right + math.log(q[0][i] * q[1][j]))
    return total / texts


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("objective", [ConfusingAnswers(), ConfusingAnswers(spans=2, margin=0.3, longest=2)], ids=str)
def test_confusing_answers_against_a_slow_reference(objective, nullable):
    batch, student, teacher = questions(nullable=nullable)
    assert slow_confusing(objective, batch, student, teacher) > 0
    found = value(objective, batch, student, teacher)
    assert found.item() == pytest.approx(slow_confusing(objective, batch, student, teacher), rel=1e-9)


def one_text(asked, gold):
    mask = torch.zeros(1, 6, dtype=torch.bool)
    mask[0, list(asked)] = True
    return Batch(ANSWER, torch.tensor([1]), torch.tensor(gold), torch.tensor([True, True]), predicted=mask)


def test_no_confusing_span_costs_nothing():
    batch = one_text([2, 3, 4], [2, 4])  # every span overlaps with gold
    student = torch.randn(2, 6, dtype=F64, requires_grad=True)
    total = value(ConfusingAnswers(), batch, student, torch.randn(2, 6, dtype=F64))
    (gradient,) = torch.autograd.grad(total, student)
    assert total.item() == 0.0
    assert not gradient.any()


def test_a_gold_answer_that_leads_by_the_margin_costs_nothing():
    batch = one_text([1, 2, 3, 4], [1, 1])
    student = torch.zeros(2, 6, dtype=F64)
    student[:, 1] = 0.6  # log q(gold) − log q(a) = 1.2 for every other single place
    assert value(ConfusingAnswers(margin=1.1), batch, student, torch.randn(2, 6, dtype=F64)).item() == 0.0
    assert value(ConfusingAnswers(margin=1.5, spans=1), batch, student, torch.randn(2, 6, dtype=F64)).item() == (
        pytest.approx(0.3)
    )


def test_texts_without_a_label_add_nothing_to_confusing_answers():
    batch, student, teacher = questions()
    student.requires_grad_()
    value(ConfusingAnswers(), batch, student, teacher).backward()
    assert not student.grad[2:4].any()
    assert student.grad.any()


def test_what_a_tagger_shows():
    model, predicted = make_tagger(), torch.tensor([[0, 1, 0, 1, 0], [0, 1, 1, 0, 0]], dtype=torch.bool)
    inputs = {"input_ids": torch.randint(5, 30, (2, 5)), "attention_mask": torch.ones(2, 5, dtype=torch.int64)}
    batch = Batch(TAG, torch.arange(2), torch.zeros(4), torch.ones(4, dtype=torch.bool), inputs, predicted=predicted)
    shown = forward(model, batch).logits
    whole = model(**inputs).logits
    assert torch.equal(shown, torch.stack([whole[0, 1], whole[0, 3], whole[1, 1], whole[1, 2]]))


def test_what_a_reader_shows():
    model, predicted = make_reader(), torch.tensor([[0, 0, 1, 1, 0], [1, 0, 1, 0, 0]], dtype=torch.bool)
    inputs = {"input_ids": torch.randint(5, 30, (2, 5)), "attention_mask": torch.ones(2, 5, dtype=torch.int64)}
    batch = Batch(ANSWER, torch.arange(2), torch.zeros(4), torch.ones(4, dtype=torch.bool), inputs, predicted=predicted)
    shown, whole = forward(model, batch).logits, model(**inputs)
    assert shown.shape == (4, 5)
    assert torch.equal(shown[0, 2:4], whole.start_logits[0, 2:4])
    assert torch.equal(shown[3, [0, 2]], whole.end_logits[1, [0, 2]])
    assert (shown[~predicted.repeat_interleave(2, 0)] == NOWHERE).all()
