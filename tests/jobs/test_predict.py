"""New texts are answered as transformers answers them, in their order, and none is lost."""

import csv
import datetime
import io
import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import BertConfig, BertForQuestionAnswering, BertForTokenClassification, pipeline

import limbeck
from limbeck.core.errors import DataError, KnobError
from limbeck.engines.transformers import TransformersEngine
from limbeck.exporters.ctranslate2 import convert
from limbeck.jobs.answers import cell
from limbeck.students.load import load
from running import limbeck as command
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer
from tiny_language import byte_level, make_causal, make_masked, save

TEXTS = [row["text"] for row in make_rows(70)]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SHAPE = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 64, "initializer_range": 0.5, **SMALL}
TAGS = dict(enumerate(["O", "B-X", "I-X"]))


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    torch.manual_seed(1)
    network = BertForTokenClassification(BertConfig(**SHAPE, id2label=TAGS))
    return save(network, make_tokenizer(), tmp_path_factory.mktemp("tag") / "tagger")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    torch.manual_seed(2)
    return save(BertForQuestionAnswering(BertConfig(**SHAPE)), make_tokenizer(), tmp_path_factory.mktemp("qa") / "qa")


def classifier(folder, **how):
    return save(make_classifier(layers=1, **how), make_tokenizer(), folder)


def test_classes_are_those_of_the_pipeline_whatever_the_batch(teacher_folder):
    theirs = pipeline("text-classification", model=str(teacher_folder), device="cpu")(TEXTS, batch_size=1)
    for size in (1, 64):
        ours = limbeck.predict(teacher_folder, TEXTS, batch_size=size)
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        assert np.allclose([one["probability"] for one in ours], [one["score"] for one in theirs], atol=1e-5)
    every = limbeck.predict(teacher_folder, TEXTS[:2], all_probabilities=True)
    assert all(abs(one["probability_negative"] + one["probability_positive"] - 1) < 1e-6 for one in every)


def test_a_model_in_hand_pairs_labels_and_numbers(tmp_path):
    network, tokenizer = (
        make_classifier(labels=("a", "b", "c"), problem_type="multi_label_classification"),
        make_tokenizer(),
    )
    (found,) = limbeck.predict(network, [("a film", "a plot")], tokenizer=tokenizer)
    inputs = tokenizer("a film", "a plot", return_tensors="pt")
    chances = network(**inputs).logits[0].sigmoid().tolist()
    assert found["labels"] == [name for name, chance in zip("abc", chances, strict=True) if chance > 0.5]
    assert np.allclose(found["probabilities"], [chance for chance in chances if chance > 0.5], atol=1e-6)
    number = make_classifier(labels=("score",), problem_type="regression")
    (found,) = limbeck.predict(number, [{"sentence1": "a film", "sentence2": "a plot"}], tokenizer=tokenizer)
    assert abs(found["score"] - number(**inputs).logits.item()) < 1e-6


def test_words_are_tagged_as_by_the_pipeline(tagger):
    theirs = pipeline("token-classification", model=str(tagger), aggregation_strategy="first", device="cpu")
    for text, found in zip(TEXTS[:8], limbeck.predict(tagger, TEXTS[:8]), strict=True):
        assert found["words"] == text.split()
        assert [one["text"] for one in found["entities"]] == [one["word"] for one in theirs(text)]
    (lists,) = limbeck.predict(tagger, [{"tokens": ["a", "film"]}])
    assert lists["words"] == ["a", "film"]
    assert len(lists["tags"]) == 2


def test_raw_text_is_cut_into_words(tagger):
    (found,) = limbeck.predict(tagger, ["Don't go to the U.S., film-lover: 東京!"])
    assert found["words"] == ["Don't", "go", "to", "the", "U.S", ".", ",", "film-lover", ":", "東", "京", "!"]


def test_questions_get_the_most_probable_span(reader):
    network, tokenizer = BertForQuestionAnswering.from_pretrained(reader).eval(), make_tokenizer()
    rows = [("the film", text) for text in TEXTS[:8]]
    for (question, context), found in zip(rows, limbeck.predict(reader, rows), strict=True):
        outputs = network(**tokenizer(question, context, return_tensors="pt"))
        start, end = (logits[0, 4:-1].softmax(-1) for logits in (outputs.start_logits, outputs.end_logits))
        spans = (start[:, None] * end).triu()
        first, last = (spans == spans.max()).nonzero()[0].tolist()
        assert found["answer"] == " ".join(context.split()[first : last + 1])
        assert abs(found["probability"] - spans.max().item()) < 1e-5
    (none,) = limbeck.predict(reader, rows[:1], windows={"null_threshold": -1e9})
    assert none["answer"] == ""


def test_masks_are_filled_as_by_the_pipeline(tmp_path):
    folder = save(make_masked(), make_tokenizer(), tmp_path / "masked")
    theirs = pipeline("fill-mask", model=str(folder), device="cpu")
    texts = ["the [MASK] is good", "a very [MASK] film and a plot with a story"]
    for text, found in zip(texts, limbeck.predict(folder, texts, top=3), strict=True):
        expected = theirs(text, top_k=3)
        assert found["words"] == [one["token_str"] for one in expected]
        assert np.allclose(found["probabilities"], [one["score"] for one in expected], atol=1e-5)
    (two,) = limbeck.predict(folder, ["the [MASK] is [MASK]"], top=2)
    assert [len(words) for words in two["words"]] == [2, 2]
    with pytest.raises(DataError, match=r"has no \[MASK\]"):
        limbeck.predict(folder, ["the film"])


