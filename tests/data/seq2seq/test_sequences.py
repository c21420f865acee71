"""Rows and batches of pairs: what is read and written, what a row is called, and that padding changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.task import TaskInfo
from limbeck.data.batches import Collator, batches
from limbeck.data.seq2seq.sequences import Sequences, encode_sequences
from limbeck.data.seq2seq.subwords import train_subwords

TASK = TaskInfo(kind="translate", vocab_size=50)
TEXTS = ["a man rides a red bike", "ein Mann fährt ein rotes Rad", "a dog", "ein Hund"]
PAIRS = st.lists(
    st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.lists(st.integers(0, 4), min_size=1, max_size=6)),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def pieces() -> Any:
    return train_subwords(TEXTS * 3, 80)


def test_a_row_reads_the_start_and_then_what_it_wrote() -> None:
    data = Sequences([[5, 6], [7, 8, 0]], [[9, 0], [3, 4, 2, 0]], start=49, truncated=1)
    assert data[1] == {
        "input_ids": [7, 8, 0],
        "attention_mask": [1, 1, 1],
        "decoder_input_ids": [49, 3, 4, 2],
        "labels": [3, 4, 2, 0],
        "has_label": [True] * 4,
        "predicted": [True] * 4,
        "uids": data.uids[1],
    }
    assert (len(data), data.lengths, data.rounds, data.truncated) == (2, [4, 7], 1, 1)
    assert data.uids.dtype == np.int64
    for index in (2, -1):
        with pytest.raises(IndexError):
            data[index]
    with pytest.raises(ValueError, match="1 sources and 2 targets"):
        Sequences([[1]], [[1], [2]], 0)


def test_a_uid_is_of_start_source_and_target() -> None:
    ways = [
        Sequences([source], [target], start).uids[0]
        for source, target, start in (
            ([1, 2], [3], 0),
            ([1], [2, 3], 0),
            ([1, 2, 3], [], 0),
            ([], [1, 2, 3], 0),
            ([1, 2], [4], 0),
            ([2, 2], [3], 0),
            ([1, 2], [3], 1),
        )
    ]
    assert len(set(ways)) == len(ways)
    assert min(ways) >= 0
    assert Sequences([[9], [1, 2]], [[9], [3]], 0).uids[1] == ways[0]


@given(PAIRS, st.data())
def test_taken_rows_are_the_same_rows(rows: list[tuple[list[int], list[int]]], data: st.DataObject) -> None:
    whole = Sequences([s for s, _ in rows], [t for _, t in rows], start=1)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))
    part = whole.take(np.array(chosen, dtype=np.int64))
    assert [part[n] for n in range(len(part))] == [whole[n] for n in chosen]
    assert part.uids.tolist() == whole.uids[chosen].tolist()


@settings(deadline=None)
@given(PAIRS, st.integers(0, 4), st.integers(0, 4), st.integers(1, 4))
def test_padding_is_where_a_row_ends(rows: list[tuple[list[int], list[int]]], pad: int, start: int, size: int) -> None:
    """Padding may be a word, the end of a text and the start all at once."""
    data = Sequences([s for s, _ in rows], [t for _, t in rows], start)
    seen: list[tuple[int, list[int], list[int]]] = []
    longest: list[int] = []
    for batch in batches(data, Collator(pad, TASK), size):
        assert list(batch.inputs) == ["input_ids", "attention_mask", "decoder_input_ids"]
        read, mask, written = batch.inputs.values()
        assert read.shape == mask.shape
        assert written.shape == batch.labels.shape == batch.predicted.shape
        assert torch.equal(batch.predicted, batch.has_label)
        assert batch.predicted.dtype == torch.bool
        assert mask.sum(1).max() == mask.shape[1]
        assert batch.predicted.sum(1).max() == batch.predicted.shape[1]
        for n in range(len(batch.uids)):
            ends, stops = int(mask[n].sum()), int(batch.predicted[n].sum())
            source, target = read[n, :ends].tolist(), batch.labels[n, :stops].tolist()
            assert mask[n, :ends].all()
            assert batch.predicted[n, :stops].all()
            assert (read[n, ends:] == pad).all()
            assert (written[n, stops:] == pad).all()
            assert not batch.labels[n, stops:].any()
            assert written[n, :stops].tolist() == [start, *target[:-1]]
            seen.append((int(batch.uids[n]), source, target))
            longest.append(ends + stops)
    assert longest == sorted(longest, reverse=True)
    assert sorted(seen) == sorted((int(u), s, t) for u, (s, t) in zip(data.uids, rows, strict=True))


def test_texts_are_cut_before_their_end_and_counted_once(pieces: Any) -> None:
    sources = [TEXTS[0] * 3, "a", TEXTS[0] * 3, "a"]
    targets = ["a", TEXTS[1] * 3, TEXTS[1] * 3, "a"]
    data = encode_sequences(sources, targets, pieces, pieces.pad_token_id, 9)
    assert data.truncated == 3
    for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for found, text in ((data.source(n).tolist(), source), (data.target(n).tolist(), target)):
            full = pieces(text)["input_ids"]
            assert found == (full if len(full) <= 9 else [*full[:8], 0])
    assert encode_sequences(sources, targets, pieces, 0, 500).truncated == 0
    assert len(encode_sequences([], [], pieces, 0, 9)) == 0


def test_a_tokenizer_that_reads_targets_otherwise_is_asked_for_targets(pieces: Any) -> None:
    class Directed:
        """As Marian's: source and target have pieces of their own."""

        model_max_length = 6

        def __call__(self, text: Any = None, text_target: Any = None, **how: Any) -> Any:
            found = pieces(text or text_target, **how)
            ids = [[*(token + 100 * (text is None) for token in row[:-1]), 0] for row in found["input_ids"]]
            return {"input_ids": ids, "token_type_ids": [[0] * len(row) for row in ids]}

    data = encode_sequences([TEXTS[0]], [TEXTS[1]], Directed(), 1, 99)
    assert data.source(0).tolist() == [*pieces(TEXTS[0])["input_ids"][:5], 0]
    assert data.target(0).tolist() == [*(token + 100 for token in pieces(TEXTS[1])["input_ids"][:5]), 0]
    assert set(data[0]) == {
        "input_ids",
        "attention_mask",
        "decoder_input_ids",
        "labels",
        "has_label",
        "predicted",
        "uids",
    }


def test_a_translator_says_the_same_in_any_company(pieces: Any) -> None:
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=len(pieces),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=64,
        pad_token_id=pieces.pad_token_id,
        eos_token_id=0,
        decoder_start_token_id=pieces.pad_token_id,
    )
    model = MarianMTModel(config).eval()
    data = encode_sequences([TEXTS[0], TEXTS[2]], [TEXTS[1], TEXTS[3]], pieces, pieces.pad_token_id, 64)
    collator = Collator(pieces.pad_token_id, TaskInfo(kind="translate", vocab_size=len(pieces)))
    with torch.no_grad():
        (together,) = batches(data, collator, 2)
        said = model(**together.inputs).logits[together.predicted]
        alone = [model(**batch.inputs).logits[batch.predicted] for batch in batches(data, collator, 1)]
        shifted = model.prepare_decoder_input_ids_from_labels(torch.tensor([data[0]["labels"]]))
    torch.testing.assert_close(said, torch.cat(alone), atol=1e-5, rtol=1e-5)
    assert shifted.tolist() == [data[0]["decoder_input_ids"]]
