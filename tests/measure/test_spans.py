"""Answers found and compared, by hand."""

import numpy as np
import pytest

from limbeck.measure.spans import answer_quality, each_answer, exact, normalised, word_f1
from limbeck_runtime.spans import best_spans, chosen, confidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat!", "cat"),
        ("a man, a plan", "man plan"),
        ("an-other theme", "another theme"),  # punctuation goes before articles are looked for
        ("U.S.A.", "usa"),
        ("«the» été", "« » été"),  # only ASCII punctuation goes
        ("the", ""),
        ("a\tb\n", "b"),
    ],
)
def test_normalised(text, expected):
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "match", "f1"),
    [
        ("The cat", "cat", 1.0, 1.0),
        ("black cat", "cat", 0.0, 2 / 3),
        ("cat cat", "cat", 0.0, 2 / 3),  # a word counts as often as it occurs
        ("dog", "cat", 0.0, 0.0),
        ("", "cat", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("the", "", 1.0, 1.0),
        ("cat sat mat", "sat on the mat", 0.0, 2 * 2 / 6),
    ],
)
def test_exact_match_and_f1(answer, gold, match, f1):
    assert exact(answer, gold) == match
    assert word_f1(answer, gold) == pytest.approx(f1)


def test_the_nearest_gold_answer_counts():
    matches, f1s = each_answer(["black cat", "cat", "", "dog"], [["cat", "black cat"], ["dog"], [], []])
    assert matches.tolist() == [1, 0, 1, 0]
    assert f1s.tolist() == [1, 0, 1, 0]
    assert answer_quality(np.stack([matches, f1s], 1)) == {"f1": 0.5, "exact_match": 0.5}
    assert answer_quality(np.empty((0, 2))) == {}


def slow_best(start, end, asked, longest):
    spans = [
        (start[i] + end[j], i, j)
        for i in range(len(start))
        for j in range(i, min(i + longest, len(start)))
        if asked[i] and asked[j]
    ]
    return max(spans)


@pytest.mark.parametrize("longest", [1, 3, 50])
def test_the_best_span_is_that_of_a_full_search(longest):
    draw = np.random.default_rng(0)
    start, end = draw.normal(size=(2, 20, 12))
    asked = np.zeros((20, 12), dtype=bool)
    asked[:, 4:11] = True
    for row, span in enumerate(best_spans(start, end, asked, longest, nullable=False)):
        score, i, j = slow_best(start[row], end[row], asked[row], longest)
        assert (span.start, span.end) == (i, j)
        assert span.score == pytest.approx(score)
        assert span.null == -np.inf


def test_place_zero_is_no_answer_but_the_lack_of_one():
    start, end = np.array([[9.0, 0, 1, 2]]), np.array([[9.0, 0, 2, 1]])
    asked = np.array([[True, False, True, True]])
    (span,) = best_spans(start, end, asked, 30, nullable=True)
    assert (span.start, span.end, span.score, span.null) == (2, 2, 3.0, 18.0)
    assert chosen([span], threshold=0.0) == -1
    assert chosen([span], threshold=15.0) == 0
    assert chosen([span], threshold=14.9) == -1


def test_the_best_window_wins_and_the_least_null_score_counts():
    asked = np.array([[True, True, True]] * 2)
    start, end = np.array([[0.0, 3, 0], [8.0, 1, 0]]), np.array([[0.0, 3, 0], [8.0, 1, 0]])
    spans = best_spans(start, end, asked, 30, nullable=True)
    assert chosen(spans, 0.0) == 0
    assert chosen(spans[1:], 0.0) == -1


def test_the_probability_of_a_span_is_that_of_both_ends():
    start, end = np.log([[0.2, 0.5, 0.3, 9.0]]), np.log([[0.2, 0.1, 0.7, 9.0]])
    predicted = np.array([[1, 1, 1, 0]])
    (span,) = best_spans(start, end, predicted, longest=4, nullable=True)
    assert (span.start, span.end) == (1, 2)
    assert span.probability == pytest.approx(0.5 * 0.7)
    assert span.null_probability == pytest.approx(0.2 * 0.2)
    assert confidence([span], threshold=0.0) == span.probability
    assert confidence([span], threshold=-1e6) == span.null_probability
    assert confidence([], threshold=0.0) == 0.0
