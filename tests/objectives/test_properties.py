"""What must hold for every objective."""

import pytest
import torch

from limbeck.core.card import METHODS
from limbeck.core.errors import KnobError
from limbeck.core.objective import Blend, misfits, wants
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Trace, Want
from limbeck.objectives import Labels, LogitRegression, SoftTargets
from limbeck.objectives.weighted_sum import weighted_sum

TASKS = {
    "classify": TaskInfo(kind="classify", labels=("a", "b", "c")),
    "multilabel": TaskInfo(kind="multilabel", labels=("a", "b", "c")),
    "regress": TaskInfo(kind="regress"),
}
# Those that look at answers only; the others have the same tests beside their own, on real models.
CASES = [
    (name, kind)
    for name, card in METHODS.items()
    for kind in TASKS
    if kind in card.cls.serves and wants(card.cls()) in Want.LOGITS
]


def examples(kind, rows=7, unlabelled=(2, 5), seed=0):
    torch.manual_seed(seed)
    task = TASKS[kind]
    labels = {
        "classify": torch.randint(3, (rows,)),
        "multilabel": torch.randint(2, (rows, 3)).float(),
        "regress": torch.randn(rows),
    }[kind]
    has_label = torch.ones(rows, dtype=torch.bool)
    has_label[list(unlabelled)] = False
    if kind != "classify":
        labels[~has_label] = torch.nan
    else:
        labels[~has_label] = -100
    batch = Batch(task, torch.arange(rows), labels, has_label)
    student, teacher = torch.randn(2, rows, task.outputs, dtype=torch.float64)
    return batch, student, teacher


def part(batch, rows):
    return Batch(batch.task, batch.uids[rows], batch.labels[rows], batch.has_label[rows])


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_repeating_the_batch_changes_nothing(name, kind):
    batch, student, teacher = examples(kind)
    twice = torch.arange(7).repeat(2)
    objective = METHODS[name].cls()
    once, _ = weighted_sum(objective, Trace(student), Trace(teacher), batch)
    again, _ = weighted_sum(objective, Trace(student[twice]), Trace(teacher[twice]), part(batch, twice))
    assert torch.allclose(once, again, atol=1e-12)
    assert torch.isfinite(once)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_shuffling_changes_nothing(name, kind):
    batch, student, teacher = examples(kind)
    order = torch.randperm(7)
    objective = METHODS[name].cls()
    once, _ = weighted_sum(objective, Trace(student), Trace(teacher), batch)
    again, _ = weighted_sum(objective, Trace(student[order]), Trace(teacher[order]), part(batch, order))
    assert torch.allclose(once, again, atol=1e-12)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_unequal_micro_batches_give_the_gradient_of_one_batch(name, kind):
    batch, student, teacher = examples(kind)
    objective = 0.5 * METHODS[name].cls() + 0.25 * Labels()
    whole = student.clone().requires_grad_()
    weighted_sum(objective, Trace(whole), Trace(teacher), batch)[0].backward()
    rows = {"has_label": batch.has_label.sum(), "in_loss": batch.in_loss.sum()}
    split = student.clone().requires_grad_()
    for piece in (torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5]), torch.tensor([6])):
        weighted_sum(objective, Trace(split[piece]), Trace(teacher[piece]), part(batch, piece), rows)[0].backward()
    assert torch.allclose(whole.grad, split.grad, atol=1e-12)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("objective", [SoftTargets(temperature=3.0), LogitRegression()])
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(objective, kind):
    if misfits(objective, TASKS[kind]):
        pytest.skip(f"{objective} does not serve {kind}")
    batch, _, teacher = examples(kind)
    student = teacher.clone().requires_grad_()
    total, _ = weighted_sum(objective, Trace(student), Trace(teacher), batch)
    (gradient,) = torch.autograd.grad(total, student)
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert gradient.abs().max().item() < 1e-12


@pytest.mark.parametrize("kind", TASKS)
def test_no_labelled_row_gives_zero_not_nan(kind):
    batch, student, _ = examples(kind, unlabelled=range(7))
    student.requires_grad_()
    total, _ = weighted_sum(1.0 * Labels(), Trace(student), Trace(), batch)
    total.backward()
    assert total.item() == 0.0
    assert torch.equal(student.grad, torch.zeros_like(student))


def test_unlabelled_rows_teach_by_soft_targets_only():
    batch, student, teacher = examples("classify", unlabelled=(2,))
    student.requires_grad_()
    weighted_sum(1.0 * Labels(), Trace(student), Trace(teacher), batch)[0].backward()
    assert student.grad[2].abs().sum() == 0
    student.grad = None
    weighted_sum(1.0 * SoftTargets(), Trace(student), Trace(teacher), batch)[0].backward()
    assert student.grad[2].abs().sum() > 0


def test_the_algebra():
    objective = 2 * (0.5 * Labels() + SoftTargets(temperature=4)) + LogitRegression() * 3
    assert isinstance(objective, Blend)
    assert [weight for weight, _ in objective.weighted] == [1.0, 2.0, 3.0]
    assert str(objective) == "1 * Labels() + 2 * SoftTargets(temperature=4.0) + 3 * LogitRegression()"


def test_a_term_without_weight_needs_no_teacher():
    assert wants(1.0 * Labels() + 0.0 * SoftTargets()) == Want.NOTHING
    assert wants(1.0 * Labels() + 0.1 * SoftTargets()) == Want.LOGITS


def test_soft_targets_refuse_numbers_and_name_the_remedy():
    (misfit,) = misfits(0.5 * Labels() + 0.5 * SoftTargets(), TASKS["regress"])
    assert "logits" in misfit.remedy


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"temperature": 0}, "greater than 0"),
        ({"temperatur": 2}, "did you mean 'temperature'"),
        ({"temperature": "hot"}, "number"),
    ],
)
def test_wrong_knobs_are_explained(knobs, words):
    with pytest.raises(KnobError, match=words):
        SoftTargets(**knobs)


def test_every_method_has_its_card():
    for name, card in METHODS.items():
        assert card.paper.title, name
        assert "L = " in card.text, name
        for knob in card.cls.model_fields.values():
            assert knob.description, name
            assert knob.json_schema_extra.get("source"), f"{name}: a default names its source"
