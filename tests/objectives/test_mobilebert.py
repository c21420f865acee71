"""MobileBERT's transfer against a reference in loops, its invariances, and a student that learns by it."""

from __future__ import annotations

import math

import pytest
import torch

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import forward
from limbeck.core.objective import bridges, requests
from limbeck.core.record import Shape
from limbeck.core.tap import install
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.objectives.mobilebert import MobileBERTTransfer
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.mobilebert import MOBILEBERT
from limbeck.recipes.recipe import from_table
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import shape_of
from tiny import make_classifier

TASK = TaskInfo(kind="classify", labels=("a", "b"))
LENGTHS = (5, 2, 4)
WIDTH, HEADS = 6, 2
EACH = [
    {"features": 1.0},
    {"mean": 1.0},
    {"variance": 1.0},
    {"attention": 1.0},
    {"features": 4.17, "mean": 5000.0, "variance": 5.0, "attention": 1.0},
]
NONE = {"features": 0.0, "mean": 0.0, "variance": 0.0, "attention": 0.0}


def transfer(layers: str = "uniform", **weights: float) -> MobileBERTTransfer:
    return MobileBERTTransfer(layers=layers, **{**NONE, **weights})


def batch_of(lengths=LENGTHS, length: int = 5) -> Batch:
    rows = len(lengths)
    mask = (torch.arange(length) < torch.tensor(lengths)[:, None]).long()
    return Batch(
        TASK, torch.arange(rows), torch.zeros(rows, dtype=torch.int64), torch.ones(rows, dtype=torch.bool),
        {"attention_mask": mask},
    )  # fmt: skip


def trace(layers: int, seed: int, rows: int = 3, length: int = 5, width: int = WIDTH) -> Trace:
    draw = torch.Generator().manual_seed(seed)
    hidden = [torch.randn(rows, length, width, generator=draw, dtype=torch.float64) for _ in range(layers + 1)]
    scores = [torch.randn(rows, HEADS, length, length, generator=draw, dtype=torch.float64) for _ in range(layers)]
    return Trace(hidden=tuple(hidden), attention=(torch.empty(0), *scores))


def leaves(shown: Trace) -> tuple[Trace, list[torch.Tensor]]:
    hidden = tuple(x.clone().requires_grad_() for x in shown.hidden)
    scores = tuple(x.clone().requires_grad_() for x in shown.attention[1:])
    return Trace(hidden=hidden, attention=(torch.empty(0), *scores)), [*hidden, *scores]


def of_state(h: list[float]) -> tuple[list[float], float, float]:
    mean = sum(h) / len(h)
    variance = sum((x - mean) ** 2 for x in h) / len(h)
    return [(x - mean) / math.sqrt(variance) for x in h], mean, variance


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in scores)
    return [math.exp(x) / total for x in scores]


def reference(student: Trace, teacher: Trace, pairs: list[tuple[int, int]], lengths=LENGTHS) -> dict[str, float]:
    """Token by token, in plain floats."""
    found = dict.fromkeys(NONE, 0.0)
    for j, i in pairs:
        for text, length in enumerate(lengths):
            for token in range(length):
                s, s_mean, s_variance = of_state(student.hidden[j][text, token].tolist())
                t, t_mean, t_variance = of_state(teacher.hidden[i][text, token].tolist())
                found["features"] += sum((a - b) ** 2 for a, b in zip(s, t, strict=True)) / len(s)
                found["mean"] += (s_mean - t_mean) ** 2
                found["variance"] += abs(s_variance - t_variance)
                for head in range(HEADS):
                    p = softmax(teacher.attention[i][text, head, token, :length].tolist())
                    q = softmax(student.attention[j][text, head, token, :length].tolist())
                    found["attention"] += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / HEADS
    return {name: total / sum(lengths) / len(pairs) for name, total in found.items()}


