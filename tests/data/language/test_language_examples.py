"""Rows and batches of tokens: what is asked, what it is called, and that padding changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.task import TaskInfo
from limbeck.data.batches import Buckets, Collator, batches, to_batch
from limbeck.data.language.examples import MaskedTokens, NextTokens, Tokens
from limbeck.data.language.masking import Masker
from limbeck.data.language.next_sentence import pairs
from limbeck.data.language.pack import Blocks
from limbeck.data.settings import MaskSettings

PAD, CLS, SEP, MASK, WORDS = 0, 1, 2, 3, 500
FILL = TaskInfo(kind="mask-fill", vocab_size=WORDS)
NEXT = TaskInfo(kind="generate", vocab_size=WORDS)


def make_blocks(lengths: list[int], seed: int = 0) -> Blocks:
    offsets = np.cumsum([0, *lengths])
    ids = np.random.default_rng(seed).integers(10, WORDS, offsets[-1]).astype(np.int32)
    special = np.zeros(len(ids), dtype=bool)
    special[offsets[:-1]] = special[offsets[1:] - 1] = True
    ids[offsets[:-1]], ids[offsets[1:] - 1] = CLS, SEP
    return Blocks(ids, offsets, special)


def make_masked(blocks: Blocks, ask: str = "masked", rounds: int = 0, seed: int = 0) -> MaskedTokens:
    masker = Masker(MaskSettings(seed=seed), MASK, WORDS, (PAD, CLS, SEP, MASK))
    return MaskedTokens(blocks, masker, ask, rounds)  # type: ignore[arg-type]


def test_a_masked_row_reads_the_mask_and_says_the_token() -> None:
    blocks = make_blocks([20, 40])
    row = make_masked(blocks)[1]
    ids = blocks.ids[20:]
    masked = make_masked(blocks).masker.mask(blocks, 1, 0)
    assert row["input_ids"] == masked.inputs.tolist()
    assert row["has_label"] == row["predicted"] == masked.chosen.tolist()
    assert row["labels"] == [token if chosen else 0 for token, chosen in zip(ids, masked.chosen, strict=True)]
    assert row["attention_mask"] == [1] * 40
    assert sum(row["has_label"]) == 6
    assert set(row) == {"input_ids", "attention_mask", "labels", "has_label", "predicted", "uids"}


def test_all_tokens_are_asked_about_but_only_the_chosen_are_labelled() -> None:
    blocks = make_blocks([20, 40])
    some, every = make_masked(blocks)[1], make_masked(blocks, "all")[1]
    assert every["predicted"] == [True] * 40
    assert every["has_label"] == some["has_label"]
    assert every["input_ids"] == some["input_ids"]
    assert every["uids"] != some["uids"]


def test_the_index_tells_the_round() -> None:
    blocks = make_blocks([20, 40, 30])
    data = make_masked(blocks, rounds=2)
    assert len(data) == 3
    assert data[4]["input_ids"] == data.masker.mask(blocks, 1, 1).inputs.tolist() != data[1]["input_ids"]
    assert make_masked(blocks)[3_000_001]["input_ids"] == data.masker.mask(blocks, 1, 1_000_000).inputs.tolist()
    for index in (6, -1):
        with pytest.raises(IndexError):
            data[index]
    with pytest.raises(IndexError):
        NextTokens(blocks)[3]


def test_the_sampler_brings_a_new_mask_every_epoch_and_every_block_in_each() -> None:
    data = make_masked(make_blocks([20] * 6))
    sampler = Buckets(data.lengths, 2, seed=0, rounds=data.rounds)
    seen: set[int] = set()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        uids = {data[index]["uids"] for index in sampler}
        assert uids == set(data.round_uids(epoch).tolist())
        assert not uids & seen
        seen |= uids
    assert len(seen) == 24


@pytest.mark.parametrize("ask", ["masked", "all"])
def test_uids_and_counts_are_those_of_every_index(ask: str) -> None:
    data = make_masked(make_blocks([20, 5, 33, 64]), ask, rounds=4)
    rows = [data[index] for index in range(4 * 4)]
    assert data.uids.tolist() == [row["uids"] for row in rows]
    assert data.predicted_counts.tolist() == [sum(row["predicted"]) for row in rows]
    for round in (0, 3):
        assert data.round_uids(round).tolist() == data.uids[4 * round : 4 * round + 4].tolist()
    assert data.uids.dtype == data.predicted_counts.dtype == np.int64
    assert (data.uids >= 0).all()
    assert len(make_masked(make_blocks([20, 5])).uids) == 2  # without end: of the first round


def test_a_question_has_one_name() -> None:
    """Equal in all that the answer depends on: equal uids. Different in any of it: different uids."""
    blocks = make_blocks([20, 40])
    twice = blocks.take([0, 1, 0])
    names = make_masked(twice).round_uids(0)
    assert names[0] == names[2] != names[1]
    assert names[0] == make_masked(blocks).round_uids(0)[0]  # whatever else is in the data
    types = np.zeros(len(blocks.ids), dtype=np.int8)
    other = types.copy()
    other[5] = 1
    learnt = np.ones(len(blocks.ids), dtype=bool)
    learnt[7] = False
    datasets: list[Tokens] = [
        make_masked(blocks),
        make_masked(blocks, seed=1),
        make_masked(blocks, "all"),
        make_masked(Blocks(blocks.ids, blocks.offsets, blocks.special, types=types)),
        make_masked(Blocks(blocks.ids, blocks.offsets, blocks.special, types=other)),
        NextTokens(blocks),
        NextTokens(Blocks(blocks.ids, blocks.offsets, blocks.special, learnt=learnt)),
    ]
    assert len({int(data.round_uids(0)[0]) for data in datasets}) == len(datasets)


def test_names_stay_what_they_are() -> None:
    """A cache on disk is read under these names: another release must not rename its questions."""
    ids = np.arange(10, 30, dtype=np.int32)
    blocks = Blocks(ids, np.array([0, 20]), np.zeros(20, dtype=bool))
    assert make_masked(blocks).masker.mask(blocks, 0, 1).inputs.tolist() == [
        10,
        11,
        12,
        13,
        14,
        3,
        16,
        17,
        18,
        19,
        3,
        21,
        22,
        23,
        24,
        25,
        26,
        3,
        28,
        29,
    ]
    assert make_masked(blocks).round_uids(1).tolist() == [6063674856853990144]
    assert NextTokens(blocks).uids.tolist() == [6220694223916717074]


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(2, 30), min_size=1, max_size=6), seed=st.integers(0, 2**32), chat=st.booleans())
def test_every_token_is_asked_for_the_next(lengths: list[int], seed: int, chat: bool) -> None:
    plain = make_blocks(lengths, seed)
    learnt = np.random.default_rng(seed).random(len(plain.ids)) < 0.5
    blocks = Blocks(plain.ids, plain.offsets, plain.special, learnt=learnt) if chat else plain
    data = NextTokens(blocks)
    for index, length in enumerate(lengths):
        row = data[index]
        ids = blocks.ids[blocks.tokens(index)].tolist()
        wanted = learnt[blocks.tokens(index)].tolist() if chat else [True] * length
        assert row["input_ids"] == ids
        for place in range(length - 1):
            assert row["has_label"][place] == row["predicted"][place] == wanted[place + 1]
            assert row["labels"][place] == (ids[place + 1] if wanted[place + 1] else 0)
        assert (row["labels"][-1], row["has_label"][-1], row["predicted"][-1]) == (0, False, False)


def test_the_shift_agrees_with_the_loss_of_transformers() -> None:
    """The same cross-entropy as a causal model of transformers finds with its own shift."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2
    )
    model = GPT2LMHeadModel(config).eval()
    (batch,) = batches(NextTokens(make_blocks([20, 12])), Collator(SEP, NEXT), 8)
    hidden = batch.inputs["attention_mask"] == 0
    with torch.no_grad():
        theirs = model(**batch.inputs, labels=batch.inputs["input_ids"].masked_fill(hidden, -100))
    ours = torch.nn.functional.cross_entropy(theirs.logits[batch.has_label], batch.labels[batch.has_label])
    assert torch.allclose(ours, theirs.loss, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 30), min_size=1, max_size=8),
    pad=st.sampled_from([PAD, SEP, 77]),
    causal=st.booleans(),
)
def test_padding_is_where_a_row_has_ended(lengths: list[int], pad: int, causal: bool) -> None:
    blocks = make_blocks(lengths)
    data: Tokens = NextTokens(blocks) if causal else make_masked(blocks, "all")
    rows = [data[index] for index in range(len(data))]
    tensors = Collator(pad, NEXT if causal else FILL)(rows)
    for name in ("input_ids", "attention_mask", "labels", "has_label", "predicted"):
        assert tensors[name].shape == (len(lengths), max(lengths))
        beyond = pad if name == "input_ids" else 0
        for line, row, length in zip(tensors[name].tolist(), rows, lengths, strict=True):
            assert line[:length] == row[name]
            assert all(cell == beyond for cell in line[length:])
    assert tensors["uids"].tolist() == [row["uids"] for row in rows]
    assert tensors["has_label"].dtype == tensors["predicted"].dtype == torch.bool
    assert tensors["input_ids"].dtype == tensors["labels"].dtype == tensors["uids"].dtype == torch.int64
    assert tensors["attention_mask"].sum(1).tolist() == lengths


