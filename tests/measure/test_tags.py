"""Entities by hand, and the figures made of them."""

import numpy as np
import pytest

from limbeck.measure.tags import TAG_FORMULAS, each_sentence, per_type, tag_quality
from limbeck_runtime.tags import entities

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", {("PER", 0, 1), ("LOC", 3, 3)}),
        ("B-PER B-PER I-PER", {("PER", 0, 0), ("PER", 1, 2)}),
        ("O I-PER I-PER O", {("PER", 1, 2)}),  # I after O: an entity all the same
        ("I-PER I-PER B-PER", {("PER", 0, 1), ("PER", 2, 2)}),  # IOB1
        ("B-PER I-LOC I-LOC", {("PER", 0, 0), ("LOC", 1, 2)}),  # the type changes inside a run
        ("I-PER I-LOC", {("PER", 0, 0), ("LOC", 1, 1)}),
        ("B-PER I-PER E-PER S-LOC O", {("PER", 0, 2), ("LOC", 3, 3)}),  # IOBES
        ("S-PER S-PER", {("PER", 0, 0), ("PER", 1, 1)}),
        ("B-PER E-PER I-PER", {("PER", 0, 1), ("PER", 2, 2)}),  # what ended does not go on
        ("E-PER E-PER", {("PER", 0, 0), ("PER", 1, 1)}),
        ("O E-PER O", {("PER", 1, 1)}),
        ("B-PER L-PER U-LOC", {("PER", 0, 1), ("LOC", 2, 2)}),  # BILOU
        ("B-A-B I-A-B", {("A-B", 0, 1)}),
        ("B I O I", {("", 0, 1), ("", 3, 3)}),  # no types
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities(tags, expected):
    assert entities(tags.split()) == expected


def test_plain_tags_are_words():
    assert entities(["NOUN", "NOUN", "O"], plain=True) == {("NOUN", 0, 0), ("NOUN", 1, 1)}


GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC", "O", "O"]]
SAID = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O"], ["B-LOC", "I-LOC", "O"]]


def test_sums_of_each_sentence_and_the_figures():
    sums = each_sentence(GOLD, SAID, LABELS)
    # (found, said, true, right words, words)
    assert sums.tolist() == [[1, 2, 2, 3, 4], [0, 1, 0, 1, 2], [0, 1, 1, 2, 3]]
    found = tag_quality(sums)
    assert found == pytest.approx({"f1": 2 / 7, "precision": 1 / 4, "recall": 1 / 3, "accuracy": 6 / 9})


def test_figures_of_each_type():
    found = {score.label: score for score in per_type(GOLD, SAID, LABELS)}
    assert (found["PER"].precision, found["PER"].recall, found["PER"].rows) == (0.5, 1.0, 1)
    assert found["PER"].f1 == pytest.approx(2 / 3)
    assert (found["LOC"].f1, found["LOC"].rows) == (0.0, 2)


def test_words_without_a_tag_are_left_out():
    sums = each_sentence([["B-PER", "", "O"]], [["B-PER", "B-LOC", "O"]], LABELS)
    assert sums.tolist() == [[1, 1, 1, 2, 2]]
    assert tag_quality(each_sentence([[""]], [["O"]], LABELS)) == {}


def test_nothing_said_and_nothing_there():
    assert tag_quality(each_sentence([["O"]], [["O"]], LABELS)) == {
        "f1": 0.0,
        "precision": 0.0,
        "recall": 0.0,
        "accuracy": 1.0,
    }


def test_plain_figures_leave_out_what_is_outside():
    gold, said = [["NOUN", "VERB", "O"]], [["NOUN", "NOUN", "O"]]
    found = tag_quality(each_sentence(gold, said, ("O", "NOUN", "VERB")))
    assert found == pytest.approx({"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 2 / 3})


def test_a_resample_is_scored_from_the_sums():
    sums = each_sentence(GOLD, SAID, LABELS)
    twice = np.array([[2.0, 0.0, 1.0]])
    drawn = each_sentence([GOLD[0], GOLD[0], GOLD[2]], [SAID[0], SAID[0], SAID[2]], LABELS)
    for name, metric in TAG_FORMULAS.items():
        assert metric.value(twice, sums)[0] == pytest.approx(tag_quality(drawn)[name])
