"""Masks: how many tokens, which, what stands in their place, and what decides it."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import processors

from limbeck.core.errors import KnobError, ModelError
from limbeck.data.language.masking import GROUP, Masker, count_tokens, predictions
from limbeck.data.language.pack import Blocks
from limbeck.data.settings import MaskSettings
from tiny import make_tokenizer
from tiny_language import make_words

PAD, CLS, SEP, MASK, WORDS = 0, 1, 2, 3, 1000
KINDS = ("token", "whole-word", "rare")


def make_blocks(lengths: list[int], seed: int = 0, pieces: float = 0.3) -> Blocks:
    """[CLS] words [SEP], and so on; some words have several pieces."""
    draw = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    ids = draw.integers(10, WORDS, offsets[-1]).astype(np.int32)
    special = np.zeros(len(ids), dtype=bool)
    special[offsets[:-1]] = special[offsets[1:] - 1] = True
    ids[offsets[:-1]], ids[offsets[1:] - 1] = CLS, SEP
    inside = (draw.random(len(ids)) < pieces) & ~special
    return Blocks(ids, offsets, special, inside=inside)


def make_masker(blocks: Blocks, **knobs: Any) -> Masker:
    return Masker(MaskSettings(**knobs), MASK, WORDS, (PAD, CLS, SEP, MASK), count_tokens(blocks, WORDS))


def all_masks(masker: Masker, blocks: Blocks, round: int = 0) -> tuple[np.ndarray, np.ndarray]:
    masked = [masker.mask(blocks, index, round) for index in range(len(blocks))]
    return np.concatenate([one.inputs for one in masked]), np.concatenate([one.chosen for one in masked])


@pytest.mark.parametrize(("length", "count"), [(128, 19), (512, 77), (10, 2), (30, 4), (50, 8), (3, 1), (1, 1)])
def test_predictions_are_counted_as_bert_does(length: int, count: int) -> None:
    assert predictions(length, 0.15) == count


@pytest.mark.parametrize("length", [3, 10, 30, 50, 128, 512])
def test_a_block_has_that_many_predictions(length: int) -> None:
    blocks = make_blocks([length] * 3)
    for index in range(3):
        assert make_masker(blocks).mask(blocks, index, 0).chosen.sum() == predictions(length, 0.15)


def test_never_more_predictions_than_words() -> None:
    blocks = make_blocks([2, 4, 4])
    masker = make_masker(blocks, share=0.9)
    assert [int(masker.mask(blocks, index, 0).chosen.sum()) for index in range(3)] == [0, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_eighty_ten_ten_and_the_unchanged_are_predicted_too(kind: str) -> None:
    blocks = make_blocks([128] * 800)
    inputs, chosen = all_masks(make_masker(blocks, kind=kind), blocks)
    total = int(chosen.sum())
    hidden = (inputs == MASK) & chosen
    same = (inputs == blocks.ids) & chosen
    # a random token is the mask, or the token itself, once in the vocabulary
    for found, part in (
        (hidden.sum(), 0.8 + 0.1 / WORDS),
        (same.sum(), 0.1 + 0.1 / WORDS),
        ((chosen & ~hidden & ~same).sum(), 0.1 - 0.2 / WORDS),
    ):
        assert abs(found - part * total) < 3 * math.sqrt(total * part * (1 - part))
    assert (inputs[~chosen] == blocks.ids[~chosen]).all()


def test_random_tokens_come_from_the_whole_vocabulary() -> None:
    blocks = make_blocks([128] * 800)
    inputs, chosen = all_masks(make_masker(blocks, hidden=0.0, random=1.0), blocks)
    seen = np.bincount(inputs[chosen], minlength=WORDS)
    assert len(seen) == WORDS
    assert (seen > 0).all()  # about 15 of each are expected, special tokens among them
    statistic = float(((seen - seen.mean()) ** 2 / seen.mean()).sum())
    assert abs(statistic - (WORDS - 1)) < 4 * math.sqrt(2 * (WORDS - 1))  # χ² with WORDS − 1 degrees of freedom


@pytest.mark.parametrize(("hidden", "random"), [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0)])
def test_the_ends_of_the_range(hidden: float, random: float) -> None:
    blocks = make_blocks([64] * 20)
    inputs, chosen = all_masks(make_masker(blocks, hidden=hidden, random=random), blocks)
    assert chosen.sum() == 20 * predictions(64, 0.15)
    if hidden:
        assert (inputs[chosen] == MASK).all()
    elif not random:
        assert (inputs == blocks.ids).all()
    else:
        assert (inputs[chosen] != blocks.ids[chosen]).mean() > 0.9


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 70), min_size=1, max_size=40),
    kind=st.sampled_from(KINDS),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**40),
)
def test_special_tokens_are_never_chosen_nor_changed(lengths: list[int], kind: str, share: float, seed: int) -> None:
    blocks = make_blocks(lengths, seed)
    blocks.ids[1::7] = np.where(blocks.special[1::7], blocks.ids[1::7], MASK)  # special by its id, not by its mark
    inputs, chosen = all_masks(make_masker(blocks, kind=kind, share=share, seed=seed), blocks)
    never = blocks.special | (blocks.ids == MASK)
    assert not chosen[never].any()
    assert (inputs[never] == blocks.ids[never]).all()
    assert inputs.dtype == np.int32
    assert inputs.min() >= 0
    assert inputs.max() < WORDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_marked_is_never_chosen_though_its_token_is_a_word_like_any_other(kind: str) -> None:
    blocks = make_blocks([24] * 40)
    blocks.ids[blocks.special] = 17
    blocks.ids[5::24] = 17  # as a word
    masker = Masker(MaskSettings(kind=kind, share=0.9), MASK, WORDS, (MASK,), count_tokens(blocks, WORDS))
    inputs, chosen = all_masks(masker, blocks)
    assert not chosen[blocks.special].any()
    assert (inputs[blocks.special] == 17).all()
    assert chosen[5::24].any()


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_round_decide_and_nothing_else(kind: str) -> None:
    blocks = make_blocks([40] * 70)
    one = make_masker(blocks, kind=kind)
    there = [one.mask(blocks, index, 5).inputs for index in range(70)]
    other = pickle.loads(pickle.dumps(make_masker(blocks, kind=kind)))
    for index in np.random.default_rng(0).permutation(70):
        other.mask(blocks, int(index), 4)  # another round between leaves no trace
        assert (other.mask(blocks, int(index), 5).inputs == there[index]).all()
    different = {
        all_masks(make_masker(blocks, kind=kind, seed=seed), blocks, round)[1].tobytes()
        for seed in (0, 1, 10)
        for round in (0, 1, 10)
    }
    assert len(different) == 9


@pytest.mark.parametrize("kind", ["token", "whole-word"])
def test_a_block_keeps_its_mask_wherever_it_stands(kind: str) -> None:
    blocks = make_blocks([30, 40, 50, 60])
    masker = make_masker(blocks, kind=kind)
    chosen = blocks.take([3, 1])
    for here, there in enumerate((3, 1)):
        assert (masker.mask(chosen, here, 2).inputs == masker.mask(blocks, there, 2).inputs).all()


def test_every_token_is_as_likely_and_rounds_are_independent() -> None:
    blocks = make_blocks([50])
    masker = make_masker(blocks)
    rounds = 4000
    often = np.sum([masker.mask(blocks, 0, round).chosen for round in range(rounds)], axis=0)[1:-1]
    part = 8 / 48
    assert np.abs(often - rounds * part).max() < 4.5 * math.sqrt(rounds * part * (1 - part))


def words_of(blocks: Blocks, index: int) -> list[list[int]]:
    words: list[list[int]] = []
    here = blocks.tokens(index)
    for place, (special, inside) in enumerate(zip(blocks.special[here], blocks.inside[here], strict=True)):
        if special:
            continue
        if inside and words and words[-1][-1] == place - 1:
            words[-1].append(place)
        else:
            words.append([place])
    return words


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 60), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
    pieces=st.floats(0, 1),
    share=st.floats(0.01, 0.5),
)
def test_words_are_chosen_whole(lengths: list[int], seed: int, pieces: float, share: float) -> None:
    blocks = make_blocks(lengths, seed, pieces)
    masker = make_masker(blocks, kind="whole-word", share=share, seed=seed)
    for index, length in enumerate(lengths):
        chosen = masker.mask(blocks, index, 0).chosen
        words = words_of(blocks, index)
        assert all(len(set(chosen[word].tolist())) == 1 for word in words)
        room = predictions(length, share) - int(chosen.sum())
        assert room >= 0
        # a word is left out only if it does not fit
        assert all(len(word) > room for word in words if not chosen[word[0]]) or room == 0


def test_words_not_tokens_are_equally_likely() -> None:
    blocks = make_blocks([42], pieces=0)
    blocks.inside[2:22:2] = True  # ten words of two pieces, twenty of one
    masker = make_masker(blocks, kind="whole-word", share=0.2)
    words = words_of(blocks, 0)
    rounds = 3000
    first = np.zeros(len(words))
    for round in range(rounds):
        chosen = masker.mask(blocks, 0, round).chosen
        first += [chosen[word[0]] for word in words]
    long = np.array([len(word) == 2 for word in words])
    # the last place goes to a short word only, so short ones are a little ahead, by far less than two to one
    assert first[long].mean() < first[~long].mean() < 1.25 * first[long].mean()


def test_rare_masks_count_over_the_group() -> None:
    lengths = np.random.default_rng(1).integers(5, 90, 3 * GROUP + 7).tolist()
    blocks = make_blocks(lengths)
    _, chosen = all_masks(make_masker(blocks, kind="rare"), blocks)
    edges = [0, GROUP, 2 * GROUP, 3 * GROUP, len(lengths)]
    for first, last in pairwise(edges):
        here = slice(blocks.offsets[first], blocks.offsets[last])
        assert chosen[here].sum() == math.ceil(0.15 * sum(lengths[first:last]))
    own = [int(chosen[blocks.tokens(index)].sum()) for index in range(len(lengths))]
    assert own != [predictions(length, 0.15) for length in lengths]


def small_group(tokens: list[int]) -> Blocks:
    ids = np.array(tokens, dtype=np.int32)
    return Blocks(ids, np.array([0, len(ids)]), np.zeros(len(ids), dtype=bool))


def test_rare_tokens_are_chosen_by_the_power_of_their_count() -> None:
    """One is chosen at a time, so that a token's part is its weight, count^-0.7, exactly."""
    counts = np.array([1, 3, 9, 27])
    blocks = small_group([10, 11, 12, 13] * 5)
    seen = np.concatenate([np.zeros(10), counts])
    masker = Masker(MaskSettings(kind="rare", share=0.001), MASK, WORDS, (), seen)
    rounds = 12000
    chosen = np.sum([masker.mask(blocks, 0, round).chosen for round in range(rounds)], axis=0)
    assert chosen.sum() == rounds
    often = chosen.reshape(5, 4).sum(axis=0)
    part = counts**-0.7 / (counts**-0.7).sum()
    assert (np.abs(often - rounds * part) < 3.5 * np.sqrt(rounds * part * (1 - part))).all()
    exponent = np.polyfit(np.log(counts), np.log(often), 1)[0]
    assert abs(exponent + 0.7) < 0.04  # its standard error is about 0.011


