"""Taggers and readers made smaller keep what they answer with."""

import pytest
import torch
from transformers import DistilBertConfig, DistilBertForQuestionAnswering, DistilBertForTokenClassification

from limbeck import Shrink
from tiny import VOCABULARY, make_tokenizer
from tiny_places import make_reader, make_tagger

HEADS = {"tag": "classifier", "answer": "qa_outputs"}
BERTS = {"tag": make_tagger, "answer": make_reader}
DISTILBERTS = {"tag": DistilBertForTokenClassification, "answer": DistilBertForQuestionAnswering}


def assert_same_head(student, teacher, kind):
    ours, theirs = getattr(student, HEADS[kind]), getattr(teacher, HEADS[kind])
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    assert student.config.id2label == teacher.config.id2label
    inputs = make_tokenizer()("the plot was dull", return_tensors="pt")
    assert student(**{name: inputs[name] for name in ("input_ids", "attention_mask")})[0].shape[:2] == (1, 6)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("shape", [{"layers": 2}, {"family": "albert"}, {"groups": 1}, {"family": "mobilebert"}])
def test_the_head_is_the_teachers(kind, shape):
    teacher = BERTS[kind](layers=4)
    student, inherited = Shrink(**shape).build(teacher)
    assert type(student).__name__.endswith(type(teacher).__name__.removeprefix("Bert"))
    assert not [name for name in inherited.fresh if HEADS[kind] in name]
    assert_same_head(student, teacher, kind)


@pytest.mark.parametrize("kind", HEADS)
def test_a_distilbert_loses_layers_only(kind):
    torch.manual_seed(0)
    shape = DistilBertConfig(vocab_size=len(VOCABULARY), dim=32, hidden_dim=64, n_layers=4, n_heads=4)
    teacher = DISTILBERTS[kind](shape).eval()
    student, inherited = Shrink(layers=2).build(teacher)
    assert type(student) is type(teacher)
    assert student.config.n_layers == 2
    assert not inherited.fresh
    assert_same_head(student, teacher, kind)


@pytest.mark.parametrize("kind", HEADS)
def test_a_narrower_head_is_cut_from_the_teachers(kind):
    teacher = BERTS[kind]()
    student, inherited = Shrink(hidden=16).build(teacher)
    assert getattr(student, HEADS[kind]).weight.shape[1] == 16
    assert torch.equal(getattr(student, HEADS[kind]).bias, getattr(teacher, HEADS[kind]).bias)
    assert not inherited.fresh
