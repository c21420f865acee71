"""A teacher's logits as a column, found by the content of a row."""

import pytest
import torch
from datasets import Dataset

import limbeck
from limbeck.core.errors import DataError, MismatchError
from tiny import make_classifier, make_rows, make_tokenizer
from tiny_language import make_masked


@pytest.fixture
def rows():
    texts = [row["text"] for row in make_rows(20)]
    return Dataset.from_dict({**make_tokenizer()(texts), "text": texts, "labels": [0, 1] * 10})


def direct(teacher, row):
    with torch.no_grad():
        return teacher(torch.tensor([row["input_ids"]])).logits[0]


def test_every_row_has_its_own_logits_however_it_is_shuffled(tmp_path, rows):
    teacher = make_classifier()
    cache = limbeck.TeacherCache(tmp_path, teacher)
    cache.fill(rows, batch_size=7)
    shuffled = cache.attach(rows.shuffle(seed=3).select(range(9)))
    assert shuffled.column_names == [*rows.column_names, "teacher_logits"]
    for row in shuffled:
        assert torch.allclose(torch.tensor(row["teacher_logits"]), direct(teacher, row), atol=1e-5)
    assert cache.attach(shuffled)["teacher_logits"] == shuffled["teacher_logits"]


def test_padding_labels_and_segments_of_zeros_do_not_matter(tmp_path, rows):
    cache = limbeck.TeacherCache(tmp_path, make_classifier())
    cache.fill(rows)
    padded = make_tokenizer()(list(rows["text"]), padding="max_length", max_length=32)
    bare = Dataset.from_dict({"input_ids": padded["input_ids"], "attention_mask": padded["attention_mask"]})
    assert cache.attach(bare)["teacher_logits"] == cache.attach(rows)["teacher_logits"]
    assert cache.attach(rows.with_format("torch"))[:]["teacher_logits"].shape == (20, 2)


def test_what_is_kept_is_not_asked_again(tmp_path, rows, monkeypatch):
    limbeck.TeacherCache(tmp_path, make_classifier()).fill(rows.select(range(12)))
    teacher = make_classifier()
    asked = []
    forward = teacher.forward
    monkeypatch.setattr(
        teacher, "forward", lambda input_ids, **more: asked.append(len(input_ids)) or forward(input_ids, **more)
    )
    again = limbeck.TeacherCache(tmp_path, teacher)
    again.fill(rows, batch_size=100)
    assert max(asked) == 8
    asked.clear()
    again.fill(rows)
    assert asked == []


def test_what_does_not_fit_is_refused(tmp_path, rows):
    cache = limbeck.TeacherCache(tmp_path / "a", make_classifier())
    with pytest.raises(MismatchError, match="no answer for 20 of 20 rows"):
        cache.attach(rows)
    with pytest.raises(DataError, match="no column input_ids"):
        cache.fill(rows.select_columns(["text"]))
    cache.fill(rows)
    with pytest.raises(MismatchError, match="another"):
        limbeck.TeacherCache(tmp_path / "a", make_classifier(seed=1))
    with pytest.raises(MismatchError, match="keeps classifiers"):
        limbeck.TeacherCache(tmp_path / "b", make_masked()).fill(rows)