def test_rare_tokens_are_drawn_without_replacement() -> None:
    """Two of three: token i is first with w_i, or second after j with w_j w_i / (1 - w_j)."""
    counts = np.array([1, 5, 50])
    blocks = small_group([10, 11, 12])
    masker = Masker(MaskSettings(kind="rare", share=0.5), MASK, WORDS, (), np.concatenate([np.zeros(10), counts]))
    weights = counts**-0.7 / (counts**-0.7).sum()
    after = weights[:, None] * weights[None, :] / (1 - weights[None, :])
    part = weights + after.sum(axis=1) - np.diag(after)
    rounds = 8000
    often = np.sum([masker.mask(blocks, 0, round).chosen for round in range(rounds)], axis=0)
    assert often.sum() == 2 * rounds
    assert (np.abs(often - rounds * part) < 3.5 * np.sqrt(rounds * part * (1 - part))).all()


def test_a_token_never_seen_weighs_as_one_seen_once() -> None:
    ids = np.tile(np.array([10, 11], dtype=np.int32), 32 * GROUP)
    blocks = Blocks(ids, np.arange(0, len(ids) + 1, 64), np.zeros(len(ids), dtype=bool))
    counts = np.array([0] * 10 + [1])
    masker = Masker(MaskSettings(kind="rare"), MASK, WORDS, (), counts)
    chosen = np.sum([all_masks(masker, blocks, round)[1] for round in range(50)], axis=0)
    seen, unseen = chosen[::2].sum(), chosen[1::2].sum()
    assert abs(seen - unseen) < 4 * math.sqrt(seen + unseen)


