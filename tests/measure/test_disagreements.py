"""Where student and teacher disagree, in every task; numbers made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from limbeck.core.errors import MismatchError
from limbeck.core.task import TaskInfo
from limbeck.measure.fidelity import (
    TokenExample,
    around,
    sequence_disagreements,
    span_disagreements,
    tag_disagreements,
    text_disagreements,
    token_disagreements,
)

THREE = TaskInfo(kind="classify", labels=("a", "b", "c"))
MANY = TaskInfo(kind="multilabel", labels=("x", "y", "z"))
NUMBER = TaskInfo(kind="regress")


def part_ways() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes, 100 rows: on 90 the teacher alone is right and both are sure; on 5 the student alone; on 5 both."""
    labels = np.zeros(100, dtype=int)
    student, teacher = np.tile([-4.0, 4.0, -9.0], (100, 1)), np.tile([4.0, -4.0, -9.0], (100, 1))
    student[90:, :2] = [1.0, -1.0]
    teacher[90:95, :2] = [-0.5, 0.5]
    return student, teacher, labels


def test_disagreements_show_both_sides_and_the_surest_first() -> None:
    student, teacher, labels = part_ways()
    texts = [f"text {i}" for i in range(100)]
    found = text_disagreements(THREE, texts, [], student, teacher, labels, np.ones(100, dtype=bool), most=20)
    assert len(found) == 20
    alone = [row for row in found if row.student == "a"]
    assert sorted(row.text for row in alone) == [f"text {i}" for i in range(90, 95)]
    assert {row.teacher for row in alone} == {"b"}
    sure = [row.student_confidence * row.teacher_confidence for row in found]
    assert sure == sorted(sure, reverse=True)
    assert found[0].teacher_confidence == pytest.approx(special.softmax([4, -4, -9]).max())
    assert {row.label for row in found} == {"a"}


def test_disagreements_without_labels_or_with_pairs() -> None:
    student, teacher, labels = part_ways()
    texts, pairs = ["t"] * 100, [f"pair {i}" for i in range(100)]
    found = text_disagreements(THREE, texts, pairs, student, teacher, labels, np.zeros(100, dtype=bool), most=1000)
    assert len(found) == 95
    assert {row.label for row in found} == {""}
    assert found[0].pair == "pair 0"


def test_disagreements_of_several_labels_name_the_whole_answer() -> None:
    student, teacher = np.array([[2.0, -2.0, -2.0], [1.0, 1.0, 1.0]]), np.array([[-2.0] * 3, [1.0] * 3])
    (row,) = text_disagreements(
        MANY, ["t", "u"], [], student, teacher, np.array([[1, 0, 1], [0, 0, 0]]), np.ones(2, bool)
    )
    assert (row.text, row.student, row.teacher, row.label) == ("t", "x", "(none)", "x, z")
    assert row.student_confidence == pytest.approx(special.expit(2.0) ** 3)


def test_disagreements_of_numbers_are_the_widest_gaps() -> None:
    student, teacher = np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 5.0])
    found = text_disagreements(
        NUMBER, ["s", "t", "u"], [], student, teacher, np.array([1.0, 2.0, 4.0]), np.ones(3, bool)
    )
    assert [(row.text, row.student, row.teacher, row.label) for row in found] == [
        ("u", "3", "5", "4"),
        ("s", "1", "1.5", "1"),
    ]


def test_words_tagged_differently() -> None:
    words = [["Ann", "saw", "Bob"], ["Rome"]]
    gold = [["PER", "O", ""], ["LOC"]]
    student, student_sure = [["PER", "PER", "O"], ["PER"]], [[0.9, 0.5, 0.9], [0.8]]
    teacher, teacher_sure = [["PER", "O", "PER"], ["LOC"]], [[0.9, 0.6, 0.9], [0.9]]
    found = tag_disagreements(words, gold, student, student_sure, teacher, teacher_sure)
    assert [(row.text, row.pair, row.label, row.teacher, row.student) for row in found] == [
        ("Ann saw Bob", "Bob", "", "PER", "O"),
        ("Rome", "Rome", "LOC", "LOC", "PER"),
        ("Ann saw Bob", "saw", "O", "O", "PER"),
    ]
    assert (found[1].teacher_confidence, found[1].student_confidence) == (0.9, 0.8)
    assert len(tag_disagreements(words, gold, student, student_sure, teacher, teacher_sure, most=2)) == 2
    with pytest.raises(MismatchError, match="sentences do not pair up"):
        tag_disagreements(words, gold[:1], student, student_sure, teacher, teacher_sure)


def test_questions_answered_differently() -> None:
    context = "The cat sat on the mat."
    questions = ["who?", "where?", "why?", "when?"]
    gold = [["cat", "The cat"], ["the mat"], [], []]
    student, teacher = ["the cat", "cat", "", "mat"], ["cat", "on the mat", "mat", "cat"]
    known = [True, True, True, False]
    found = span_disagreements(questions, [context] * 4, gold, known, student, [0.5] * 4, teacher, [0.9, 0.8, 0.7, 0.6])
    assert [(row.text, row.label, row.teacher, row.student, row.right) for row in found] == [
        ("where?", "the mat", "on the mat", "cat", "neither"),
        ("why?", "(no answer)", "mat", "(no answer)", "student"),
        ("when?", "", "cat", "mat", ""),
    ]  # articles make no other answer
    assert {row.pair for row in found} == {context}


def test_the_context_around_answers_is_short() -> None:
    context = "x " * 200 + "here" + " y" * 200 + " there" + " z" * 200
    one = around(context, ["here", ""])
    assert "here" in one
    assert len(one) <= 206
    assert one.startswith("… ")
    assert one.endswith(" …")
    both = around(context, ["here", "there"])
    assert "here" in both
    assert "there" in both
    assert len(both) <= 210
    assert around(context, [""]).startswith("x x")
    assert around("short", ["or"]) == "short"


def test_tokens_are_decoded() -> None:
    words = ["the", "cat", "dog", "\n"]
    example = TokenExample((0, 1), 2, 3, 0.5, 1, 0.25)
    (row,) = token_disagreements([example], lambda ids: " ".join(words[i] for i in ids))
    assert (row.text, row.label, row.teacher, row.student) == ("the cat …", "dog", "'\\n'", "cat")
    assert (row.teacher_confidence, row.student_confidence) == (0.5, 0.25)
    (row,) = token_disagreements([TokenExample((0,), -1, 2, 0.5, 1, 0.25)], lambda ids: words[ids[-1]])
    assert row.label == ""


def test_sentences_translated_differently() -> None:
    pytest.importorskip("sacrebleu")
    sources, references = ["s", "t", "u"], ["ein roter Hund", "eine Katze", ""]
    student, teacher = ["ein Hund", "eine Katze", "x"], ["ein rotes Haus", "eine Katze", "y"]
    log_p = np.log([0.5, 0.5, 0.25])
    found = sequence_disagreements(sources, references, student, log_p, teacher, [np.nan, 0.0, 0.0])
    assert [(row.text, row.label, row.student, row.teacher) for row in found] == [
        ("u", "", "x", "y"),
        ("s", "ein roter Hund", "ein Hund", "ein rotes Haus"),
    ]
    assert [(row.student_confidence, row.teacher_confidence) for row in found] == [
        (pytest.approx(0.25), 1.0),
        (pytest.approx(0.5), 0.0),
    ]
    assert found[0].right == ""
    assert found[1].right in ("student", "teacher")