@pytest.mark.parametrize(
    ("layers", "pairs"), [("uniform", [(1, 2), (2, 4)]), ("2:3", [(2, 3)]), ("1:4,2:1", [(1, 4), (2, 1)])]
)
def test_the_terms_are_those_of_the_loops(layers: str, pairs: list[tuple[int, int]]) -> None:
    student, teacher = trace(2, seed=0), trace(4, seed=1)
    _, shown = weighted_sum(1.0 * MobileBERTTransfer(layers=layers), student, teacher, batch_of())
    assert {name: x.item() for name, x in shown.items()} == pytest.approx(reference(student, teacher, pairs), rel=1e-9)


def test_weights_multiply_and_zero_is_absent() -> None:
    student, teacher = trace(2, seed=0), trace(2, seed=1)
    plain = reference(student, teacher, [(1, 1), (2, 2)])
    weights = {"features": 3.0, "mean": 5.0, "attention": 0.5}
    total, shown = weighted_sum(1.0 * transfer(**weights), student, teacher, batch_of())
    assert shown.keys() == weights.keys()
    assert total.item() == pytest.approx(sum(weight * plain[name] for name, weight in weights.items()))


@pytest.mark.parametrize("weights", EACH)
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(weights: dict[str, float]) -> None:
    teacher = trace(2, seed=0)
    student, tensors = leaves(teacher)
    total, _ = weighted_sum(1.0 * transfer(**weights), student, teacher, batch_of())
    total.backward()
    assert total.item() == pytest.approx(0.0, abs=1e-12)
    assert all(x.grad is None or x.grad.abs().max() < 1e-12 for x in tensors)


@pytest.mark.parametrize("side", ["student", "teacher"])
def test_features_do_not_see_a_tokens_shift_and_stretch(side: str) -> None:
    student, teacher = trace(2, seed=0), trace(2, seed=1)
    draw = torch.Generator().manual_seed(2)
    stretch = torch.rand(3, 5, 1, generator=draw, dtype=torch.float64) + 0.5
    shift = torch.randn(3, 5, 1, generator=draw, dtype=torch.float64)

    def moved(shown: Trace) -> Trace:
        return Trace(hidden=tuple(stretch * x + shift for x in shown.hidden), attention=shown.attention)

    pair = (moved(student), teacher) if side == "student" else (student, moved(teacher))
    for name, same in (("features", True), ("mean", False), ("variance", False)):
        before, _ = weighted_sum(1.0 * transfer(**{name: 1.0}), student, teacher, batch_of())
        after, _ = weighted_sum(1.0 * transfer(**{name: 1.0}), *pair, batch_of())
        assert torch.isclose(before, after, atol=1e-9).item() is same, name