def test_the_end_of_a_text_is_learnt_though_it_is_the_padding_token() -> None:
    (batch,) = batches(NextTokens(make_blocks([9, 5])), Collator(SEP, NEXT), 2)
    assert batch.labels[1, 3] == SEP
    assert batch.has_label[1].tolist() == [True] * 4 + [False] * 5
    assert batch.inputs["attention_mask"][1].tolist() == [1] * 5 + [0] * 4


def test_batches_hold_every_block_once_longest_first() -> None:
    lengths = np.random.default_rng(0).integers(3, 40, 23).tolist()
    data = make_masked(make_blocks(lengths), rounds=3)
    found = list(batches(data, Collator(PAD, FILL), 4, range(2 * len(data), 3 * len(data))))
    widths = [batch.labels.shape[1] for batch in found]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == max(lengths)
    assert sorted(torch.cat([batch.uids for batch in found]).tolist()) == sorted(data.round_uids(2).tolist())
    assert sum(int(batch.predicted.sum()) for batch in found) == data.predicted_counts[-len(data) :].sum()
    assert all(batch.in_loss.equal(batch.predicted) for batch in found)
    assert all(set(batch.inputs) == {"input_ids", "attention_mask"} for batch in found)
    assert all(batch.next_sentence_label.numel() == 0 for batch in found)


def test_pairs_carry_their_segments_and_whether_they_follow() -> None:
    draw = np.random.default_rng(0)
    documents = [[draw.integers(10, WORDS, 6).tolist() for _ in range(12)] for _ in range(8)]
    blocks = pairs(documents, 32, CLS, SEP, seed=0)
    data = make_masked(blocks)
    tensors = Collator(PAD, FILL)([data[index] for index in range(len(data))])
    batch = to_batch(tensors, FILL)
    assert batch.next_sentence_label.tolist() == blocks.next_sentence_label.tolist()
    assert set(batch.next_sentence_label.tolist()) == {0, 1}
    assert set(batch.inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    for index in range(len(blocks)):
        length = data.lengths[index]
        assert batch.inputs["token_type_ids"][index, :length].tolist() == blocks.types[blocks.tokens(index)].tolist()
        assert not batch.inputs["token_type_ids"][index, length:].any()
