"""A DistilBERT cut from a BERT: the published counts, and every tensor where it belongs."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    DistilBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from limbeck.core.errors import KnobError, ModelError
from limbeck.students.shrink import Shrink
from tiny import make_classifier
from tiny_language import make_masked

SIX = [0, 2, 4, 7, 9, 11]


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def cut(teacher, layers=0, **how):
    layers = layers or (0 if "keep" in how else teacher.config.num_hidden_layers)
    return Shrink(layers=layers, family="distilbert", **how).build(teacher)


def test_the_counts_of_bert():
    with torch.device("meta"):
        assert parameters(BertModel(BertConfig())) == 109_482_240
        assert parameters(BertForPreTraining(BertConfig())) == 110_106_428


def test_the_counts_of_distilbert():
    with torch.device("meta"):
        teacher = BertForMaskedLM(BertConfig())
    student, inheritance = cut(teacher, layers=6)
    assert student.device.type == "meta"
    assert parameters(student.distilbert) == 66_362_880
    assert parameters(student) == 66_985_530
    assert inheritance.layers == SIX
    assert inheritance.whole == 106
    # Word and position embeddings, their norm, 16 tensors per layer, weight and bias of the projection.
    transform = [name for name in student.state_dict() if name.startswith(("vocab_transform", "vocab_layer_norm"))]
    assert inheritance.whole - len(transform) == 2 + 2 + 6 * 16 + 2 == 102


@pytest.fixture(scope="module")
def teacher():
    """Every tensor its own, so that a mix-up shows."""
    model = make_masked(layers=12)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def test_every_tensor_is_copied_bit_for_bit(teacher):
    student, inheritance = cut(teacher, layers=6)
    assert isinstance(student, DistilBertForMaskedLM)
    assert inheritance.layers == SIX
    mine, theirs = student.state_dict(), teacher.state_dict()
    pairs = 0
    for place, layer in enumerate(SIX):
        here = {name: x for name, x in mine.items() if name.startswith(f"distilbert.transformer.layer.{place}.")}
        there = [x for name, x in theirs.items() if name.startswith(f"bert.encoder.layer.{layer}.")]
        assert len(here) == len(there) == 16
        for name, tensor in here.items():
            assert sum(tensor.shape == x.shape and torch.equal(tensor, x) for x in there) == 1, name
            pairs += 1
    rest = {name: x for name, x in mine.items() if ".layer." not in name}
    for name, tensor in rest.items():
        assert any(tensor.shape == x.shape and torch.equal(tensor, x) for x in theirs.values()), name
    assert pairs + len(rest) == inheritance.whole == len(mine)
    assert student.get_output_embeddings().weight is student.get_input_embeddings().weight
    assert "token_type" in inheritance.sentence()
    assert "106 tensors copied whole" in inheritance.sentence()


@pytest.mark.parametrize("tied", [True, False])
def test_with_all_layers_and_no_segments_it_says_what_the_teacher_says(tied):
    """So each tensor is not only copied but used in the same way."""
    teacher = make_masked(layers=3, tie_word_embeddings=tied)
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in teacher.named_parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
            if "token_type" in name:
                parameter.zero_()
    student, inheritance = cut(teacher)
    assert inheritance.layers == [0, 1, 2]
    inputs = {"input_ids": torch.randint(5, 30, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.int64)}
    inputs["attention_mask"][1, 5:] = 0
    real = inputs["attention_mask"].bool()
    a, b = (model(**inputs, output_hidden_states=True) for model in (teacher, student))
    assert torch.allclose(a.logits[real], b.logits[real], atol=1e-5)
    assert torch.allclose(a.hidden_states[-1][real], b.hidden_states[-1][real], atol=1e-5)


def test_it_comes_back_from_disk(teacher, tmp_path):
    student, _ = cut(teacher, layers=2)
    student.save_pretrained(tmp_path)
    again = DistilBertForMaskedLM.from_pretrained(tmp_path)
    assert all(torch.equal(x, again.state_dict()[name]) for name, x in student.state_dict().items())
    assert again.config.n_layers == 2


def test_a_teacher_with_both_heads_serves(tmp_path):
    student, inheritance = cut(make_masked(layers=2, pairs=True), layers=1)
    assert inheritance.whole == 4 + 16 + 6
    assert isinstance(student, DistilBertForMaskedLM)


def test_other_layers_can_be_named(teacher):
    _, inheritance = cut(teacher, keep="1,5")
    assert inheritance.layers == [1, 5]


def test_what_is_no_bert_with_a_head_is_refused():
    torch.manual_seed(0)
    roberta = RobertaForMaskedLM(
        RobertaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    )
    for other in (roberta, make_masked(heads=False), make_classifier(hidden=16)):
        with pytest.raises(ModelError, match=f"not from {type(other).__name__}\n.*--student.family same"):
            cut(other, layers=1)


@pytest.mark.parametrize("narrow", [{"hidden": 8}, {"heads": 1}, {"feed_forward": 8}])
def test_a_narrower_one_is_refused(narrow):
    with pytest.raises(KnobError, match="has the teacher's width"):
        cut(make_masked(), layers=1, **narrow)
