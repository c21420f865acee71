"""Sentence pairs: the oracles of BERT's generator. Every token of the test says where it comes from."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import DataError, ModelError
from limbeck.data.language.next_sentence import pairs, tokens_cut
from limbeck.data.language.pack import Blocks

CLS, SEP = 1, 2
Shape = list[list[int]]  # documents of lengths of sentences


def numbered(shape: Shape) -> list[list[list[int]]]:
    """Documents in which every token has a number of its own, in order, from 10 on."""
    count = iter(range(10, 10**7))
    return [[[next(count) for _ in range(length)] for length in document] for document in shape]


def random_shape(documents: int, sentences: int, longest: int, seed: int = 0) -> Shape:
    draw = np.random.default_rng(seed)
    return [draw.integers(1, longest + 1, draw.integers(1, sentences + 1)).tolist() for _ in range(documents)]


def segments(blocks: Blocks, index: int) -> tuple[list[int], list[int]]:
    here = blocks.tokens(index)
    ids, types = blocks.ids[here], blocks.types[here]
    return ids[types == 0][1:-1].tolist(), ids[types == 1][:-1].tolist()


def homes(documents: list[list[list[int]]]) -> dict[int, int]:
    return {token: number for number, document in enumerate(documents) for words in document for token in words}


shapes = st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=2, max_size=8).filter(
    lambda shape: sum(any(document) for document in shape) >= 2
)


@settings(max_examples=150, deadline=None)
@given(shape=shapes, length=st.integers(8, 64), seed=st.integers(0, 2**32))
def test_every_pair_is_what_it_says(shape: Shape, length: int, seed: int) -> None:
    documents = numbered(shape)
    home = homes(documents)
    blocks = pairs(documents, length, CLS, SEP, seed)
    own: list[int] = []
    for index, next_sentence_label in enumerate(blocks.next_sentence_label.tolist()):
        here = blocks.tokens(index)
        first, second = segments(blocks, index)
        assert blocks.ids[here].tolist() == [CLS, *first, SEP, *second, SEP]
        assert blocks.types[here].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert np.flatnonzero(blocks.special[here]).tolist() == [0, len(first) + 1, len(first) + len(second) + 2]
        assert first
        assert second
        assert len(first) + len(second) + 3 <= length
        for segment in (first, second):  # a stretch of one document
            assert segment == list(range(segment[0], segment[-1] + 1))
            assert len({home[token] for token in segment}) == 1
        own += first
        if next_sentence_label:
            assert home[first[0]] != home[second[0]]
        else:
            assert home[first[0]] == home[second[0]]
            assert first[-1] < second[0]
            own += second
    assert own == sorted(set(own))  # every sentence has its turn once, in order
    assert tokens_cut(documents, blocks) == len(home) - len(own)


def test_segments_that_fit_are_consecutive_and_whole_sentences() -> None:
    documents = numbered([[5] * 40 for _ in range(50)])
    starts = {words[0] for document in documents for words in document}
    ends = {words[-1] for document in documents for words in document}
    blocks = pairs(documents, 63, CLS, SEP, seed=1)  # room for 60: twelve sentences, nothing to cut
    for index, next_sentence_label in enumerate(blocks.next_sentence_label.tolist()):
        first, second = segments(blocks, index)
        assert {first[0], second[0]} <= starts
        assert {first[-1], second[-1]} <= ends
        assert next_sentence_label or second[0] == first[-1] + 1
    assert tokens_cut(documents, blocks) == 0


def test_half_of_the_pairs_follow_unless_there_is_one_sentence() -> None:
    longer = pairs(numbered([[4] * 4000 for _ in range(5)]), 67, CLS, SEP, seed=0)
    total = len(longer)
    assert total > 1000
    assert abs(int(longer.next_sentence_label.sum()) - total / 2) < 3 * math.sqrt(total) / 2 + 5  # 5: ends of documents

    single = pairs(numbered([[4]] * 300), 64, CLS, SEP, seed=0)
    assert len(single) == 300
    assert (single.next_sentence_label == 1).all()

    mixed = pairs(numbered(random_shape(2000, 12, 40)), 64, CLS, SEP, seed=0)
    assert 0.55 < mixed.next_sentence_label.mean() < 0.95


def test_the_first_segment_ends_anywhere_in_the_chunk() -> None:
    """Chunks of ten sentences of one token: the first segment has one to nine of them, equally often."""
    documents = numbered([[1] * 1000 for _ in range(40)])
    home = homes(documents)
    blocks = pairs(documents, 13, CLS, SEP, seed=3)
    sizes: dict[int, list[int]] = {}  # of the first segments of each document, the last few left out
    for index in range(len(blocks)):
        first, _ = segments(blocks, index)
        if first[0] % 1000 < 980:
            sizes.setdefault(home[first[0]], []).append(len(first))
    counts = Counter(size for found in sizes.values() if max(found) == 9 for size in found)
    expected = sum(counts.values()) / 9
    assert expected > 300
    assert set(counts) == set(range(1, 10))
    assert all(abs(count - expected) < 4 * math.sqrt(expected) for count in counts.values())


def test_a_tenth_of_the_documents_is_cut_shorter() -> None:
    documents = numbered([[1] * 60 for _ in range(2000)])
    blocks = pairs(documents, 33, CLS, SEP, seed=0)
    home = homes(documents)
    longest: Counter[int] = Counter()
    for index in range(len(blocks)):
        first, second = segments(blocks, index)
        longest[home[first[0]]] = max(longest[home[first[0]]], len(first) + len(second))
    shorter = sum(size < 30 for size in longest.values())
    expected = 2000 * 0.1 * 28 / 29  # sizes of 2 to 30 are drawn, and 30 is not shorter
    assert abs(shorter - expected) < 3 * math.sqrt(expected)


def test_long_segments_lose_tokens_at_both_ends_until_they_fit() -> None:
    documents = numbered([[100], [100]] * 400)
    blocks = pairs(documents, 53, CLS, SEP, seed=0)
    assert (blocks.lengths == 53).all()
    begin = {number: document[0][0] for number, document in enumerate(documents)}
    home = homes(documents)
    fronts = []
    for index in range(len(blocks)):
        first, second = segments(blocks, index)
        assert len(first) == len(second) == 25
        fronts += [segment[0] - begin[home[segment[0]]] for segment in (first, second)]
    mean = 75 / 2
    assert abs(np.mean(fronts) - mean) < 4 * math.sqrt(75 / 4 / len(fronts))
    assert abs(np.var(fronts) / (75 / 4) - 1) < 4 * math.sqrt(2 / len(fronts))  # binomial: each token by a coin
    assert tokens_cut(documents, blocks) == 800 * 75


@pytest.mark.parametrize(("first", "room", "kept"), [(1, 9, (1, 8)), (3, 9, (3, 6)), (20, 9, (5, 4)), (20, 10, (5, 5))])
def test_the_longer_segment_is_cut_first(first: int, room: int, kept: tuple[int, int]) -> None:
    documents = numbered([[first], [30]])
    for seed in range(5):
        blocks = pairs(documents, room + 3, CLS, SEP, seed)
        own = [segments(blocks, index) for index in range(len(blocks))]
        sizes = [(len(one), len(other)) for one, other in own if one[0] < 10 + first]
        assert sizes == [kept]


def test_the_seed_decides() -> None:
    documents = numbered(random_shape(30, 20, 20))
    one, same, other = (pairs(documents, 40, CLS, SEP, seed).ids.tobytes() for seed in (0, 0, 1))
    assert one == same != other


def test_pieces_of_words_come_along_and_segments_begin_with_a_word() -> None:
    documents = numbered(random_shape(30, 20, 20))
    inside = [[[token % 3 == 0 for token in words] for words in document] for document in documents]
    blocks = pairs(documents, 40, CLS, SEP, 0, inside)
    begins = np.concatenate([[False], blocks.special[:-1]])
    assert (blocks.inside == ((blocks.ids % 3 == 0) & ~blocks.special & ~begins)).all()
    assert not len(pairs(documents, 40, CLS, SEP, 0).inside)


def test_what_makes_no_pairs_is_refused() -> None:
    with pytest.raises(DataError, match="blank lines"):
        pairs(numbered([[4, 5], [], [0]]), 64, CLS, SEP, 0)
    with pytest.raises(DataError, match="no words"):
        pairs([], 64, CLS, SEP, 0)
    with pytest.raises(ModelError, match="sep_token"):
        pairs(numbered([[4], [5]]), 64, CLS, None, 0)