def test_texts_go_on_as_by_the_pipeline(tmp_path):
    tokenizer = byte_level()
    folder = save(make_causal(tokenizer), tokenizer, tmp_path / "causal")
    theirs = pipeline("text-generation", model=str(folder), device="cpu")
    texts = ["The film was", "A very long beginning of a text that says", "x"]
    for size in (1, 3):
        ours = [one["continuation"] for one in limbeck.predict(folder, texts, max_new_tokens=8, batch_size=size)]
        how = {"max_new_tokens": 8, "do_sample": False, "return_full_text": False}
        assert ours == [theirs(text, **how)[0]["generated_text"] for text in texts]


def test_sources_are_translated_by_either_engine(reverser_folder, tmp_path):
    network, tokenizer = load(reverser_folder, "translate")
    sources = ["a b c", "", "d e"]
    expected = [one[0].text for one in TransformersEngine(network, tokenizer).translate(sources, 5)]
    for folder in (reverser_folder, convert(reverser_folder, tmp_path / "converted", "float32")):
        found = [one["translation"] for one in limbeck.predict(folder, sources)]
        assert found == [expected[0], None, expected[2]]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_file_keeps_its_rows_and_columns(teacher_folder, tmp_path, ending):
    rows = [{"id": "7", "text": "a good film", "label": "x"}, {"id": "8", "text": " ", "label": ""}, *make_rows(3)]
    data = tmp_path / "new.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / f"answers.{ending}"
    said = command("predict", teacher_folder, "--data", data, "--out", out, "--batch-size", "1")
    assert (said.code, said.out) == (0, f"answers {out} (5 rows)\n"), said.err
    assert "1 of 5 rows have no text" in said.err
    if ending == "parquet":
        found = pq.read_table(out).to_pylist()
    elif ending == "jsonl":
        found = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(out.read_text()), delimiter="\t" if ending == "tsv" else ","))
    assert [row["text"] for row in found] == [row["text"] for row in rows]
    assert list(found[0]) == ["id", "text", "label", "predicted_label", "probability"]
    assert (found[0]["label"], not found[1]["predicted_label"]) == ("x", True)
    assert found[4]["predicted_label"] in ("negative", "positive")


def test_one_text_and_lines_of_standard_input(teacher_folder, monkeypatch):
    one = command("predict", teacher_folder, "a good film")
    label, probability = one.out.split()
    assert label in ("negative", "positive")
    assert 0.5 <= float(probability) <= 1
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\n\na bad film,\twith a tab\n"))
    said = command("predict", teacher_folder)
    assert said.code == 0, said.err
    found = said.out.split("\n")
    assert (found[0], found[1], len(found)) == (one.out.strip(), "\t", 4)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\ta plot\na film\n"))
    said = command("predict", teacher_folder)
    assert said.code == 2
    assert "line 2 has 1 parts between tabs" in said.err


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"data": ["x"], "out": "answers.doc"}, KnobError, r"cannot be written as answers.doc\n.*\.csv"),
        ({"data": "new.csv", "text_column": "txt"}, DataError, r"no column 'txt'; its columns: 'text', 'label'"),
        ({"data": "new.csv", "out": "new.csv"}, DataError, "is the file that is read"),
        ({"data": "a lovely film"}, DataError, r"there is no file.*\n.*come in a list"),
        ({"data": [""]}, DataError, "every row has an empty text"),
        ({"data": ["x"], "windows": {"stride": 3}}, KnobError, "no effect for --task classify"),
        ({"data": ["x"], "batchsize": 3}, KnobError, "did you mean 'batch_size'"),
        ({"data": ["x"], "device": "mps"}, KnobError, "no mps device"),
    ],
)
def test_slips_are_told_with_the_remedy(teacher_folder, tmp_path, monkeypatch, how, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("text,label\na film,x\n")
    with pytest.raises(error, match=message):
        limbeck.predict(teacher_folder, **how)
    assert not (tmp_path / "answers.csv").exists()


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"label": "good", "probability": 0.5}, {"label": "good", "probability": "0.500"}),
        ({"labels": ["a", "b"], "probabilities": [0.9, 0.8]}, {"labels": "a 0.900, b 0.800"}),
        ({"labels": [], "probabilities": [], "probability_a": 0.1}, {"labels": "", "every class": "a 0.100"}),
        ({"words": [["a"], ["b"]], "probabilities": [[0.1], [0.2]]}, {"words": "a 0.100; b 0.200"}),
        ({"words": ["Ada"], "tags": ["B-X"], "entities": [{"type": "X", "text": "Ada"}]}, {"entities": "X Ada"}),
        ({"translation": None}, {"translation": ""}),
    ],
)
def test_people_see_few_columns(answer, shown):
    from limbeck.cli.answers import for_people

    assert for_people(answer) == shown


def test_a_cell_keeps_what_it_held():
    values = {"a": 3.14159265358979, "b": float("nan"), "c": datetime.date(2020, 1, 2), "labels": ["x", "y"], "d": [1]}
    assert [cell(name, value) for name, value in values.items()] == [
        *("3.14159265358979", "", "2020-01-02", "x|y", "[1]")
    ]
