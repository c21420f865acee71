"""Vocabularies: where the ids stand, that texts come back, and that the same texts give the same file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.data.seq2seq.subwords import train_subwords

TEXTS = [
    "A man in an orange hat starring at something.",
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    "Two young, White males are outside near many bushes.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "日本語の文、二つ。 naïve café\tO’Brien\u2028next <x> & [y]",
]
TAGS = ("<2de>", "<2en>")
KINDS = ("unigram", "bpe")
# what NFC joins and what it does not
ALPHABET = sorted(set("".join(TEXTS)) | {"e\u0301", "u\u0308", "  "})


@pytest.fixture(scope="module", params=KINDS)
def pieces(request: pytest.FixtureRequest) -> Any:
    return train_subwords([*TEXTS, "é ü"] * 4, 150, request.param, TAGS)


def test_ids_stand_where_marian_wants_them(pieces: Any) -> None:
    assert pieces.convert_tokens_to_ids(["</s>", "<unk>", *TAGS]) == [0, 1, 2, 3]
    assert pieces.pad_token_id == len(pieces) - 1 == max(pieces.get_vocab().values())
    assert sorted(pieces.get_vocab().values()) == list(range(len(pieces)))
    assert (pieces.eos_token_id, pieces.unk_token_id) == (0, 1)
    assert len(pieces) <= 150
    assert pieces.model_input_names == ["input_ids", "attention_mask"]
    assert pieces.clean_up_tokenization_spaces is False


def test_a_text_ends_and_a_tag_is_one_token(pieces: Any) -> None:
    plain, tagged = pieces(TEXTS[0]), pieces(f"<2de> {TEXTS[0]}")
    assert set(plain) == {"input_ids", "attention_mask"}
    assert plain["input_ids"][-1] == 0
    assert tagged["input_ids"] == [2, *plain["input_ids"]]
    assert pieces(text_target=TEXTS)["input_ids"] == pieces(TEXTS)["input_ids"]
    assert pieces.decode(tagged["input_ids"], skip_special_tokens=True) == TEXTS[0]
    assert pieces("")["input_ids"] == [0]


def test_what_is_unknown_is_still_something(pieces: Any) -> None:
    for text in ("Ж", "ЖЖ ЖЖ", "🙂🙂"):
        ids = pieces(text)["input_ids"]
        assert 1 in ids[:-1]
        assert ids[-1] == 0


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(ALPHABET), max_size=30).map("".join))
def test_texts_come_back(pieces: Any, text: str) -> None:
    spaced = re.sub(" +", " ", unicodedata.normalize("NFC", text)).strip(" ")
    assert pieces.decode(pieces(text)["input_ids"], skip_special_tokens=True) == spaced


def test_a_saved_vocabulary_is_the_same(pieces: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, MarianConfig

    pieces.save_pretrained(tmp_path)
    MarianConfig(vocab_size=len(pieces)).save_pretrained(tmp_path)  # its own tokenizer class must not take over
    again = AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, "<2de> a", "Ж", "a  b "]
    assert again(texts)["input_ids"] == pieces(texts)["input_ids"]
    assert again(text_target=texts)["input_ids"] == pieces(texts)["input_ids"]
    assert (again.pad_token_id, again.eos_token_id, len(again)) == (pieces.pad_token_id, 0, len(pieces))
    assert again.model_input_names == ["input_ids", "attention_mask"]
    assert again.decode(again(TEXTS[4])["input_ids"], skip_special_tokens=True) == TEXTS[4]


def test_unigram_pieces_are_found_and_not_only_characters() -> None:
    words = train_subwords(["the cat sat", "the dog sat", "the cat ran"] * 20, 64)
    assert words.tokenize("the cat") == ["▁the", "▁cat"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_file(kind: Any) -> None:
    texts = [f"{text} {n}" for n, text in enumerate(TEXTS * 8)]
    files = {train_subwords(iter(texts), 200, kind).backend_tokenizer.to_str() for _ in range(4)}
    code = (
        "import json, sys; from limbeck.data.seq2seq.subwords import train_subwords; "
        "texts, kind = json.load(sys.stdin); "
        "sys.stdout.buffer.write(train_subwords(texts, 200, kind).backend_tokenizer.to_str().encode())"
    )
    other = subprocess.run([sys.executable, "-c", code], input=json.dumps([texts, kind]).encode(), capture_output=True)
    assert files == {other.stdout.decode()}, other.stderr.decode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["a"], ["ab ab"], ["<pad> </s> <2de>"] * 9])
def test_little_text_gives_few_pieces(kind: Any, texts: list[str]) -> None:
    made = train_subwords(texts, 64, kind, TAGS)
    assert made.pad_token_id == len(made) - 1 < 63
    assert made.convert_tokens_to_ids(list(TAGS)) == [2, 3]
    for text in ("ab", *texts):
        assert made(text)["input_ids"][-1] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_character_has_a_place_even_if_there_are_more_than_asked_for(kind: Any) -> None:
    characters = "".join(chr(0x4E00 + n) for n in range(100))
    made = train_subwords([characters], 64, kind)
    assert made.decode(made(characters)["input_ids"], skip_special_tokens=True) == characters


def test_training_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    for kind in KINDS:
        train_subwords(TEXTS, 100, kind)  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")
