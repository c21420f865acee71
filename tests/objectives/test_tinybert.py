"""TinyBERT's comparisons against loops in float64, its bridges and sizes, and real students through the tap."""

import pytest
import torch
from transformers import BertConfig, BertModel

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.forward import forward
from limbeck.core.objective import misfits, wants
from limbeck.core.record import Shape
from limbeck.core.tap import install
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch, Request, Trace, Want
from limbeck.objectives import LogitRegression, SoftTargets
from limbeck.objectives.tinybert import TinyBERT
from limbeck.objectives.weighted_sum import weighted_sum
from limbeck.recipes.recipe import from_table
from limbeck.recipes.tinybert import TINYBERT, TINYBERT_GENERAL
from limbeck.students.inherit import empty_model
from limbeck.students.shrink import Shrink, kept_layers
from limbeck.students.sizes import resized, shape_of, sizes_of
from tiny import make_classifier

TASK = TaskInfo(kind="classify", labels=("a", "b", "c"))
LENGTHS, HEADS = (6, 2, 4), 2


def shape(layers=4, hidden=6, heads=HEADS):
    return Shape(architecture="bert", layers=layers, hidden=hidden, heads=heads, feed_forward=16)


def batch(lengths=LENGTHS, longest=6):
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    count = len(lengths)
    return Batch(
        TASK, torch.arange(count), torch.zeros(count).long(), torch.ones(count).bool(), {"attention_mask": mask}
    )


def trace(layers, width, seed, longest=6, bridges=None):
    """Padding holds NaN, in hidden states and in scores both as query and as key."""
    torch.manual_seed(seed)
    count, most = len(LENGTHS), max(LENGTHS)
    hidden, scores = [], [torch.empty(0)]
    for layer in range(layers + 1):
        state = torch.full((count, longest, width), torch.nan, dtype=torch.float64)
        score = torch.full((count, HEADS, longest, longest), torch.nan, dtype=torch.float64)
        all_states = torch.randn(count, most, width, dtype=torch.float64)
        all_scores = torch.randn(count, HEADS, most, most, dtype=torch.float64)
        for row, length in enumerate(LENGTHS):
            state[row, :length] = all_states[row, :length]
            score[row, :, :length, :length] = all_scores[row, :, :length, :length]
        hidden.append(state.requires_grad_())
        scores += [score.requires_grad_()] if layer else []
    return Trace(hidden=tuple(hidden), attention=tuple(scores), bridges=bridges or {})


def by_hand(student, teacher, pairs, cross=lambda layer, x: x):
    """The three terms, token by token."""
    tokens = sum(LENGTHS)
    found = {"embedding": 0.0, "hidden": 0.0, "attention": 0.0}
    for row, length in enumerate(LENGTHS):
        for q in range(length):
            for j, i in [(0, 0), *pairs]:
                gap = cross(j, student.hidden[j][row, q]) - teacher.hidden[i][row, q]
                found["hidden" if j else "embedding"] += sum(x.item() ** 2 for x in gap) / len(gap) / tokens
            for j, i in pairs:
                for head in range(HEADS):
                    for k in range(length):
                        gap = (student.attention[j][row, head, q, k] - teacher.attention[i][row, head, q, k]).item()
                        found["attention"] += gap**2 / length / HEADS / tokens
    return found


@pytest.mark.parametrize(
    ("rule", "pairs"), [("uniform", [(1, 2), (2, 4)]), ("top", [(1, 3), (2, 4)]), ("2:1", [(2, 1)])]
)
def test_the_terms_are_those_of_loops(rule, pairs):
    student, teacher = trace(2, 6, seed=1), trace(4, 6, seed=2)
    total, shown = weighted_sum(TinyBERT(layers=rule), student, teacher, batch())
    expected = by_hand(student, teacher, pairs)
    assert {name: value.item() for name, value in shown.items()} == pytest.approx(expected, abs=1e-12)
    assert total.item() == pytest.approx(sum(expected.values()), abs=1e-12)


def test_weights_scale_each_term():
    student, teacher = trace(2, 6, seed=1), trace(4, 6, seed=2)
    expected = by_hand(student, teacher, [(1, 2), (2, 4)])
    _, shown = weighted_sum(TinyBERT(embedding=3.0, hidden=0.5, attention=0.0), student, teacher, batch())
    assert {name: value.item() for name, value in shown.items()} == pytest.approx(
        {"embedding": 3 * expected["embedding"], "hidden": 0.5 * expected["hidden"]}, abs=1e-12
    )


