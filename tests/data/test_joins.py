"""Joins of two training rows: as long as the texts to be answered, and always the same."""

from random import Random
from statistics import mean

import numpy as np

from limbeck.data.augment import augment
from limbeck.data.joins import Joiner, length, lengths_of, part_lengths
from limbeck.data.settings import AugmentSettings
from limbeck.data.text.examples import Examples

draw = Random(0)
WORDS = "a lovely dull film with the very clever plot and tired actor".split()
TEXTS = list(dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(400)))
LONG = [" ".join(draw.choices(WORDS, k=draw.randint(12, 26))) for _ in range(100)]


def examples(texts, pairs=()):
    count = len(texts)
    return Examples(
        np.arange(count), list(texts), list(pairs), np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    )


def joined(given, lengths=(), **knobs):
    return augment(given, AugmentSettings(kind="joins", **knobs), lengths=lengths)


def test_a_join_is_two_rows_of_train_and_nothing_else():
    made = joined(examples(TEXTS), lengths_of([(text, "") for text in LONG]))
    known = set(TEXTS)
    assert len(made) > 300
    for text in made.texts:
        words = text.split(" ")
        halves = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
        assert any(first in known and second in known and first != second for first, second in halves)
    assert not made.has_label.any()
    assert not known & set(made.texts)


def test_joins_depend_on_the_seed_and_on_no_order():
    lengths = lengths_of([(text, "") for text in LONG])
    once, again = joined(examples(TEXTS), lengths), joined(examples(TEXTS[::-1]), lengths[::-1])
    assert once.texts == again.texts
    assert once.uids.tolist() == again.uids.tolist()
    assert once.texts != joined(examples(TEXTS), lengths, seed=1).texts


def test_joins_are_as_long_as_what_is_to_be_answered():
    wanted = [length((text, "")) for text in LONG]
    made = [len(text) for text in joined(examples(TEXTS), wanted, copies=3).texts]
    assert abs(mean(made) - mean(wanted)) < 0.15 * mean(wanted)
    longest = max(map(len, TEXTS))
    assert max(made) <= 2 * longest + 1
    # Of texts that are as long already, only the shorter ones are joined, and none becomes longer than all.
    few = joined(examples(TEXTS), lengths_of([(text, "") for text in TEXTS]))
    assert len(few) < len(TEXTS)
    assert max(map(len, few.texts)) < 1.2 * longest


def test_copies_and_limit():
    assert len(joined(examples(TEXTS), copies=2)) > 1.9 * len(TEXTS)
    assert len(joined(examples(TEXTS), copies=2, limit=50)) == 50
    assert len(joined(examples(TEXTS[:1]))) == 0


def test_of_pairs_both_sides_are_joined():
    pairs = [text[::-1] for text in TEXTS]
    made = joined(examples(TEXTS, pairs))
    for text, pair in made.keys:
        assert any(
            text == f"{one} {other}" and pair == f"{one[::-1]} {other[::-1]}"
            for one in TEXTS
            if text.startswith(one + " ")
            for other in TEXTS
            if text.endswith(" " + other)
        )


def test_a_row_too_long_for_every_length_is_left_alone():
    joiner = Joiner([("a b", ""), ("c d e", "")], AugmentSettings(kind="joins"), [2])
    assert list(joiner.copies([("a b", "")])) == []


def test_lengths_that_part_are_said():
    short, long = [("one two three four", "")] * 3, [("one two three four five six seven eight nine", "")] * 3
    assert part_lengths(short, long) == (
        "A text of test has 9 words, one of train 4 (medians); "
        "--augment.kind joins, as in --preset small, adds longer ones for the teacher to label."
    )
    assert "joins" not in part_lengths(long, short)
    assert "9" in part_lengths(long, short)
    assert part_lengths(short, short) == part_lengths([], long) == ""
