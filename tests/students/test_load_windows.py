"""Opening taggers and readers, and refusing what is neither."""

import pytest
import torch
from transformers import BertModel

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.students.load import load
from tiny import make_classifier, make_tokenizer
from tiny_places import TAGS, make_reader, make_tagger

TASK = TaskInfo(kind="tag", labels=TAGS)


def saved(model, folder):
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def same(model, other):
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_a_tagger_comes_back_as_it_was(tmp_path):
    made = make_tagger()
    model, tokenizer = load(saved(made, tmp_path / "t"), "tag", TASK)
    assert same(model, made)
    assert tokenizer.is_fast
    assert not model.training
    again, _ = load(tmp_path / "t", "tag", TASK, new_head=True)  # the same tags: nothing to begin anew
    assert same(again, made)


def test_a_reader_comes_back_as_it_was(tmp_path):
    made = make_reader()
    assert same(load(saved(made, tmp_path / "r"), "answer")[0], made)
    assert same(load(tmp_path / "r", "answer", new_head=True)[0], made)


@pytest.mark.parametrize("kind", ["encoder", "classifier of as many classes"])
def test_what_has_no_head_for_it_is_refused_and_can_get_one(tmp_path, kind):
    made = make_classifier(labels=TAGS, layers=2)
    if kind == "encoder":
        made = BertModel(made.config)
    folder = saved(made, tmp_path / "m")
    with pytest.raises(ModelError, match="has no token-classification head") as caught:
        load(folder, "tag", TASK)
    assert "limbeck train --task tag" in caught.value.remedy
    with pytest.raises(ModelError, match="has no question-answering head"):
        load(folder, "answer")
    torch.manual_seed(1)
    first, _ = load(folder, "tag", TASK, new_head=True)
    torch.manual_seed(2)
    second, _ = load(folder, "tag", TASK, new_head=True)
    assert first.config.id2label == dict(enumerate(TAGS))
    assert not torch.equal(first.classifier.weight, second.classifier.weight)
    encoder = made if kind == "encoder" else made.bert
    assert torch.equal(first.bert.embeddings.word_embeddings.weight, encoder.embeddings.word_embeddings.weight)
    reader, _ = load(folder, "answer", new_head=True)
    assert reader.qa_outputs.out_features == 2
    saved(reader, tmp_path / "again")
    assert same(load(tmp_path / "again", "answer")[0], reader)


def test_a_tagger_of_other_tags(tmp_path):
    folder = saved(make_tagger(("O", "B-A", "I-A", "B-B")), tmp_path / "t")
    with pytest.raises(MismatchError, match="has the labels O, B-A"):
        load(folder, "tag", TASK)
    torch.manual_seed(0)
    anew, _ = load(folder, "tag", TASK, new_head=True)
    assert anew.config.id2label == dict(enumerate(TAGS))
    fewer, _ = load(folder, "tag", TaskInfo(kind="tag", labels=("O", "X")), new_head=True)
    assert fewer.classifier.out_features == 2


def test_names_are_given_to_tags_that_have_none(tmp_path):
    folder = saved(make_tagger(tuple(f"LABEL_{n}" for n in range(4))), tmp_path / "t")
    assert load(folder, "tag", TASK)[0].config.id2label == dict(enumerate(TAGS))
