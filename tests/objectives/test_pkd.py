"""Patience: the published distances and weights, the reductions, the bridge, and a real student."""

import numpy as np
import pytest
import torch

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import forward
from limbeck.core.objective import requests, wants
from limbeck.core.record import Shape
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.objectives import Labels, LogitRegression, SoftTargets
from limbeck.objectives.pkd import PKD
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.pkd import PKD_LAST, PKD_SKIP
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from tiny import make_classifier

TASK = TaskInfo(kind="classify", labels=("a", "b", "c"))


def shape(layers=6, hidden=8):
    return Shape(architecture="bert", layers=layers, hidden=hidden, heads=2, feed_forward=16)


def texts(count):
    labels = torch.arange(count) % 3
    return Batch(TASK, torch.arange(count), labels, torch.ones(count, dtype=torch.bool))


def pooled(layers, count=5, width=8, seed=0):
    """Embeddings and layers; only the layers below the last are shown, as an Ask would have it."""
    torch.manual_seed(seed)
    states = [torch.empty(0)] + [torch.randn(count, width, dtype=torch.float64) for _ in range(layers - 1)]
    return (*states, torch.empty(0))


def value(objective, student, teacher, count=5, bridges=None):
    shown = Trace(pooled=student, bridges=bridges or {})
    return weighted_sum(objective, shown, Trace(pooled=teacher), texts(count))[0]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [([1, 0], [0, 3], 2.0), ([1, 0], [-2, 0], 4.0), ([1, 2], [3, 6], 0.0), ([1, 0], [1, 1], 0.585786)],
)
def test_a_layers_distance_is_two_minus_twice_the_cosine(mine, theirs, expected):
    states = [(torch.empty(0), torch.tensor([side], dtype=torch.float64)) for side in (mine, theirs)]
    for reduction, factor in (("sum", 1), ("mean", 2)):
        found = value(PKD(layers="1", reduction=reduction), *states, count=1)
        assert factor * found.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("rule", "layers"), [("skip", [2, 4]), ("last", [4, 5]), ("1:5,2:1", [5, 1])])
def test_it_is_the_papers_double_sum(rule, layers, reduction, normalise):
    student, teacher = pooled(3, seed=1), pooled(6, seed=2)
    expected = 0.0
    for j, i in enumerate(layers, 1):
        for s, t in zip(student[j].numpy(), teacher[i].numpy(), strict=True):
            if normalise:
                s, t = s / np.linalg.norm(s), t / np.linalg.norm(t)
            expected += np.linalg.norm(s - t) ** 2
    expected /= 5 if reduction == "sum" else 5 * len(layers) * 8
    found = value(PKD(layers=rule, reduction=reduction, normalise=normalise), student, teacher)
    assert found.item() == pytest.approx(expected, abs=1e-12)


def test_length_counts_only_without_normalising():
    student, teacher = pooled(3, seed=1), pooled(6, seed=2)
    longer = tuple(3 * x for x in student)
    assert value(PKD(), longer, teacher).item() == pytest.approx(value(PKD(), student, teacher).item())
    plain = PKD(normalise=False)
    assert value(plain, longer, teacher).item() > 2 * value(plain, student, teacher).item()


@pytest.mark.parametrize("objective", [PKD(), PKD(reduction="sum", normalise=False)])
def test_repeating_and_splitting_the_batch_change_nothing(objective):
    student, teacher = pooled(3, seed=1), pooled(6, seed=2)
    again = [tuple(torch.cat([x, x]) for x in side) for side in (student, teacher)]
    assert value(objective, *again, count=10).item() == pytest.approx(
        value(objective, student, teacher).item(), abs=1e-12
    )
    whole, split = (tuple(x.clone().requires_grad_() for x in student) for _ in range(2))
    value(objective, whole, teacher).backward()
    for rows in (slice(0, 4), slice(4, 5)):
        part = [tuple(x[rows] for x in side) for side in (split, teacher)]
        batch = texts(len(part[0][1]))
        step = {"examples": torch.tensor(5)}
        weighted_sum(objective, Trace(pooled=part[0]), Trace(pooled=part[1]), batch, step)[0].backward()
    for mine, theirs in zip(whole[1:3], split[1:3], strict=True):
        assert mine.grad.abs().max() > 0
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-14)


def test_half_precision_is_widened():
    student, teacher = pooled(3, seed=1), pooled(6, seed=2)
    half = [tuple(100 * x.half() for x in side) for side in (student, teacher)]
    assert value(PKD(), *half).item() == pytest.approx(value(PKD(), student, teacher).item(), rel=1e-2)
    assert torch.isfinite(value(PKD(normalise=False), *half))


def test_a_bridge_is_learned_where_widths_differ():
    narrow, wide = shape(layers=3, hidden=6), shape(hidden=8)
    assert PKD().bridges(narrow, wide) == {"pkd": (6, 8)}
    assert PKD().bridges(shape(layers=3), wide) == {}
    torch.manual_seed(0)
    bridge = torch.nn.Linear(6, 8, dtype=torch.float64)
    student, teacher = pooled(3, width=6, seed=1), pooled(6, seed=2)
    crossed = tuple(bridge(x) if x.numel() else x for x in student)
    found = value(PKD(), student, teacher, bridges={"pkd": bridge})
    assert found.item() == pytest.approx(value(PKD(), crossed, teacher).item(), abs=1e-12)
    found.backward()
    assert bridge.weight.grad.abs().max() > 0


