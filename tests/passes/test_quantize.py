"""Weight-only quantisation: what becomes integers, what stays float, and what is said."""

import copy

import pytest
import torch
from torch import nn

import limbeck
from limbeck import Mask, Quantize
from limbeck.core.compress import PASSES
from limbeck.core.errors import KnobError, ModelError
from limbeck.core.layers import QuantizedEmbedding, QuantizedLinear, layers_of
from limbeck.functional.quantise import quantise
from limbeck.students.shrink import shrink
from passes.calibrating import rows
from students.tiny_encoders import classifier
from tiny_language import byte_level, make_causal, make_masked


def test_at_8_bits_linear_layers_and_tables_have_a_scale_per_channel():
    model = classifier("bert")
    small = copy.deepcopy(model)
    change = Quantize(affine=False).apply(small, Mask())
    matrices = {name for name, one in model.named_modules() if isinstance(one, nn.Linear | nn.Embedding)}
    assert layers_of(small).keys() == matrices
    for name in matrices:
        layer, weight = small.get_submodule(name), model.get_submodule(name).weight
        assert (layer.codes.dtype, layer.scales.shape) == (torch.int8, (len(weight), 1))
        assert torch.equal(layer.weight, quantise(weight.detach()).numbers)
        assert ((layer.weight - weight).abs() <= layer.scales / 2 * 1.0001).all()
    kept = {name: one for name, one in model.named_parameters() if not any(name == f"{m}.weight" for m in matrices)}
    after = dict(small.named_parameters())
    assert after.keys() == kept.keys()
    assert all(torch.equal(after[name], one) for name, one in kept.items())
    assert change.figures["layers"] == len(matrices)
    assert change.figures["bytes_before"] == 4 * sum(one.numel() for one in model.parameters())
    assert change.note.startswith(f"{len(matrices)} of {len(matrices)} matrices have 8 bits")


@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("affine", [False, True])
def test_at_4_bits_groups_have_scales_and_the_head_stays_float(group, affine):
    model = classifier("distilbert")
    small = limbeck.compress(model, [Quantize(bits=4, group=group, affine=affine)])
    assert type(small.classifier) is type(small.pre_classifier) is nn.Linear
    layer, weight = (
        small.distilbert.transformer.layer[0].ffn.lin2,
        model.distilbert.transformer.layer[0].ffn.lin2.weight,
    )
    assert (layer.codes.dtype, layer.codes.shape, layer.scales.shape) == (torch.uint8, (32, 32), (32, 64 // group))
    assert torch.equal(layer.weight, quantise(weight.detach(), 4, group, affine).numbers)
    assert (layer.zeros is not None) == affine


def test_a_lookup_gives_the_rows_of_the_table():
    table = nn.Embedding(20, 7, padding_idx=2)
    for how in ({}, {"bits": 4}, {"bits": 4, "affine": True, "group": 32}):
        small = limbeck.compress(nn.Sequential(table), [Quantize(**how)])[0]
        ids = torch.tensor([[2, 5], [19, 0]])
        assert torch.equal(small(ids), small.weight[ids])
        assert not small(torch.tensor(2)).any()


def test_tables_may_stay_and_with_them_the_head_that_shares_one():
    small = limbeck.compress(make_masked(hidden=32), [Quantize(embeddings=False)])
    assert not any(isinstance(one, QuantizedEmbedding) for one in small.modules())
    assert small.cls.predictions.decoder.weight is small.bert.embeddings.word_embeddings.weight
    assert isinstance(small.cls.predictions.transform.dense, QuantizedLinear)


def test_gpt2s_transposed_layers_are_quantised_by_output_channel():
    model = make_causal(byte_level(), hidden=32)
    small = limbeck.compress(model, [Quantize(affine=False)])
    before, after = model.transformer.h[0].attn.c_attn, small.transformer.h[0].attn.c_attn
    assert torch.equal(after.weight, quantise(before.weight.detach().T).numbers)
    assert torch.equal(after.bias, before.bias)


def test_layers_that_change_the_outputs_most_stay_float():
    """Measured again here: each quantised alone, the change of the logits on the same rows."""
    model, calibration = shrink(classifier("bert"), layers=2), rows(1)
    with torch.no_grad():  # an outlier coarsens its channels, and the layer shows in the outputs
        model.bert.encoder.layer[1].output.dense.weight[:, 0] = 40.0
    small = copy.deepcopy(model)
    change = Quantize(bits=4, keep_float=2).apply(small, Mask(), calibration)
    alone = {}
    names = layers_of(limbeck.compress(model, [Quantize(bits=4)]))
    for name in (name for name in names if isinstance(model.get_submodule(name), nn.Linear)):
        one = copy.deepcopy(model)
        weight = one.get_submodule(name).weight
        with torch.no_grad():
            weight.copy_(quantise(weight, 4, 64, affine=True).numbers)
            changes = [one(**each.inputs).logits - model(**each.inputs).logits for each in calibration.batches]
        alone[name] = float(sum(each.double().square().sum() for each in changes))
    worst = sorted(alone, key=lambda name: -alone[name])[:2]
    assert names.keys() - layers_of(small).keys() == set(worst)
    assert worst[0] == "bert.encoder.layer.1.output.dense"
    assert f"Float, since they change the outputs most: {worst[0]} (" in change.note
    assert torch.equal(small.bert.encoder.layer[1].output.dense.weight, model.bert.encoder.layer[1].output.dense.weight)


def test_measuring_leaves_the_weights_as_they_were():
    model = make_causal(byte_level(), hidden=32)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    Quantize(keep_float=99, embeddings=False).apply(model, Mask(), rows(1))
    assert layers_of(model) == {}
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def test_a_table_stays_float_by_its_own_knob_alone():
    """It may be most of the file."""
    small = copy.deepcopy(classifier("bert"))
    Quantize(keep_float=99).apply(small, Mask(), rows(1))
    assert {entry["type"] for entry in layers_of(small).values()} == {"QuantizedEmbedding"}


def test_without_rows_no_layer_can_be_chosen():
    model = classifier("bert")
    with pytest.raises(KnobError, match="there are none"):
        Quantize(keep_float=1).apply(model, Mask())
    assert layers_of(model) == {}


def test_bad_knobs_and_weights_are_refused():
    for knobs in ({"bits": 3}, {"group": 5}, {"keep_float": -1}):
        with pytest.raises(KnobError):
            Quantize(**knobs)
    broken = nn.Sequential(nn.Linear(3, 3))
    with torch.no_grad():
        broken[0].weight[0, 0] = torch.inf
    with pytest.raises(ModelError, match="the weights of 0 are not all finite"):
        Quantize().apply(broken, Mask())


def test_it_is_registered_with_its_paper():
    assert PASSES["quantize"].cls is Quantize
    assert "1712.05877" in PASSES["quantize"].paper.url
