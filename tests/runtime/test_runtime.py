"""An exported folder answers as `limbeck.predict` answers from the folder it was made of."""

import shutil

import numpy as np
import pytest
from transformers import AutoTokenizer

import limbeck
import limbeck_runtime
from exported import LONG, TEXTS, folders, same
from limbeck.core.checksum import read_sealed, write_sealed


@pytest.mark.parametrize("kind", ["classify", "multilabel", "regress"])
def test_texts_and_pairs_are_answered_as_from_the_source(kind):
    source, exported = folders(kind)
    model = limbeck_runtime.load(exported)
    assert (model.kind, model.labels) == (kind, tuple(limbeck_runtime.read_facts(exported).labels))
    texts, every = [*TEXTS, LONG], {} if kind == "regress" else {"all_probabilities": True}
    for ours, theirs in zip(model.predict(texts, **every), limbeck.predict(source, texts, **every), strict=True):
        same(ours, theirs)
    pairs = [*TEXTS[1:], LONG, TEXTS[0]]
    rows = list(zip(texts, pairs, strict=True))
    for ours, theirs in zip(model.predict(texts, pairs), limbeck.predict(source, rows), strict=True):
        same(ours, theirs)
    (short,) = limbeck.predict(source, [LONG], max_length=9)
    same(model.predict([LONG], max_length=9)[0], short)


def test_a_batch_and_one_text_alone_agree():
    model = limbeck_runtime.load(folders("classify")[1])
    together = model.logits(TEXTS, batch_size=7)
    alone = np.concatenate([model.logits([text]) for text in TEXTS])
    assert together.shape == (len(TEXTS), 2)
    assert np.allclose(together, alone, atol=1e-5)
    assert model.logits([]).shape == (0, 2)


def test_words_are_tagged_as_from_the_source_also_in_long_texts():
    source, exported = folders("tag")
    rows = [*TEXTS[:8], LONG, "Don't go, film-lover: 東京!"]
    found = limbeck_runtime.load(exported).predict(rows)
    for ours, theirs in zip(found, limbeck.predict(source, rows), strict=True):
        same(ours, theirs)
    assert any(one["entities"] for one in found)
    (words,) = limbeck_runtime.load(exported).predict([["a", "good", "film"]])
    same(words, limbeck.predict(source, [{"tokens": ["a", "good", "film"]}])[0])
    assert limbeck_runtime.load(exported).predict([""]) == [{"words": [], "tags": [], "entities": []}]


@pytest.mark.parametrize("limit", [None, 0.0, -1e9])
def test_questions_are_answered_as_from_the_source(limit):
    source, exported = folders("answer")
    rows = [("the film", text) for text in (*TEXTS[:8], LONG)] + [(LONG, LONG)]
    how = {} if limit is None else {"windows": {"null_threshold": limit}}
    found = limbeck_runtime.load(exported).predict(*zip(*rows, strict=True), null_threshold=limit)
    for ours, theirs in zip(found, limbeck.predict(source, rows, **how), strict=True):
        same(ours, theirs)
    assert any(one["answer"] for one in found) == (limit != -1e9)


def test_masks_are_filled_as_from_the_source():
    source, exported = folders("mask-fill")
    rows = ["the [MASK] is good", "a very [MASK] film and a plot with a [MASK] story"]
    model = limbeck_runtime.load(exported)
    for ours, theirs in zip(model.predict(rows, top=3), limbeck.predict(source, rows, top=3), strict=True):
        same(ours, theirs)
    with pytest.raises(limbeck_runtime.UnusableError, match=r"has no \[MASK\]\n.*write \[MASK\]"):
        model.predict(["the film"])
    with pytest.raises(limbeck_runtime.UnusableError, match="beyond the 64 tokens"):
        model.predict([f"{LONG} [MASK]"])


def test_padding_and_truncation_follow_the_facts(tmp_path):
    """A tokenizer that pads and cuts on the left, and a second type for padding."""
    exported = shutil.copytree(folders("classify")[1], tmp_path / "exported")
    rewrite(exported, padding_side="left", truncation_side="left", pad_type_id=1)
    encoder = limbeck_runtime.load(exported).encoder
    tokenizer = AutoTokenizer.from_pretrained(exported, padding_side="left", truncation_side="left")
    tokenizer._pad_token_type_id = 1
    for first, second in ((["a film", LONG], None), (["a film", LONG], [LONG, "a plot is good"])):
        theirs = tokenizer(first, second, padding=True, truncation=True, max_length=64, return_tensors="np")
        ours = encoder.batch(first, second)
        assert all((ours[name] == theirs[name]).all() for name in ours), first
        assert ours.keys() == dict(theirs).keys()
    assert (encoder.batch([LONG])["input_ids"] == tokenizer([LONG], truncation=True, max_length=64).input_ids).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: cut(folder / "model.onnx"), r"model\.onnx differs from what was written\n.*export"),
        (lambda folder: flip(folder / "tokenizer.json"), r"tokenizer\.json differs"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer\.json is gone"),
        (lambda folder: (folder / "model.onnx").unlink(), r"model\.onnx is gone"),
        (lambda folder: (folder / "limbeck.json").unlink(), r"has no limbeck\.json"),
        (lambda folder: cut(folder / "limbeck.json"), r"limbeck\.json is damaged"),
        (lambda folder: flip(folder / "limbeck.json"), r"limbeck\.json is damaged: its checksum differs"),
        (lambda folder: rewrite(folder, format=2), "format 1 that is read here: a later version"),
        (lambda folder: rewrite(folder, kind="translate"), r"for the task 'translate'.*\n.*classify"),
        (lambda folder: rewrite(folder, inputs=["input_ids"]), "takes attention_mask, input_ids, token_type_ids"),
        (lambda folder: rewrite(folder, max_length="many"), "is incomplete: ValueError"),
    ],
)
def test_a_damaged_folder_is_refused_with_the_remedy(damage, message, tmp_path):
    folder = shutil.copytree(folders("classify")[1], tmp_path / "exported")
    damage(folder)
    with pytest.raises(limbeck_runtime.UnusableError, match=message):
        limbeck_runtime.load(folder)


def test_what_is_no_export_is_refused(tmp_path):
    with pytest.raises(limbeck_runtime.UnusableError, match=r"not an exported model.*\n.*limbeck export"):
        limbeck_runtime.load(folders("classify")[0])
    with pytest.raises(limbeck_runtime.UnusableError, match="is not there"):
        limbeck_runtime.load(tmp_path / "nothing")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    path.write_bytes(path.read_bytes().replace(b"film", b"tilm").replace(b"positive", b"pasitive"))


def rewrite(folder, **facts):
    write_sealed(folder / "limbeck.json", read_sealed(folder / "limbeck.json") | facts)
