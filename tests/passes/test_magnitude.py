"""Magnitude pruning by hand: which weights go, how many, and of equals which."""

import math

import pytest
import torch
from torch import nn
from transformers import AutoConfig, BertForSequenceClassification

import limbeck
from limbeck.core.compress import PASSES, Mask
from limbeck.core.errors import KnobError
from limbeck.data.sources.demo import demo_model
from limbeck.jobs.ticket_settings import ENCODER
from limbeck.passes.magnitude import Magnitude
from tiny import make_classifier


def net(*layers):
    """Linear layers with these weights."""
    found = []
    for rows in layers:
        layer = nn.Linear(len(rows[0]), len(rows))
        layer.weight = nn.Parameter(torch.tensor(rows, dtype=torch.float32))
        found.append(layer)
    return nn.Sequential(*found)


FIRST = [[0.5, -0.1, 2.0, -3.0], [0.05, 0.7, -0.2, 1.0]]
SECOND = [[0.01, -0.3], [0.02, 4.0]]


def values(model):
    return [[round(value, 4) for value in layer.weight.flatten().tolist()] for layer in model]


def test_of_each_layer_the_smallest_go():
    model = net(FIRST, SECOND)
    change = Magnitude(fraction=0.5).apply(model, Mask())
    assert values(model) == [[0, 0, 2.0, -3.0, 0, 0.7, 0, 1.0], [0, -0.3, 0, 4.0]]
    assert (change.mask.remaining, change.mask.total) == (6, 12)
    assert change.note == "6 of 12 weights remain (50.0 %)."
    assert change.mask.live["0.weight"].tolist() == [[False, False, True, True], [False, True, False, True]]


def test_of_all_layers_together_the_smallest_go():
    """|w| in order: .01 .02 .05 .1 .2 .3 | .5 .7 1 2 3 4."""
    model = net(FIRST, SECOND)
    change = Magnitude(fraction=0.5, scope="global").apply(model, Mask())
    assert values(model) == [[0.5, 0, 2.0, -3.0, 0, 0.7, 0, 1.0], [0, 0, 0, 4.0]]
    assert [int(live.sum()) for live in change.mask.live.values()] == [5, 1]


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_what_went_is_not_counted_and_never_returns(scope):
    model, mask, left = net(FIRST, SECOND), Mask(), []
    for _ in range(4):
        before = mask
        mask = Magnitude(fraction=0.25, scope=scope).apply(model, mask).mask
        left.append([int(live.sum()) for live in mask.live.values()])
        assert (mask & before if before.live else mask).checksum == mask.checksum
        with torch.no_grad():  # grown again, and large: it stays out
            for layer, live in zip(model, mask.live.values(), strict=True):
                layer.weight[~live] = 9.0
    # round(n / 4) of those that live: 8 6 4 3 2, 4 3 2 2 2 (round(2/4) is 0); together 12 9 7 5 4
    assert (left if scope == "layer" else [sum(one) for one in left]) == (
        [[6, 3], [4, 2], [3, 2], [2, 2]] if scope == "layer" else [9, 7, 5, 4]
    )
    mask.hold(model)
    assert max(abs(value) for layer in values(model) for value in layer) == 4.0