def test_padding_reaches_neither_the_loss_nor_a_gradient():
    totals = []
    for longest in (6, 9):
        student, teacher = trace(2, 6, seed=1, longest=longest), trace(4, 6, seed=2, longest=longest)
        total, _ = weighted_sum(TinyBERT(), student, teacher, batch(longest=longest))
        total.backward()
        totals.append(total.item())
        present = batch(longest=longest).inputs["attention_mask"].bool()
        both = (present[:, None, :, None] & present[:, None, None, :]).expand(-1, HEADS, -1, -1)
        for states, scores in zip(student.hidden[1:], student.attention[1:], strict=True):
            assert states.grad[present].abs().min() > 0
            assert states.grad[~present].abs().max() == 0
            assert scores.grad[both].abs().min() > 0
            assert scores.grad[~both].abs().max() == 0
    assert totals[0] == pytest.approx(totals[1], abs=1e-12)


def rows_of(shown, rows):
    return Trace(
        hidden=tuple(x[rows] for x in shown.hidden),
        attention=(shown.attention[0], *(x[rows] for x in shown.attention[1:])),
    )


def test_repeating_and_splitting_the_batch_change_nothing():
    student, teacher = trace(2, 6, seed=1), trace(4, 6, seed=2)
    whole, _ = weighted_sum(TinyBERT(), student, teacher, batch())
    twice = torch.arange(3).repeat(2)
    again = [
        Trace(
            hidden=tuple(x[twice] for x in s.hidden), attention=(s.attention[0], *(x[twice] for x in s.attention[1:]))
        )
        for s in (student, teacher)
    ]
    assert weighted_sum(TinyBERT(), *again, batch(LENGTHS * 2))[0].item() == pytest.approx(whole.item(), abs=1e-12)
    step = {"present": torch.tensor(sum(LENGTHS))}
    split = [
        weighted_sum(TinyBERT(), rows_of(student, rows), rows_of(teacher, rows), batch(LENGTHS[rows]), step)[0]
        for rows in (slice(0, 1), slice(1, 3))
    ]
    leaves = [*student.hidden, *student.attention[1:]]
    for one, other in zip(torch.autograd.grad(whole, leaves), torch.autograd.grad(sum(split), leaves), strict=True):
        assert torch.allclose(one, other, atol=1e-14)


@pytest.mark.parametrize("bridge", ["shared", "separate"])
def test_bridges_lead_to_the_teachers_width(bridge):
    objective = TinyBERT(bridge=bridge)
    widths = objective.bridges(shape(layers=2, hidden=4), shape())
    names = ["tinybert"] if bridge == "shared" else ["tinybert.0", "tinybert.1", "tinybert.2"]
    assert widths == dict.fromkeys(names, (4, 6))
    torch.manual_seed(0)
    maps = {name: torch.nn.Linear(*width, dtype=torch.float64) for name, width in widths.items()}
    student, teacher = trace(2, 4, seed=1, bridges=maps), trace(4, 6, seed=2)
    total, shown = weighted_sum(objective, student, teacher, batch())
    expected = by_hand(
        student,
        teacher,
        [(1, 2), (2, 4)],
        lambda layer, x: maps["tinybert" if bridge == "shared" else f"tinybert.{layer}"](x),
    )
    assert {name: value.item() for name, value in shown.items()} == pytest.approx(expected, abs=1e-12)
    total.backward()
    for linear in maps.values():
        assert torch.isfinite(linear.weight.grad).all()
        assert linear.bias.grad.abs().max() > 0


def test_no_bridge_where_none_is_needed():
    assert TinyBERT().bridges(shape(layers=2), shape()) == {}
    assert TinyBERT(embedding=0, hidden=0).bridges(shape(layers=2, hidden=4), shape()) == {}
    assert list(TinyBERT(embedding=0, bridge="separate").bridges(shape(layers=1, hidden=4), shape())) == ["tinybert.1"]