def test_what_it_asks_for():
    mine, theirs = PKD(pool="mean").requests(shape(), shape(layers=12))
    assert mine == Request(Want.LOGITS | Want.POOLED, pooled=(1, 2, 3, 4, 5), pool="mean")
    assert theirs == Request(Want.POOLED, pooled=(2, 4, 6, 8, 10), pool="mean")
    assert PKD(layers="last").requests(shape(), shape(layers=12))[1].pooled == (7, 8, 9, 10, 11)
    assert PKD().requests(shape(), shape())[0].pool == "cls"


def test_what_does_not_fit_is_refused_with_the_remedy():
    with pytest.raises(MismatchError, match=r"(?s)6 and the teacher 8.*bridge to true"):
        PKD(bridge=False).requests(shape(hidden=6), shape())
    with pytest.raises(KnobError, match="no layer below"):
        PKD().requests(shape(layers=1), shape())


def real_batch():
    inputs = {"input_ids": torch.randint(5, 30, (4, 9)), "attention_mask": torch.ones(4, 9, dtype=torch.long)}
    inputs["attention_mask"][1:3, 6:] = 0
    return Batch(TASK, torch.arange(4), torch.tensor([0, 1, 2, 0]), torch.ones(4, dtype=torch.bool), inputs)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(pool):
    teacher, student = (make_classifier(("a", "b", "c")).double() for _ in range(2))
    objective, batch = PKD(pool=pool), real_batch()
    mine, theirs = objective.requests(shape_of(student), shape_of(teacher))
    total, _ = weighted_sum(objective, forward(student, batch, mine), forward(teacher, batch, theirs), batch)
    total.backward()
    found = [parameter.grad.abs().max().item() for parameter in student.parameters() if parameter.grad is not None]
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert found
    assert max(found) < 1e-12


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_padding_changes_nothing(pool):
    teacher, student = make_classifier(("a", "b", "c")).double(), make_classifier(("a", "b", "c"), layers=3, seed=1)
    student.double()
    batch, objective = real_batch(), PKD(pool=pool)
    padded = {name: torch.cat([x, torch.zeros(4, 5, dtype=x.dtype)], 1) for name, x in batch.inputs.items()}
    longer = Batch(TASK, batch.uids, batch.labels, batch.has_label, padded)
    mine, theirs = objective.requests(shape_of(student), shape_of(teacher))
    found = [
        weighted_sum(objective, forward(student, b, mine), forward(teacher, b, theirs), b)[0] for b in (batch, longer)
    ]
    assert found[0].item() > 1e-3
    assert found[1].item() == pytest.approx(found[0].item(), abs=1e-12)


def test_without_patience_it_is_distillation_and_without_both_fine_tuning():
    torch.manual_seed(0)
    student, teacher = (Trace(torch.randn(5, 3), pooled=pooled(layers)) for layers in (3, 6))
    (labels, _), (soft, kd), (_, patience) = PKD_SKIP.objective(TASK).weighted
    plain = 0.5 * Labels() + 0.5 * SoftTargets(temperature=10.0)
    assert (labels, soft, kd) == (0.5, 0.5, SoftTargets(temperature=10.0))

    def total(objective):
        return weighted_sum(objective, student, teacher, texts(5))[0]

    assert torch.equal(total(plain + 0.0 * patience), total(plain))
    assert torch.equal(total(1.0 * Labels() + 0.0 * kd + 0.0 * patience), total(Labels()))


@pytest.mark.parametrize(("recipe", "layers"), [(PKD_SKIP, "skip"), (PKD_LAST, "last")])
def test_the_recipes(recipe, layers):
    weights = {type(part).__name__: weight for weight, part in recipe.objective(TASK).weighted}
    assert weights == {"Labels": 0.5, "SoftTargets": 0.5, "PKD": 100.0}
    assert recipe.objective(TASK).weighted[2][1] == PKD(layers=layers)
    assert wants(recipe.objective(TASK)) == Want.LOGITS | Want.POOLED
    assert LogitRegression() in [part for _, part in recipe.objective(TaskInfo(kind="regress")).weighted]
    assert requests(recipe.objective(TASK), shape(), shape(layers=12))[1].want == Want.LOGITS | Want.POOLED
    assert "MRPC" in recipe.text


def test_the_student_is_the_teachers_first_layers():
    teacher = make_classifier()
    student, _ = Shrink(layers=2, **PKD_SKIP.defaults["student"]).build(teacher)
    for mine, theirs in zip(student.bert.encoder.layer, teacher.bert.encoder.layer[:2], strict=True):
        for name, tensor in mine.state_dict().items():
            assert torch.equal(tensor, theirs.state_dict()[name])
