"""The translation closest to a reference, with the numbers that sacrebleu gives."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.measure.translation import Closeness, choose, closest, sentence_score

REFERENCE = "the cat sat on the mat"
BEAM = ["the cat is on the mat", "the cat sat on a mat", "a cat sat on the mat", "the cat sat on the rug"]
SCORES = {
    REFERENCE: 100.0,
    "the cat sat on a mat": 53.7285,
    "the the the the the the": 9.6524,
    "cat the mat on sat the": 21.3644,
    "the cat sat on the": 81.8731,
    "the cat": 13.5335,
    "mat": 0.6738,
    "a dog": 0.0,
}
PHRASES = st.lists(st.sampled_from("a b c d , .".split()), max_size=7).map(" ".join)


@pytest.mark.parametrize(("text", "score"), SCORES.items())
def test_the_table_of_hypotheses(text: str, score: float) -> None:
    assert sentence_score(text, REFERENCE) == pytest.approx(score, abs=5e-5)


def test_of_equals_the_earliest_is_chosen() -> None:
    assert [sentence_score(text, REFERENCE) for text in BEAM] == pytest.approx(
        [37.9918, 53.7285, 75.9836, 75.9836], abs=5e-5
    )
    assert closest(BEAM, REFERENCE) == 2
    assert closest(BEAM[::-1], REFERENCE) == 0


def test_equal_factors_in_another_order_are_a_tie() -> None:
    reference, first, second = "a b c d e f g h", "a b c x e f g", "f d c d e f x"
    matches = [sacrebleu.sentence_bleu(text, [reference]).counts for text in (first, second)]
    assert matches == [[6, 4, 2, 0], [4, 3, 2, 1]]  # 6 · 4 · 2 · ½ = 4 · 3 · 2 · 1
    assert 0 < sentence_score(second, reference) - sentence_score(first, reference) < 1e-12
    assert closest([first, second], reference) == closest([second, first], reference) == 0


@pytest.mark.parametrize("by", ["bleu", "chrf"])
def test_one_candidate_is_the_choice_and_the_reference_is_its_own(by: Closeness) -> None:
    assert closest(["a dog"], REFERENCE, by) == 0
    for place in range(5):
        assert closest([*BEAM[:place], REFERENCE, *BEAM[place:]], REFERENCE, by) == place


def test_a_text_that_scores_as_the_reference_does_keeps_its_rank() -> None:
    assert closest(["a dog", "the cat sat on the mat ", REFERENCE], REFERENCE) == 1
    assert closest(["x", "", "y"], "") == 0  # nothing matches an empty reference


@settings(max_examples=150, deadline=None)
@given(st.lists(PHRASES, min_size=1, max_size=5), PHRASES, st.sampled_from(["bleu", "chrf"]))
def test_no_candidate_scores_higher_by_sacrebleu(candidates: list[str], reference: str, by: Closeness) -> None:
    score = {"bleu": sacrebleu.sentence_bleu, "chrf": sacrebleu.sentence_chrf}[by]
    scores = [score(text, [reference]).score for text in candidates]
    assert [sentence_score(text, reference, by) for text in candidates] == scores
    chosen = closest(candidates, reference, by)
    assert scores[chosen] == pytest.approx(max(scores), abs=1e-8)
    assert all(scores[chosen] > earlier for earlier in scores[:chosen])


@settings(max_examples=60, deadline=None)
@given(st.lists(PHRASES, min_size=1, max_size=4), PHRASES, PHRASES)
def test_more_candidates_never_lower_the_score(candidates: list[str], another: str, reference: str) -> None:
    before, after = (
        sentence_score(some[closest(some, reference)], reference) for some in (candidates, [*candidates, another])
    )
    assert after >= before - 1e-8


def test_each_sentence_has_its_choice() -> None:
    nbest = [BEAM, ["a dog", "the dog"], ["mat"]]
    assert choose(nbest, [REFERENCE, "the dog", "cat"]) == [2, 1, 0]
    assert choose([["kitten sits", "xx yy zz"]], ["kittens sit"], "chrf") == [0]
    assert choose([], []) == []


def test_bleu_and_chrf_may_choose_differently() -> None:
    candidates, reference = ["a dog ran home", "unbelievably quickness"], "unbelievable quick dog"
    assert (closest(candidates, reference, "bleu"), closest(candidates, reference, "chrf")) == (0, 1)


def test_what_cannot_be_chosen_from_is_refused() -> None:
    with pytest.raises(DataError, match="no candidate"):
        closest([], REFERENCE)
    with pytest.raises(DataError, match="1 sentences have no candidate to choose from, first sentence 2"):
        choose([["a"], []], ["a", "b"])
    with pytest.raises(MismatchError, match="1 lists of candidates and 2 references"):
        choose([["a"]], ["a", "b"])
    with pytest.raises(KnobError, match="meteor"):
        closest(BEAM, REFERENCE, "meteor")  # type: ignore[arg-type]
