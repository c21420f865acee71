"""Opening taggers and readers, and refusing what is neither."""

import pytest
import torch
from transformers import BertModel

from limbeck.core.errors import MismatchError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.students.open_places import open_reader, open_tagger
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
    model, tokenizer = open_tagger(saved(made, tmp_path / "t"), task=TASK)
    assert same(model, made)
    assert tokenizer.is_fast
    assert not model.training
    again, _ = open_tagger(tmp_path / "t", task=TASK, fresh=True)  # the same tags: nothing to begin anew
    assert same(again, made)


def test_a_reader_comes_back_as_it_was(tmp_path):
    made = make_reader()
    assert same(open_reader(saved(made, tmp_path / "r"))[0], made)
    assert same(open_reader(tmp_path / "r", fresh=True)[0], made)


@pytest.mark.parametrize("kind", ["encoder", "classifier of as many classes"])
def test_what_has_no_head_for_it_is_refused_and_can_get_one(tmp_path, kind):
    made = make_classifier(labels=TAGS, layers=2)
    if kind == "encoder":
        made = BertModel(made.config)
    folder = saved(made, tmp_path / "m")
    with pytest.raises(ModelError, match="has no tagging head") as caught:
        open_tagger(folder, task=TASK)
    assert "limbeck train --task tag" in caught.value.remedy
    with pytest.raises(ModelError, match="has no question-answering head"):
        open_reader(folder)
    torch.manual_seed(1)
    first, _ = open_tagger(folder, task=TASK, fresh=True)
    torch.manual_seed(2)
    second, _ = open_tagger(folder, task=TASK, fresh=True)
    assert first.config.id2label == dict(enumerate(TAGS))
    assert not torch.equal(first.classifier.weight, second.classifier.weight)
    encoder = made if kind == "encoder" else made.bert
    assert torch.equal(first.bert.embeddings.word_embeddings.weight, encoder.embeddings.word_embeddings.weight)
    reader, _ = open_reader(folder, fresh=True)
    assert reader.qa_outputs.out_features == 2
    saved(reader, tmp_path / "again")
    assert same(open_reader(tmp_path / "again")[0], reader)


def test_a_tagger_of_other_tags(tmp_path):
    folder = saved(make_tagger(("O", "B-A", "I-A", "B-B")), tmp_path / "t")
    with pytest.raises(MismatchError, match="tags with O, B-A"):
        open_tagger(folder, task=TASK)
    torch.manual_seed(0)
    anew, _ = open_tagger(folder, task=TASK, fresh=True)
    assert anew.config.id2label == dict(enumerate(TAGS))
    fewer, _ = open_tagger(folder, task=TaskInfo(kind="tag", labels=("O", "X")), fresh=True)
    assert fewer.classifier.out_features == 2


def test_names_are_given_to_tags_that_have_none(tmp_path):
    folder = saved(make_tagger(tuple(f"LABEL_{n}" for n in range(4))), tmp_path / "t")
    assert open_tagger(folder, task=TASK)[0].config.id2label == dict(enumerate(TAGS))