def test_what_cannot_be_masked_is_refused() -> None:
    blocks = make_blocks([10])
    with pytest.raises(ModelError, match="--task generate"):
        Masker(MaskSettings(), None, WORDS)
    with pytest.raises(KnobError, match=r"mask\.random"):
        Masker(MaskSettings(hidden=0.8, random=0.3), MASK, WORDS)
    with pytest.raises(ModelError, match="belongs to the model"):
        Masker(MaskSettings(), MASK, 5).check(blocks)
    without = Blocks(blocks.ids, blocks.offsets, blocks.special)
    with pytest.raises(ModelError, match=r"mask\.kind = token"):
        make_masker(without, kind="whole-word").check(without)
    make_masker(without).check(without)


def test_what_a_tokenizer_frames_texts_with_is_never_masked_though_it_is_not_named_special() -> None:
    """A token that only the post-processor knows, such as a prompt before every text."""
    tokenizer = make_tokenizer()
    ordinary = tokenizer.convert_tokens_to_ids("story")
    framing = processors.TemplateProcessing(
        single="story $A [SEP]", special_tokens=[("story", ordinary), ("[SEP]", tokenizer.sep_token_id)]
    )
    tokenizer.backend_tokenizer.post_processor = framing
    assert ordinary not in tokenizer.all_special_ids
    words = make_words(tokenizer, documents=30, share=0.9)
    rows = [words.splits["train"][row] for row in range(len(words.splits["train"]))]
    assert {row["input_ids"][0] for row in rows} == {ordinary}
    assert not any(row["predicted"][0] for row in rows)
    assert all(any(row["predicted"][1:]) for row in rows)