def test_of_equals_the_first_go():
    model = net([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
    Magnitude(fraction=0.5).apply(model, Mask())
    assert values(model) == [[0, 0, 0, -1.0, 1.0, 1.0]]
    both = net([[1.0, 1.0]], [[1.0], [-1.0]])
    Magnitude(fraction=0.25, scope="global").apply(both, Mask())
    assert values(both) == [[0, 1.0], [1.0, -1.0]]


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("scope", ["layer", "global"])
def test_counts_are_exact(fraction, scope):
    model = make_classifier(layers=1)
    sizes = [live.numel() for live in Mask.full(model).live.values()]
    found = Magnitude(fraction=fraction, scope=scope).apply(model, Mask()).mask
    if scope == "layer":
        assert [int(live.sum()) for live in found.live.values()] == [n - round(fraction * n) for n in sizes]
    assert found.remaining == sum(n - round(fraction * n) for n in (sizes if scope == "layer" else [sum(sizes)]))


def test_biases_norms_and_embeddings_stay_whole():
    model = make_classifier(layers=1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    mask = Magnitude(fraction=0.5).apply(model, Mask()).mask
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == (name not in mask.live), name


def test_weights_that_were_0_are_the_smallest():
    model = net([[0.0, 3.0, 0.0, 1.0]])
    change = Magnitude(fraction=0.25).apply(model, Mask())
    assert change.mask.live["0.weight"].tolist() == [[False, True, True, True]]


def test_a_model_without_such_weights_stays_as_it_is():
    change = Magnitude(fraction=0.5).apply(nn.Sequential(nn.LayerNorm(3)), Mask())
    assert (change.mask.remaining, change.note) == (0, "0 of 0 weights remain (0.0 %).")


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2.0])
def test_a_fraction_that_leaves_nothing_is_refused(fraction):
    with pytest.raises(KnobError, match="knob 'fraction' cannot be"):
        Magnitude(fraction=fraction)


def test_it_is_registered_with_its_paper():
    assert PASSES["magnitude"].cls is Magnitude
    assert PASSES["magnitude"].paper.year == 2015


def test_compress_changes_a_copy_and_counts_what_was_pruned_before():
    model = net(FIRST, SECOND)
    once = limbeck.compress(model, [Magnitude(0.5)])
    assert values(model) == values(net(FIRST, SECOND))
    assert values(once) == [[0, 0, 2.0, -3.0, 0, 0.7, 0, 1.0], [0, -0.3, 0, 4.0]]
    twice = limbeck.compress(model, [Magnitude(0.5), Magnitude(0.5, scope="global")])
    assert values(twice) == values(limbeck.compress(once, [Magnitude(0.5, "global")]))
    assert values(twice) == [[0, 0, 2.0, -3.0, 0, 0, 0, 0], [0, 0, 0, 4.0]]
    assert (Mask.of(twice).remaining, Mask.of(twice).total) == (3, 12)


def test_too_many_knobs_in_order_are_refused():
    with pytest.raises(TypeError, match="5 knobs"):
        Magnitude(0.5, "layer", "all", 1.0, {}, 3)


def test_fractions_of_all_add_up_round_after_round():
    """Chen et al.: 10, 20, … 90 % of the original count, within one weight."""
    model, mask = nn.Sequential(nn.Linear(37, 29), nn.Linear(29, 11)), Mask()
    total = 37 * 29 + 29 * 11
    for number in range(1, 10):
        mask = Magnitude(fraction=0.1, scope="global", part_of="all").apply(model, mask).mask
        assert abs(mask.total - mask.remaining - 0.1 * number * total) <= 0.5


def test_fractions_of_what_lives_leave_the_papers_shares():
    model, mask, shares = nn.Sequential(nn.Linear(100, 100, bias=False)), Mask(), []
    for _ in range(10):
        mask = Magnitude(fraction=0.2).apply(model, mask).mask
        shares.append(round(100 * mask.remaining / mask.total, 1))
    assert shares == [80.0, 64.0, 51.2, 41.0, 32.8, 26.2, 21.0, 16.8, 13.4, 10.7]


def test_ten_weights_lose_exactly_the_two_smallest():
    model = net([[float(n) for n in range(1, 11)]])
    change = Magnitude(fraction=0.2).apply(model, Mask())
    assert change.mask.live["0.weight"].tolist() == [[False, False, *[True] * 8]]


def test_the_layer_that_answers_may_lose_less_or_nothing():
    model = net([[1.0] * 10] * 10, [[float(n) for n in range(10)]] * 10)
    change = Magnitude(fraction=0.2, head=0.5).apply(model, Mask())
    assert [int(live.sum()) for live in change.mask.live.values()] == [80, 90]
    model = make_classifier(layers=1)
    change = Magnitude(fraction=0.5, scope="global", head=0.0).apply(model, Mask())
    assert not [name for name in change.mask.live if not name.startswith("bert.")]
    assert model.classifier.weight.all()


def test_layers_have_rates_of_their_own():
    model = net(FIRST, SECOND)
    change = Magnitude(fraction=0.5, rates={"1.weight": 0.25}).apply(model, Mask())
    assert [int(live.sum()) for live in change.mask.live.values()] == [4, 3]
    again = Magnitude(fraction=0.5, rates={"1.weight": 0.0}).apply(model, change.mask)
    assert [int(live.sum()) for live in again.mask.live.values()] == [2, 3], "what went does not return"


@pytest.mark.parametrize(
    "knobs",
    [{"fraction": 1.0}, {"fraction": -0.1}, {"rates": {"0": 1.0}}, {"scope": "global", "head": 0.5}, {"head": 5.0}],
)
def test_what_cannot_be_is_refused(knobs):
    with pytest.raises(KnobError):
        Magnitude(**knobs)


def test_a_rate_for_a_layer_that_is_not_there_is_refused():
    with pytest.raises(KnobError, match="has 'classifier' in its name"):
        Magnitude(rates={"classifier": 0.1}).apply(net(FIRST), Mask())


def test_minilm_loses_a_tenth_of_its_prunable_weights_each_round():
    """Chen et al.: encoder and pooler are pruned, together; embeddings, biases, norms and the head stay whole."""
    model = BertForSequenceClassification(AutoConfig.from_pretrained(demo_model()))  # random weights count the same
    assert sum(parameter.numel() for parameter in model.bert.parameters()) == 22_713_216
    mask = Mask()
    for number in range(1, 10):
        mask = ENCODER.apply(model, mask).mask
        assert (mask.total, mask.total - mask.remaining) == (10_764_288, round(number * 10_764_288 / 10))
    amounts = [1 / (10 - number) for number in range(9)]  # of what lives, as Chen et al.'s code has them
    assert amounts[0] == 0.1
    assert math.prod(1 - amount for amount in amounts) == pytest.approx(mask.remaining / mask.total, abs=1e-6)
