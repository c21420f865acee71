"""`--preset small`: from a teacher to an ordinary ELECTRA folder, for texts, tags and spans."""

import pytest
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertTokenizerFast,
)

import limbeck
from limbeck.core.record import Record
from tiny import VOCABULARY, make_classifier, make_rows, make_tokenizer, write_csv
from tiny_places import make_questions, make_reader, make_sentences, make_tagger

pytestmark = pytest.mark.slow

QUICK = {"epochs": 1, "baseline": False, "measure": {"speed": False, "bootstrap": 100}}
MADE = {
    "classify": (make_classifier, make_rows, AutoModelForSequenceClassification),
    "tag": (make_tagger, make_sentences, AutoModelForTokenClassification),
    "answer": (make_reader, make_questions, AutoModelForQuestionAnswering),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_small_student_of_each_task(kind, tmp_path):
    model, rows, auto = MADE[kind]
    shape = limbeck.Shrink(preset="small", embedding=12)
    limbeck.distill(model(layers=4), rows(160), shape, tokenizer=make_tokenizer(), task=kind, out=tmp_path, **QUICK)
    record = Record.load(tmp_path)
    assert (record.knobs["recipe"], record.knobs["student"]["family"]) == ("small", "electra")
    assert record.knobs["stages"]["hidden"]["objective"]["tinybert"]["layers"] == "1,4"
    student, loading = auto.from_pretrained(tmp_path / "student", output_loading_info=True)
    assert not loading["missing_keys"]
    shape = student.config
    assert (shape.model_type, shape.num_hidden_layers, shape.intermediate_size) == ("electra", 2, 16)
    assert (shape.embedding_size, shape.hidden_dropout_prob) == (12, 0.0)
    assert list(tmp_path.glob("augmented-*.jsonl")) if kind == "classify" else True
    assert any("pieces remain" in note for note in record.notes)


def test_dev_texts_may_fall_into_other_pieces(tmp_path):
    """A word of dev that no training row has is spelled after trimming: the teacher's states do not fit it."""
    tokenizer = BertTokenizerFast(
        vocab={word: index for index, word in enumerate([*VOCABULARY, "z", "##z", "zzz"])}, model_max_length=64
    )
    teacher = make_classifier(layers=4)
    teacher.resize_token_embeddings(len(tokenizer))
    dev = [{**row, "text": f"zzz {row['text']}"} for row in make_rows(40, seed=1)]
    reading = {"dev": str(write_csv(tmp_path / "dev.csv", dev))}
    shape = limbeck.Shrink(preset="small", embedding=12)
    limbeck.distill(teacher, make_rows(120), shape, tokenizer=tokenizer, reading=reading, out=tmp_path / "run", **QUICK)
    record = Record.load(tmp_path / "run")
    measured = [point.dev for point in record.arm("distilled").runs[0].curve if point.dev]
    assert measured
    assert all("accuracy" in dev and "loss" not in dev for dev in measured)