@pytest.mark.parametrize("weights", EACH)
def test_padding_reaches_neither_loss_nor_gradient(weights: dict[str, float]) -> None:
    student, teacher = trace(2, seed=0), trace(2, seed=1)
    absent = ~batch_of().inputs["attention_mask"].bool()

    def spoilt(shown: Trace, filler: float) -> Trace:
        either = (absent[:, None, :, None] | absent[:, None, None, :]).expand(-1, HEADS, -1, -1)
        hidden = tuple(x.masked_fill(absent[..., None], filler) for x in shown.hidden)
        return Trace(
            hidden=hidden, attention=(torch.empty(0), *(x.masked_fill(either, filler) for x in shown.attention[1:]))
        )

    expected, tensors = leaves(student)
    total, _ = weighted_sum(1.0 * transfer(**weights), expected, teacher, batch_of())
    total.backward()
    for filler in (torch.nan, torch.inf, 7.0):
        other, spoiled = leaves(spoilt(student, filler))
        again, _ = weighted_sum(1.0 * transfer(**weights), other, spoilt(teacher, filler), batch_of())
        again.backward()
        assert torch.isclose(total, again, rtol=1e-12)
        for mine, theirs in zip(spoiled, tensors, strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if mine.grad is not None:
                torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("weights", EACH)
def test_longer_padding_repetition_and_micro_batches_change_nothing(weights: dict[str, float]) -> None:
    objective = 1.0 * transfer(**weights)
    student, teacher = trace(2, seed=0), trace(2, seed=1)
    whole, _ = weighted_sum(objective, student, teacher, batch_of())

    def rows(shown: Trace, chosen: list[int]) -> Trace:
        return Trace(
            hidden=tuple(x[chosen] for x in shown.hidden),
            attention=(torch.empty(0), *(x[chosen] for x in shown.attention[1:])),
        )

    def padded(shown: Trace) -> Trace:
        pad = torch.nn.functional.pad
        return Trace(
            hidden=tuple(pad(x, (0, 0, 0, 3), value=9.0) for x in shown.hidden),
            attention=(torch.empty(0), *(pad(x, (0, 3, 0, 3), value=9.0) for x in shown.attention[1:])),
        )

    twice, _ = weighted_sum(
        objective, rows(student, [0, 1, 2] * 2), rows(teacher, [0, 1, 2] * 2), batch_of(LENGTHS * 2)
    )
    longer, _ = weighted_sum(objective, padded(student), padded(teacher), batch_of(length=8))
    count = {"present": torch.tensor(sum(LENGTHS))}
    parts = [
        weighted_sum(objective, rows(student, part), rows(teacher, part), batch_of([LENGTHS[x] for x in part]), count)[
            0
        ]
        for part in ([0], [1, 2])
    ]
    for other in (twice, longer, sum(parts)):
        torch.testing.assert_close(other, whole, rtol=1e-12, atol=0)


def shape(layers: int, hidden: int = 32, heads: int = 4) -> Shape:
    return Shape(architecture="bert", layers=layers, hidden=hidden, heads=heads, feed_forward=64)


def test_it_asks_for_the_layers_it_compares() -> None:
    of_student, of_teacher = requests(1.0 * MobileBERTTransfer(), shape(2), shape(4))
    both = Want.HIDDEN | Want.ATTENTION
    assert of_student == Request(Want.LOGITS | both, hidden=(1, 2), heads=(1, 2))
    assert of_teacher == Request(both, hidden=(2, 4), heads=(2, 4))
    of_student, of_teacher = requests(1.0 * transfer("2:3", attention=1.0), shape(2), shape(4, hidden=48))
    assert (of_teacher, of_student.heads) == (Request(Want.ATTENTION, heads=(3,)), (2,))
    deeper = requests(1.0 * transfer(features=1.0), shape(4), shape(2))[1]
    assert deeper == Request(Want.HIDDEN, hidden=(1, 2))


def test_a_bridge_only_where_widths_differ_and_states_are_compared() -> None:
    assert bridges(1.0 * MobileBERTTransfer(), shape(2), shape(4)) == {}
    assert bridges(1.0 * MobileBERTTransfer(), shape(2), shape(4, hidden=48)) == {"mobilebert": (32, 48)}
    assert bridges(1.0 * transfer(attention=1.0), shape(2), shape(4, hidden=48)) == {}
    way = torch.nn.Linear(4, WIDTH, dtype=torch.float64)
    narrow, teacher = trace(2, seed=0, width=4), trace(2, seed=1)
    bridged = Trace(hidden=narrow.hidden, attention=narrow.attention, bridges={"mobilebert": way})
    with torch.no_grad():
        wide = Trace(hidden=tuple(way(x) for x in narrow.hidden), attention=narrow.attention)
    total, _ = weighted_sum(1.0 * MobileBERTTransfer(), bridged, teacher, batch_of())
    assert total.item() == pytest.approx(sum(reference(wide, teacher, [(1, 1), (2, 2)]).values()))
    total.backward()
    assert way.weight.grad.abs().sum() > 0


def test_what_does_not_fit_is_refused_with_the_remedy() -> None:
    with pytest.raises(MismatchError, match=r"has 4 and the teacher 8\n.*8 heads.*attention to 0"):
        requests(1.0 * MobileBERTTransfer(), shape(2), shape(4, heads=8))
    assert requests(1.0 * MobileBERTTransfer(attention=0.0), shape(2), shape(4, heads=8))
    with pytest.raises(KnobError, match="nothing to compare"):
        requests(1.0 * transfer(), shape(2), shape(4))
    with pytest.raises(KnobError, match="no layer 5"):
        requests(1.0 * MobileBERTTransfer(layers="2:5"), shape(2), shape(4))


def test_the_recipe_transfers_layer_by_layer_and_then_teaches_answers() -> None:
    (stage,) = MOBILEBERT.stages(TASK).values()
    assert stage.progressive
    assert from_table(stage.objective).weighted == ((1.0, MobileBERTTransfer()),)
    for kind in MOBILEBERT.tasks:
        task = TaskInfo(kind=kind, labels=("a", "b")) if kind != "mask-fill" else TaskInfo(kind=kind, vocab_size=30)
        assert all(kind in part.serves for _, part in MOBILEBERT.objective(task).weighted), kind
        assert kind in MobileBERTTransfer.serves
    for of in ("Stages", "sources", "departs", "costs"):
        assert of in MOBILEBERT.text


@pytest.fixture
def pair():
    """A teacher of 3 layers × 32 that has something to show: large weights, heads that choose."""
    teacher = make_classifier(layers=3, hidden=32)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in teacher.bert.encoder.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=0.2)
    student, _ = Shrink(family="mobilebert").build(teacher)
    return install(student), install(teacher)


