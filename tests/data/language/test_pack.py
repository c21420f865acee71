"""Blocks hold every token of the text, in order, framed as the model expects; what is left out is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.task import LanguageKind
from limbeck.data.language.corpus import LanguageCorpus, load_language
from limbeck.data.language.pack import FEWEST, Blocks, Frame, frame_of, pack, sentences, tokenise
from limbeck.data.settings import BlockSettings, DataSettings
from tiny_language import TEXTS, byte_level, wordpiece

CLS, SEP, MASK = 2, 3, 4
SHARED = Path(__file__).parents[4] / "shared" / "data" / "wikitext2_raw"


class Listener:
    def __init__(self) -> None:
        self.said: list[str] = []

    def plan(self, stages: Any) -> None: ...

    def at(self, stage: str, done: float, note: str = "") -> None: ...

    def say(self, message: str) -> None:
        self.said.append(message)


def rows(blocks: Blocks, column: str = "ids") -> list[list[Any]]:
    return [getattr(blocks, column)[blocks.tokens(index)].tolist() for index in range(len(blocks))]


def load(data: Any, kind: LanguageKind, tokenizer: Any, limit: int = 0, **text: Any) -> LanguageCorpus:
    return load_language(DataSettings(limit=limit), BlockSettings(**text), kind, tokenizer, data)


def plainly(documents: list[list[int]], frame: Frame, length: int, join: bool, kind: LanguageKind) -> list[list[int]]:
    """The bodies of all blocks, too short ones included, by the plainest loop."""
    between = list(frame.between)
    if kind == "generate":
        documents = [document + between for document in documents]
    elif join:
        documents = [document + between for document in documents[:-1]] + documents[-1:]
    streams = [[token for document in documents for token in document]] if join else documents
    size = length - frame.size
    return [stream[start : start + size] for stream in streams for start in range(0, len(stream), size)]


@given(
    st.lists(st.lists(st.integers(10, 99), max_size=40), min_size=1, max_size=12),
    st.integers(8, 24),
    st.booleans(),
    st.sampled_from(["mask-fill", "generate"]),
    st.sampled_from([Frame((2,), (3,), (3,)), Frame((), (), (9,)), Frame((1, 2), (), ()), Frame((1,), (4, 5), (6,))]),
)
@settings(max_examples=150, deadline=None)
def test_blocks_are_those_of_the_plain_loop(
    documents: list[list[int]], length: int, join: bool, kind: LanguageKind, frame: Frame
) -> None:
    flat = np.array([token for document in documents for token in document], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, documents)])
    marks = np.zeros(len(flat), dtype=bool)
    packed = pack(Blocks(flat, offsets, marks, inside=marks), frame, length, join, kind)
    pieces = plainly(documents, frame, length, join, kind)
    fewest = min(FEWEST, length - frame.size)
    kept = [piece for piece in pieces if len(piece) >= fewest]
    assert rows(packed.blocks) == [[*frame.prefix, *piece, *frame.suffix] for piece in kept]
    assert packed.dropped == sum(map(len, pieces)) - sum(map(len, kept))
    assert len(packed.blocks.special) == len(packed.blocks.ids)
    separators = 0 if kind == "generate" else sum(token in frame.between for piece in kept for token in piece)
    assert packed.blocks.special.sum() == frame.size * len(kept) + separators


def test_a_masked_block_is_framed_and_its_documents_separated() -> None:
    tokenizer = wordpiece()
    frame = frame_of(tokenizer, "mask-fill")
    assert frame == Frame((CLS,), (SEP,), (SEP,))
    texts = ["the film is understandable .", "a plot [SEP] with xyzzy and [MASK]"]
    found = tokenise(texts, tokenizer, "mask-fill")
    (block,) = rows(packed := pack(found, frame, 32, True, "mask-fill").blocks)
    words = "[CLS] the film is under ##stand ##able . [SEP] a plot [SEP] with [UNK] and [MASK] [SEP]".split()
    assert tokenizer.convert_ids_to_tokens(block) == words
    assert packed.special.tolist() == [word in ("[CLS]", "[SEP]", "[MASK]") for word in words]
    assert packed.inside.tolist() == [word.startswith("##") for word in words]


def test_words_of_byte_level_tokens_begin_with_their_space() -> None:
    tokenizer = byte_level()
    found = tokenise(["unforeseeable surprises très often", "again"], tokenizer, "mask-fill")
    tokens = tokenizer.convert_ids_to_tokens(found.ids.tolist())
    begins = [place for place, inside in enumerate(found.inside) if not inside]
    assert [tokens[place][0] for place in begins[1:-1]] == ["Ġ"] * 3
    assert begins[0] == 0
    assert begins[-1] == found.offsets[1]


def test_a_block_cut_inside_a_word_begins_a_new_one() -> None:
    tokenizer = wordpiece()
    found = tokenise(["understandable " * 10], tokenizer, "mask-fill")
    blocks = pack(found, frame_of(tokenizer, "mask-fill"), 12, False, "mask-fill").blocks
    assert len(blocks) == 3
    assert not blocks.inside[blocks.offsets[:-1] + 1].any()
    assert blocks.inside.sum() == 20 - 2  # 30 tokens of 10 words; two blocks begin with a piece


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("join", [False, True])
def test_causal_blocks_decode_to_the_text(join: bool, bos: bool) -> None:
    tokenizer = byte_level(bos=bos)
    frame = frame_of(tokenizer, "generate")
    assert frame == Frame((1,) if bos else (), (), (0,))
    texts = [*TEXTS, "Zoë 🙂 ends\n\n  here"]
    found = tokenise(texts, tokenizer, "generate")
    packed = pack(found, frame, 16, join, "generate")
    assert packed.dropped + len(packed.blocks.ids) == len(found.ids) + len(texts) + frame.size * len(packed.blocks)
    assert packed.blocks.lengths.max() == 16
    if join:
        body = [token for row in rows(packed.blocks) for token in row[frame.size :]]
        assert tokenizer.decode(body) == "<|end|>".join([*texts, ""])[: len(tokenizer.decode(body))]
        assert packed.dropped < FEWEST
    assert packed.blocks.special.sum() == frame.size * len(packed.blocks)


def test_apart_no_block_crosses_documents() -> None:
    tokenizer = byte_level()
    blocks = pack(tokenise(TEXTS, tokenizer, "generate"), frame_of(tokenizer, "generate"), 16, False, "generate").blocks
    for row in rows(blocks):
        assert 0 not in row[:-1]
        assert any(tokenizer.decode(row).removesuffix("<|end|>") in text for text in TEXTS)


def test_a_tokenizer_that_pads_and_cuts_by_itself_does_not() -> None:
    tokenizer = wordpiece()
    tokenizer("the film", padding="max_length", max_length=16, truncation=True)  # leaves its settings behind
    found = tokenise(["the film " * 50, "a"], tokenizer, "mask-fill")
    assert found.lengths.tolist() == [100, 1]


def test_long_and_many_texts_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = byte_level()
    whole = tokenise(TEXTS, tokenizer, "mask-fill")
    monkeypatch.setattr("limbeck.data.language.pack._TEXTS", 7)
    monkeypatch.setattr("limbeck.data.language.pack._CHARACTERS", 200)
    parts = tokenise(TEXTS, tokenizer, "mask-fill")
    for column in ("ids", "offsets", "special", "inside"):
        np.testing.assert_array_equal(getattr(whole, column), getattr(parts, column))


def test_the_corpus_and_what_it_says() -> None:
    tokenizer = byte_level()
    listener = Listener()
    data = [*TEXTS * 4, ""]
    corpus = load_language(DataSettings(), BlockSettings(length=64), "generate", tokenizer, data, listener)
    tokens = len(tokenise(data, tokenizer, "generate").ids) + len(data) - 1
    assert sum(corpus.tokens.values()) + sum(_left_out(note) for note in corpus.card.notes) == tokens
    for split, blocks in corpus.splits.items():
        assert corpus.card.splits[split].rows == len(blocks) > 0
        assert corpus.card.splits[split].labelled == len(blocks.ids) == corpus.tokens[split]
    said = "\n".join(listener.said)
    assert "the given rows, 201 documents; text from text" in said
    assert f"blocks of 64 tokens: train {len(corpus.train):,} ({corpus.tokens['train']:,} tokens)" in said
    assert "1 dropped: empty text; 150 seen before, kept" in said


def _left_out(note: str) -> int:
    return int(note.split()[1].replace(",", "")) if "left out" in note else 0


def test_a_limit_draws_the_same_blocks_every_time() -> None:
    tokenizer = byte_level()
    data = [f"Text {n} of many, with {n * n} words." for n in range(300)]
    everything = rows(load(data, "generate", tokenizer, length=16, pack=False).train)
    ten, twenty = (rows(load(data, "generate", tokenizer, limit, length=16, pack=False).train) for limit in (10, 20))
    assert len(ten) == 10
    assert [row for row in twenty if row in ten] == ten
    assert [row for row in everything if row in twenty] == twenty
    assert ten != everything[:10]
    assert any("10 of" in note for note in load(data, "generate", tokenizer, 10, length=16).card.notes)


def test_a_model_that_reads_less_gets_shorter_blocks() -> None:
    corpus = load(["the film is good ." * 9] * 99, "mask-fill", wordpiece(model_max_length=16), pack=False)
    assert corpus.length == corpus.train.lengths.max() == 16
    assert any("blocks have 16 tokens, not 128" in note for note in corpus.card.notes)


def test_too_little_text_is_refused() -> None:
    with pytest.raises(DataError, match="nothing in it fills a block of"):
        load(["a film is good"], "mask-fill", wordpiece())
    with pytest.raises(KnobError, match="no room beside 9 special ones"):
        pack(tokenise(["a"], wordpiece(), "mask-fill"), Frame((2,) * 9, (), ()), 8, True, "mask-fill")


def test_a_tokenizer_without_an_end_is_named() -> None:
    corpus = load(["the film is good . " * 9] * 99, "generate", wordpiece(), length=16)
    assert any("no end-of-text token" in note for note in corpus.card.notes)


def test_sentences_are_lines() -> None:
    ids, inside = sentences(["the film\n\nis understanding .", "a plot"], wordpiece())
    words = [[wordpiece().convert_ids_to_tokens(line) for line in document] for document in ids]
    assert words == [[["the", "film"], ["is", "under", "##stand", "##ing", "."]], [["a", "plot"]]]
    assert inside == [[[False, False], [False, False, True, True, False]], [[False, False]]]


def test_sentence_pairs() -> None:
    documents = [
        f"the film is good .\na plot was bad {'!' * (n % 7)}\nthe story stands .\nvery bad ." for n in range(99)
    ]
    corpus = load(documents, "mask-fill", wordpiece(), pairs=True, length=24)
    train = corpus.train
    assert set(train.next_sentence_label.tolist()) == {0, 1}
    assert len(train.types) == len(train.inside) == len(train.ids)
    assert train.inside.any()
    assert train.lengths.max() <= 24
    assert all(row[0] == CLS and row[-1] == SEP and row.count(SEP) == 2 for row in rows(train))
    with pytest.raises(DataError, match="no document has a second line"):
        load(["the film is good ."] * 99, "mask-fill", wordpiece(), pairs=True)
    with pytest.raises(MismatchError, match="masked LMs"):
        load(documents, "generate", wordpiece(), pairs=True)
    with pytest.raises(KnobError, match="documents of several lines"):
        load(documents, "mask-fill", wordpiece(), pairs=True, documents="line")


@pytest.mark.data
@pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the project")
def test_nothing_of_wikitext_is_lost() -> None:
    tokenizer = byte_level()
    files = DataSettings(train=str(SHARED / "wiki.valid.raw.gz"), test=str(SHARED / "wiki.test.raw.gz"))
    corpus = load_language(files, BlockSettings(held_out=0), "generate", tokenizer)
    texts = tokenizer.decode(corpus.test.ids.tolist()).split("<|end|>")
    words = sum(len(text.split()) for text in texts)
    assert 0 <= 241_211 - words <= FEWEST
    assert corpus.test.lengths[:-1].tolist() == [128] * (len(corpus.test) - 1)
