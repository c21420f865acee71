"""Low rank: which layers are factored, by which rule, what they keep, and what is said."""

import copy

import pytest
import torch
from torch import nn

import limbeck
from limbeck import LowRank, Mask
from limbeck.core.compress import PASSES
from limbeck.core.errors import KnobError, ModelError
from limbeck.core.layers import LowRankEmbedding, LowRankLinear, layers_of
from limbeck.passes.calibration import second_moments
from passes.calibrating import batch_of, rows
from students.tiny_encoders import classifier
from tiny_language import make_masked


def ranks(model):
    return {name: entry["rank"] for name, entry in layers_of(model).items()}


def error(small, model, calibration):
    with torch.no_grad():
        pairs = [(small(**one.inputs).logits, model(**one.inputs).logits) for one in calibration.batches]
    return float(sum((a - b).square().sum() for a, b in pairs))


def test_a_layer_of_low_rank_is_exact_and_its_bias_belongs_to_the_second_factor():
    torch.manual_seed(0)
    layer = nn.Linear(40, 30)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(30, 5) @ torch.randn(5, 40))
    small = limbeck.compress(nn.Sequential(layer), [LowRank(energy=0.999999)])
    assert ranks(small) == {"0": 5}
    assert torch.equal(small[0].second.bias, layer.bias)
    assert small[0].first.bias is None
    x = torch.randn(7, 40)
    torch.testing.assert_close(small(x), layer(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
def test_a_ratio_is_a_budget_for_all_layers_together(ratio):
    model = classifier("bert")
    small = copy.deepcopy(model)
    change = LowRank(ratio=ratio).apply(small, Mask(), rows())
    before = {name: model.get_submodule(name).weight for name in layers_of(small)}
    fixed = sum(one.numel() for one in model.parameters())
    eligible = [
        module.weight.numel()
        for name, module in model.named_modules()
        if (isinstance(module, nn.Linear) and name != "classifier") or name.endswith("word_embeddings")
    ]
    limit = fixed - sum(eligible) + ratio * sum(eligible)
    assert limit - 0.05 * fixed < change.figures["parameters_after"] <= limit
    assert change.figures["parameters_before"] == fixed
    assert change.figures["parameters_after"] == sum(one.numel() for one in small.parameters())
    assert change.figures["layers"] == len(before) == len(ranks(small))
    assert all(rank * sum(before[name].shape) < before[name].numel() for name, rank in ranks(small).items())
    assert f"{fixed:,} → " in change.note
    assert "on 9 calibration rows" in change.note
    assert type(small.classifier) is nn.Linear


def test_each_rule_sets_its_own_ranks():
    model = classifier("bert")
    assert set(ranks(limbeck.compress(model, [LowRank(rank=6)])).values()) == {6}
    assert ranks(limbeck.compress(model, [LowRank(rank=30)])) == {}  # of 32 × 32, 32 × 64 and 100 × 32: none is smaller
    loose, tight = (ranks(limbeck.compress(model, [LowRank(tolerance=error)])) for error in (0.8, 0.6))
    assert loose.keys() >= tight.keys()
    assert all(loose[name] <= tight[name] for name in tight)
    assert ranks(limbeck.compress(model, [LowRank(energy=0.64)])) == tight  # 1 − 0.6²


def test_the_tolerance_is_of_the_output_on_calibration_rows():
    model, calibration = classifier("bert"), rows(1)
    small = copy.deepcopy(model)
    LowRank(tolerance=0.4, embeddings=False).apply(small, Mask(), calibration)
    linears = {name: one for name, one in model.named_modules() if isinstance(one, nn.Linear)}
    seen = second_moments(model, linears, calibration.batches)
    assert len(ranks(small)) > 4
    for name in ranks(small):
        weight, moment = linears[name].weight.double(), seen[name]
        lost = weight - small.get_submodule(name).weight.double()
        found = ((lost @ moment * lost).sum() / (weight @ moment * weight).sum()).sqrt()
        assert found <= 0.4 + 1e-5, name


def test_second_moments_are_those_of_the_inputs_without_padding():
    model, calibration = classifier("bert"), rows(2)
    name = "bert.encoder.layer.1.attention.self.key"
    found = second_moments(
        model,
        {name: model.get_submodule(name), "words": model.bert.embeddings.word_embeddings},
        calibration.batches,
    )
    states, counts = [], torch.zeros(100)
    for one in calibration.batches:
        there = one.inputs["attention_mask"].bool()
        with torch.no_grad():
            states.append(model(**one.inputs, output_hidden_states=True).hidden_states[1][there].double())
        counts += torch.bincount(one.inputs["input_ids"][there], minlength=100)
    x = torch.cat(states)
    torch.testing.assert_close(found[name], x.T @ x)
    assert found[name].dtype == torch.float64
    assert torch.equal(found["words"], counts.double())
    assert not model.bert.embeddings.word_embeddings._forward_pre_hooks


def test_a_layer_that_is_used_many_times_sees_all_its_inputs():
    model = classifier("albert")
    name = "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn"
    found = second_moments(model, {name: model.get_submodule(name)}, rows(1).batches)[name]
    seen = []
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, x: seen.append(x[0].detach()))
    inputs = rows(1).batches[0].inputs
    model(**inputs)
    hook.remove()
    x = torch.cat([one[inputs["attention_mask"].bool()] for one in seen]).double()
    assert len(seen) == 4
    torch.testing.assert_close(found, x.T @ x)


def test_what_it_saw_makes_it_better_there():
    model, calibration = classifier("bert"), rows(8)
    aware, plain = (copy.deepcopy(model) for _ in range(2))
    LowRank(rank=8).apply(aware, Mask(), calibration)
    note = LowRank(rank=8, calibrated=False).apply(plain, Mask(), calibration).note
    assert error(aware, model, calibration) < 0.8 * error(plain, model, calibration)
    assert "of the matrices" in note


def test_words_that_occur_keep_more_of_their_vectors():
    model, calibration = classifier("bert"), rows(8)  # words 3 to 39 of 100
    aware, plain = (copy.deepcopy(model) for _ in range(2))
    LowRank(rank=8).apply(aware, Mask(), calibration)
    LowRank(rank=8, calibrated=False).apply(plain, Mask())
    table = model.bert.embeddings.word_embeddings.weight
    off = [(one.bert.embeddings.word_embeddings.weight - table).norm(dim=1) for one in (aware, plain)]
    assert off[0][3:40].square().sum() < off[1][3:40].square().sum()
    assert off[0][40:].square().sum() > off[1][40:].square().sum()


def test_embeddings_may_stay():
    small = limbeck.compress(classifier("bert"), [LowRank(rank=6, embeddings=False)])
    assert isinstance(small.bert.embeddings.word_embeddings, nn.Embedding)
    both = limbeck.compress(classifier("bert"), [LowRank(rank=6)])
    assert isinstance(both.bert.embeddings.word_embeddings, LowRankEmbedding)
    assert both.bert.embeddings.word_embeddings.padding_idx == 0
    assert isinstance(both.bert.embeddings.position_embeddings, nn.Embedding)


def test_a_shared_table_stays_whole_and_that_is_said():
    model = make_masked(hidden=32)
    small = copy.deepcopy(model)
    change = LowRank(ratio=0.6).apply(small, Mask())
    assert type(small.bert.embeddings.word_embeddings) is nn.Embedding
    assert small.cls.predictions.decoder.weight is small.bert.embeddings.word_embeddings.weight
    assert (
        "Shared by several layers, so whole: bert.embeddings.word_embeddings, cls.predictions.decoder." in change.note
    )


def test_factors_are_not_factored_again():
    once = limbeck.compress(classifier("bert"), [LowRank(rank=10)])
    twice = limbeck.compress(once, [LowRank(rank=4)])
    assert {type(one) for one in twice.modules() if hasattr(one, "rank")} <= {LowRankLinear, LowRankEmbedding}
    assert ranks(twice) == ranks(once)


def test_it_is_the_same_twice_and_draws_no_numbers():
    model, before = classifier("bert"), torch.get_rng_state()
    small = [limbeck.compress(model, [LowRank()], rows()) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    states = [one.state_dict() for one in small]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_bad_knobs_and_weights_are_refused():
    with pytest.raises(KnobError, match="only one of energy and rank"):
        LowRank(energy=0.9, rank=4)
    with pytest.raises(KnobError, match="ratio"):
        LowRank(ratio=1.0)
    with pytest.raises(KnobError, match="no ranks leave"):
        LowRank(ratio=0.001).apply(nn.Sequential(nn.Linear(8, 8)), Mask())
    broken = classifier("bert")
    with torch.no_grad():
        broken.bert.encoder.layer[1].output.dense.weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match=r"layer\.1\.output\.dense are not all finite"):
        LowRank().apply(broken, Mask())
    assert layers_of(broken) == {}


def test_a_model_with_nothing_to_factor_stays_as_it_is():
    model = nn.Sequential(nn.LayerNorm(4))
    change = LowRank().apply(model, Mask(), limbeck.core.compress.Calibration([batch_of({"input": torch.ones(2, 4)})]))
    assert change.figures["layers"] == 0
    assert change.note.startswith("0 of 0 layers factored")


def test_it_is_registered_with_its_paper():
    assert PASSES["lowrank"].cls is LowRank
    assert "2403.07378" in PASSES["lowrank"].paper.url
    assert LowRank.calibrates