def texts(rows: int = 24, length: int = 9) -> Batch:
    draw = torch.Generator().manual_seed(3)
    lengths = torch.randint(3, length + 1, (rows,), generator=draw)
    mask = (torch.arange(length) < lengths[:, None]).long()
    ids = torch.randint(5, 36, (rows, length), generator=draw) * mask
    inputs = {"input_ids": ids, "attention_mask": mask}
    return Batch(TASK, torch.arange(rows), torch.zeros(rows, dtype=torch.int64), mask[:, 0].bool(), inputs)


def test_one_pair_gates_exactly_one_layer(pair) -> None:
    """While the second layer's turn lasts, nothing above it and no other target has a part in the loss."""
    student, teacher = pair
    batch = texts()
    for layer in (1, 2, 3):
        objective = 1.0 * MobileBERTTransfer(layers=f"{layer}:{layer}")
        of_student, of_teacher = requests(objective, shape_of(student), shape_of(teacher))
        assert of_student.hidden == of_student.heads == of_teacher.hidden == of_teacher.heads == (layer,)
        with torch.no_grad():
            told = forward(teacher, batch, of_teacher)
        student.zero_grad()
        weighted_sum(objective, forward(student, batch, of_student), told, batch)[0].backward()
        layers = student.mobilebert.encoder.layer
        moved = [any(p.grad is not None and p.grad.any() for p in part.parameters()) for part in layers]
        assert moved == [place <= layer for place in (1, 2, 3)]


def test_a_small_student_learns_layer_by_layer(pair) -> None:
    student, teacher = pair
    batch = texts(rows=12)
    of_student, of_teacher = requests(1.0 * MobileBERTTransfer(), shape_of(student), shape_of(teacher))
    with torch.no_grad():
        told = forward(teacher, batch, of_teacher)
    for layer in (1, 2, 3):
        objective = 1.0 * MobileBERTTransfer(layers=f"{layer}:{layer}")
        optimiser = torch.optim.AdamW(student.parameters(), lr=6e-3)
        curve: list[dict[str, float]] = []
        for _ in range(30):
            optimiser.zero_grad()
            total, shown = weighted_sum(objective, forward(student, batch, of_student), told, batch)
            total.backward()
            optimiser.step()
            curve.append({name: value.item() for name, value in shown.items()})
        assert curve[-1]["features"] < 0.7 * curve[0]["features"], (layer, curve[0], curve[-1])
        assert curve[-1]["attention"] < 0.9 * curve[0]["attention"], (layer, curve[0], curve[-1])