@pytest.mark.parametrize(
    ("off", "want", "hidden", "heads"),
    [
        ({}, Want.HIDDEN | Want.ATTENTION, (0, 2, 4), (2, 4)),
        ({"attention": 0}, Want.HIDDEN, (0, 2, 4), ()),
        ({"embedding": 0}, Want.HIDDEN | Want.ATTENTION, (2, 4), (2, 4)),
        ({"embedding": 0, "hidden": 0}, Want.ATTENTION, (), (2, 4)),
        ({"hidden": 0, "attention": 0}, Want.HIDDEN, (0,), ()),
    ],
)
def test_it_asks_for_nothing_that_has_no_weight(off, want, hidden, heads):
    objective = TinyBERT(**off)
    mine, theirs = objective.requests(shape(layers=2), shape())
    assert theirs == Request(want, hidden=hidden, heads=heads)
    assert mine.want == Want.LOGITS | want
    assert (mine.hidden, mine.heads) == (tuple(x // 2 for x in hidden), tuple(x // 2 for x in heads))
    assert wants(1.0 * objective) == want
    assert wants(0.0 * objective) == Want.NOTHING


def test_what_does_not_fit_is_refused_with_the_remedy():
    with pytest.raises(MismatchError, match=r"(?s)student has 3 and the teacher 2.*2 heads.*attention to 0.*minilmv2"):
        TinyBERT().requests(shape(layers=2, heads=3), shape())
    TinyBERT(attention=0).requests(shape(layers=2, heads=3), shape())
    with pytest.raises(KnobError, match="nothing to compare"):
        TinyBERT(embedding=0, hidden=0, attention=0).requests(shape(), shape())
    with pytest.raises(KnobError, match="no layer 5"):
        TinyBERT(layers="2,5").requests(shape(layers=2), shape())
    assert misfits(1.0 * TinyBERT(), TaskInfo(kind="generate", vocab_size=9))


def real_batch(padding=0):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (3, 9), generator=generator)
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 6:] = 0
    extra = torch.zeros(3, padding, dtype=torch.long)
    inputs = {"input_ids": torch.cat([ids, extra], 1), "attention_mask": torch.cat([mask, extra], 1)}
    return Batch(TASK, torch.arange(3), torch.tensor([0, 1, 2]), torch.ones(3, dtype=torch.bool), inputs)


def real(objective, student, teacher, some):
    mine, theirs = objective.requests(shape_of(student), shape_of(teacher))
    with torch.no_grad():
        said = forward(teacher, some, theirs)
    return weighted_sum(objective, forward(student, some, mine), said, some)


def test_a_student_that_equals_its_teacher_has_nothing_to_learn():
    teacher, student = (install(make_classifier(("a", "b", "c")).double()) for _ in range(2))
    total, shown = real(TinyBERT(), student, teacher, real_batch())
    total.backward()
    found = [parameter.grad.abs().max().item() for parameter in student.parameters() if parameter.grad is not None]
    assert {name: value.item() for name, value in shown.items()} == {"embedding": 0, "hidden": 0, "attention": 0}
    assert found
    assert max(found) == 0


@pytest.mark.parametrize("knobs", [{}, {"embedding": 0, "hidden": 0}, {"attention": 0}])
def test_a_real_student_learns_and_padding_changes_nothing(knobs):
    teacher = install(make_classifier(("a", "b", "c")).double())
    student = install(make_classifier(("a", "b", "c"), layers=2, seed=1).double())
    objective = TinyBERT(**knobs)
    first, _ = real(objective, student, teacher, real_batch())
    assert real(objective, student, teacher, real_batch(padding=4))[0].item() == pytest.approx(first.item(), abs=1e-12)
    optimiser = torch.optim.Adam(student.parameters(), lr=1e-3)
    for _ in range(5):
        optimiser.zero_grad()
        total, _ = real(objective, student, teacher, real_batch())
        total.backward()
        optimiser.step()
    assert total.item() < 0.9 * first.item()


@pytest.mark.parametrize(
    ("shrink", "parameters"),
    [
        (Shrink(layers=4, hidden=312, heads=12, feed_forward=1200), 14_350_248),  # TinyBERT4
        (Shrink(layers=6), 66_955_008),  # TinyBERT6
        (Shrink(layers=3), 45_691_392),  # PKD with 3 layers
    ],
)
def test_published_sizes(shrink, parameters):
    with torch.device("meta"):
        base = BertModel(BertConfig())
    sizes = shrink.sizes(sizes_of(base.config))
    student = empty_model(base, resized(base.config, sizes, kept_layers("spread", 12, sizes.layers)), "meta")
    assert student.num_parameters() == parameters
    widths = TinyBERT().bridges(shape_of(student), shape_of(base))
    bridges = sum((mine + 1) * theirs for mine, theirs in widths.values())  # a weight and a bias
    assert parameters + bridges == (14_590_632 if sizes.hidden == 312 else parameters)


def test_the_recipe_compares_layers_first_and_answers_last():
    (name, stage), *rest = TINYBERT.stages(TASK).items()
    assert (name, rest) == ("intermediate", [])
    assert from_table(stage.objective).weighted == ((1.0, TinyBERT()),)
    assert (stage.epochs, stage.decay) == (10.0, "constant")
    assert TINYBERT.objective(TASK).weighted == ((1.0, SoftTargets(temperature=1.0)),)
    assert TINYBERT.objective(TaskInfo(kind="regress")).weighted == ((1.0, LogitRegression()),)
    assert not misfits(TINYBERT_GENERAL.objective(TASK), TaskInfo(kind="mask-fill", vocab_size=9))
