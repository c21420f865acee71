"""Every kind of task, through the whole job."""

import random

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification

import limbeck
from limbeck import Labels, Shrink, SoftTargets
from limbeck.core.errors import MismatchError
from tiny import BAD, GOOD, make_classifier, make_rows, make_tokenizer

FAST = {"train": {"epochs": 1, "learning_rate": 1e-3}, "measure": {"speed": False, "bootstrap": 200}}


def run(teacher, rows, **more):
    return limbeck.distill(teacher, rows, tokenizer=make_tokenizer(), **{"student": Shrink(layers=1), **FAST, **more})


def test_several_classes():
    draw = random.Random(1)
    rows = [{"text": row["text"], "label": draw.choice("red green blue".split())} for row in make_rows(200)]
    result = run(make_classifier(labels=("green", "blue", "red")), rows)
    assert result.record.task.labels == ("green", "blue", "red")
    assert [score.label for score in result.record.arm("distilled").runs[0].per_class] == ["green", "blue", "red"]
    assert result.student.config.id2label == {0: "green", 1: "blue", 2: "red"}


def test_integers_for_a_teacher_that_does_not_name_its_classes(tmp_path):
    rows = [{"text": row["text"], "label": int(row["label"] == "positive")} for row in make_rows(200)]
    result = run(make_classifier(labels=("LABEL_0", "LABEL_1")), rows, baseline=False)
    assert result.record.task.labels == ("0", "1")


def test_names_for_a_teacher_that_does_not_name_its_classes_are_asked_for_and_kept():
    teacher = make_classifier(labels=("LABEL_0", "LABEL_1"))
    with pytest.raises(MismatchError, match=r"--data\.classes"):
        run(teacher, make_rows(200))
    result = run(teacher, make_rows(200), baseline=False, reading={"classes": "positive,negative"})
    assert result.record.task.labels == ("positive", "negative")
    assert result.student.config.id2label == {0: "positive", 1: "negative"}


def test_any_number_of_labels():
    rows = []
    for row in make_rows(220):
        words = row["text"].split()
        found = [name for name, kind in (("good", GOOD), ("bad", BAD), ("film", ["film"])) if set(words) & set(kind)]
        rows.append({"text": row["text"], "labels": found})
    teacher = make_classifier(labels=("bad", "film", "good"), problem_type="multi_label_classification")
    result = run(teacher, rows)
    assert result.record.metric == "f1_micro"
    assert result.record.comparisons[0].metric == "f1_micro"
    reopened = AutoModelForSequenceClassification.from_pretrained(result.folder / "student")
    assert reopened.config.problem_type == "multi_label_classification"


def numbers():
    draw = random.Random(2)
    return [{"text": row["text"], "score": (row["label"] == "positive") + draw.random()} for row in make_rows(220)]


def test_a_number():
    teacher = make_classifier(labels=("LABEL_0",), problem_type="regression")
    result = run(teacher, numbers())
    assert result.record.knobs["recipe"] == "logits"
    assert result.record.metric == "pearson"
    assert set(result.record.arm("distilled").runs[0].quality) >= {"pearson", "spearman"}
    assert result.student.config.num_labels == 1
    assert result.student.config.problem_type == "regression"
    plain = run(make_classifier(labels=("LABEL_0",)), numbers(), baseline=False)  # a teacher that does not say
    assert plain.record.task.kind == "regress"


def test_soft_targets_of_a_number_are_refused(tmp_path):
    teacher = make_classifier(labels=("LABEL_0",), problem_type="regression")
    with pytest.raises(MismatchError, match=r"does not serve --task regress\n.*logits"):
        run(teacher, numbers(), objective=Labels() + SoftTargets(), out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("labels", "kind"), [(("a", "b"), None), (("a", "b"), "single_label_classification")])
def test_a_classifier_cannot_teach_numbers(labels, kind):
    with pytest.raises(MismatchError, match=r"regression[\s\S]*→"):
        run(make_classifier(labels=labels, problem_type=kind), numbers(), reading={"task": "regress"})


def test_pairs():
    rows = [
        {"premise": a["text"], "hypothesis": b["text"], "label": ["no", "yes"][a["label"] == b["label"]]}
        for a, b in zip(make_rows(200), make_rows(200, seed=5), strict=True)
    ]
    result = run(make_classifier(labels=("yes", "no")), rows, baseline=False)
    assert result.record.data.columns == {"text": "premise", "pair": "hypothesis", "label": "label"}
    assert all(parting.pair for parting in result.record.disagreements)


def test_rows_without_labels_teach_the_soft_terms():
    rows = make_rows(240)
    for row in rows[::2]:
        row["label"] = ""
    result = run(make_classifier(), rows)
    card = result.record.data
    assert 0 < card.splits["train"].labelled < card.splits["train"].rows
    assert any("have no label" in note for note in result.record.notes)


@pytest.mark.parametrize("labels", [("negative", "positive"), ("LABEL_0", "LABEL_1")])
def test_no_labels_at_all_the_teacher_names_the_classes(labels):
    rows = [{"text": row["text"]} for row in make_rows(240)]
    result = run(make_classifier(labels=labels), rows)
    assert result.record.task.labels == labels
    assert [arm.name for arm in result.record.arms] == ["teacher", "distilled"]
    assert result.record.comparisons == []
    assert any("only agreement with the teacher" in note for note in result.record.notes)
    fidelity = result.record.arm("distilled").runs[0].fidelity
    assert 0 <= fidelity.agreement <= 1
    assert fidelity.accuracy_teacher_right is None


def test_no_labels_and_nothing_else_to_learn_from_is_refused():
    rows = [{"text": row["text"]} for row in make_rows(240)]
    with pytest.raises(MismatchError, match="no training row has a label"):
        run(make_classifier(), rows, recipe="finetune")


def test_a_long_text_is_cut_and_counted():
    rows = make_rows(200)
    rows[3]["text"] = "lovely " * 20_000
    result = run(make_classifier(), rows, baseline=False)
    assert result.record.data.truncated == 1
    assert result.record.data.read == 200


def test_unlabelled_numbers_take_the_kind_from_the_teacher():
    rows = [{"text": row["text"]} for row in make_rows(240)]
    result = run(make_classifier(labels=("LABEL_0",), problem_type="regression"), rows)
    assert result.record.task.kind == "regress"
    assert np.isfinite(result.record.arm("distilled").runs[0].fidelity.agreement)
