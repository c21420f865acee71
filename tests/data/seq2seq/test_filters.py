"""Which translations may be learnt from, and why the others may not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.data.seq2seq.filters import filter_pairs, repeats_itself

SENTENCE = "two men are standing at the stove"


@pytest.mark.parametrize(
    ("source", "written", "reason"),
    [
        (SENTENCE, "zwei Männer stehen am Herd", ""),
        (SENTENCE, "", "empty"),
        (SENTENCE, " \u2028\n", "empty"),
        (SENTENCE, f" {SENTENCE.upper()} ", "copies its source"),
        ("STRASSE 1", "straße 1", "copies its source"),
        (SENTENCE, "zwei", "too long or too short"),
        ("Hallo, Welt", "so " * 20, "too long or too short"),
        ("a" * 9, "bcdefgh" * 5 + "ijkl", ""),  # 40 to 10
        ("a" * 9, "bcdefgh" * 5 + "ijklm", "too long or too short"),
        ("OK", "in Ordnun", ""),  # both are short
        ("OK", "in Ordnung, das ist gut", "too long or too short"),
        (SENTENCE, "der Mann der Mann der Mann der Mann der Mann", "repeats itself"),
        (SENTENCE, "der Mann der Mann der Mann der Mann der", ""),
        (SENTENCE, "und so so so so so weiter", "repeats itself"),
        (SENTENCE, "und so so so so weiter", ""),
        ("ha ha ha ha ha, they say", "ho ho ho ho ho, sagen sie", ""),
        ("二人の男がストーブのそばに立っている", "男が" * 9, "repeats itself"),
        ("二人の男がストーブのそばに立っている", "男が" * 8, ""),
        ("二人の男がストーブのそばに立っている", "嗯" * 9, "repeats itself"),
    ],
)
def test_each_rule(source: str, written: str, reason: str) -> None:
    kept, counts = filter_pairs([source], [written], 4.0, copies=False)
    assert kept.tolist() == [not reason]
    assert counts == ({reason: 1} if reason else {})


def test_the_first_reason_counts_and_rows_stay_in_place() -> None:
    loop = "da da da da da da"
    sources = [SENTENCE, SENTENCE, "x", loop, "nothing like it", SENTENCE]
    written = ["", "ein guter Satz mit Wörtern", loop * 9, loop, loop, SENTENCE]
    kept, counts = filter_pairs(sources, written, 4.0, copies=False)
    assert kept.tolist() == [False, True, False, False, False, False]
    assert kept.dtype == np.bool_
    assert counts == {"empty": 1, "too long or too short": 1, "copies its source": 2, "repeats itself": 1}
    kept, counts = filter_pairs(sources, written, 1e9, copies=True, looping=True)
    assert kept.tolist() == [False, True, True, True, True, True]
    assert counts == {"empty": 1}
    kept, counts = filter_pairs(
        sources, written, 1e9, copies=True, looping=True, cut=[True, True, True, False, False, False]
    )
    assert kept.tolist() == [False, False, False, True, True, True]
    assert counts == {"empty": 1, "cut off before its end": 2}
    kept, counts = filter_pairs([], [], 4.0, False)
    assert (kept.tolist(), counts) == ([], {})


def test_rows_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        filter_pairs(["a", "b"], ["c"], 4.0, False)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_five_in_a_row_is_found_wherever_it_stands(before: list[str], unit: list[str]) -> None:
    assert repeats_itself(" ".join([*before, *unit * 5, "end"]))


@given(st.lists(st.sampled_from("ab"), max_size=24))
def test_a_loop_is_what_the_definition_says(words: list[str]) -> None:
    expected = any(
        words[at : at + n * 5] == words[at : at + n] * 5
        for n in range(1, 5)
        for at in range(len(words))
        if at + n * 5 <= len(words)
    )
    assert repeats_itself(" ".join([*words, "x", "y"])) == expected
