"""A trimmed tokenizer: the same pieces under new numbers, whatever the algorithm, and the same after saving."""

import copy
import json
import random

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from limbeck.core.errors import ModelError
from limbeck.core.tokenizer_json import checked, indispensable, renumbered, with_merge_parents
from limbeck.core.vocabulary import trimmed
from tiny_tokenizers import LINES, MADE, tiny_tokenizer

KINDS = list(MADE)
KEPT = [*LINES[:3], "", "  ", "naïve 電影 🎬 film"]


def ids(tokenizer, text, *pair):
    return tokenizer(text, *pair)["input_ids"]


def trim(kind, texts=KEPT):
    tokenizer = tiny_tokenizer(kind)
    small, old_ids = trimmed(tokenizer, {number for text in texts for number in ids(tokenizer, text)})
    return tokenizer, small, old_ids


@pytest.mark.parametrize("kind", KINDS)
def test_texts_whose_pieces_were_kept_have_the_same_ids(kind):
    tokenizer, small, old_ids = trim(kind)
    assert len(small) == len(old_ids) < len(tokenizer)
    assert old_ids == sorted(old_ids)
    for text in KEPT:
        assert [old_ids[n] for n in ids(small, text)] == ids(tokenizer, text)
    assert [old_ids[n] for n in ids(small, KEPT[0], KEPT[2])] == ids(tokenizer, KEPT[0], KEPT[2])
    assert ids(tokenizer, KEPT[0])[0] in tokenizer.all_special_ids
    assert {piece: old_ids[n] for piece, n in small.get_vocab().items()}.items() <= tokenizer.get_vocab().items()


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_of_kept_pieces_has_the_same_ids(kind):
    """Random texts: those of kept pieces only are segmented as before, the others are spelled, none is lost."""
    tokenizer, small, old_ids = trim(kind)
    draw, kept = random.Random(0), {*old_ids}
    words = [word for line in LINES[:6] for word in line.split()]
    cases = [0, 0]
    for _ in range(300):
        word = draw.choice(words)
        text = " ".join([word[draw.randrange(len(word)) :] + draw.choice(words)[: draw.randrange(6)] for _ in range(2)])
        before, after = ids(tokenizer, text), ids(small, text)
        cases[same := {*before} <= kept] += 1
        if same:
            assert [old_ids[n] for n in after] == before, text
        else:
            assert small.decode(after, skip_special_tokens=True) == tokenizer.decode(before, skip_special_tokens=True)
    assert min(cases) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_one_opens_as_the_same_tokenizer(kind, tmp_path):
    tokenizer, small, _ = trim(kind)
    small.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    raw = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    raw.no_padding()
    raw.no_truncation()
    for text in (*KEPT, *LINES, "ein Wort, nie gesehen"):
        assert ids(again, text) == ids(small, text) == raw.encode(text).ids
    assert ids(again, *LINES[2:4]) == ids(small, *LINES[2:4]) == raw.encode(*LINES[2:4]).ids
    assert type(again) is type(small) is type(tokenizer)
    assert again.special_tokens_map == tokenizer.special_tokens_map
    assert (again.model_max_length, again.padding_side) == (tokenizer.model_max_length, tokenizer.padding_side)
    assert again.get_vocab() == small.get_vocab()
    assert small.name_or_path == tokenizer.name_or_path


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_kept_leaves_characters_bytes_and_special_tokens(kind):
    tokenizer = tiny_tokenizer(kind)
    small, _ = trimmed(tokenizer, [])
    bare = [piece.removeprefix("##") for piece in small.get_vocab()]
    special = {*tokenizer.all_special_tokens}
    long = [piece for piece in bare if len(piece) > 1 and piece not in special and not piece.startswith("<0x")]
    assert len(long) == (1 if kind == "unigram" and len(long) else 0), "but the piece with the lowest score"
    characters = {piece for piece in tokenizer.get_vocab() if len(piece.removeprefix("##")) == 1}
    assert characters <= small.get_vocab().keys()
    text = "the understanding films"
    assert small.decode(ids(small, text), skip_special_tokens=True).replace(" ", "") == text.replace(" ", "")
    assert small.unk_token_id is None or small.unk_token_id not in ids(small, text)


@pytest.mark.parametrize("kind", KINDS)
def test_added_tokens_stay(kind, tmp_path):
    tokenizer = copy.deepcopy(tiny_tokenizer(kind))
    tokenizer.add_tokens(["<user>"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<tag>"]})
    text = "<tag> the film <user> warm"
    small, old_ids = trimmed(tokenizer, ids(tokenizer, text))
    small.save_pretrained(tmp_path)
    for one in (small, AutoTokenizer.from_pretrained(tmp_path)):
        assert [old_ids[n] for n in ids(one, text)] == ids(tokenizer, text)
        assert one.convert_tokens_to_ids(["<user>", "<tag>"]) == [len(old_ids) - 2, len(old_ids) - 1]
        assert "<tag>" not in one.decode(ids(one, text), skip_special_tokens=True)


def test_padding_and_truncation_of_the_file_stay(tmp_path):
    """Files of sentence-transformers pad every text to 128 tokens."""
    tokenizer = copy.deepcopy(tiny_tokenizer("byte-level BPE"))
    tokenizer.backend_tokenizer.enable_padding(length=12, pad_id=tokenizer.pad_token_id, pad_token="<|end|>")
    tokenizer.backend_tokenizer.enable_truncation(12)
    small, _ = trimmed(tokenizer, [])
    padding = small.backend_tokenizer.padding
    assert (padding["length"], padding["pad_id"]) == (12, small.pad_token_id)
    assert small.backend_tokenizer.truncation["max_length"] == 12
    assert len(small("the film")["input_ids"]) < 12, "transformers pads when asked only"


def test_trimming_twice_is_trimming_once():
    tokenizer, small, old_ids = trim("byte-level BPE", LINES[:2])
    again, older = trimmed(small, ids(small, LINES[0]))
    once, direct = trimmed(tokenizer, ids(tokenizer, LINES[0]))
    assert [old_ids[n] for n in older] == direct
    assert again.get_vocab() == once.get_vocab()


def file(model, **sections):
    return checked({"model": model, **sections})


def test_of_a_merged_piece_all_parts_stay_by_whichever_way():
    vocab = {piece: n for n, piece in enumerate(["a", "b", "c", "d", "ab", "bc", "abc", "cd", "abcd"])}
    merges = ["a b", "b c", "ab c", "a bc", "c d", "abc d"]
    data = file({"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": None})
    assert indispensable(data) == {0, 1, 2, 3}
    kept = with_merge_parents(data, {*indispensable(data), vocab["abc"]})
    assert kept == {0, 1, 2, 3, 4, 5, 6}
    small = renumbered(data, {old: n for n, old in enumerate(sorted(kept))})["model"]
    assert small["merges"] == ["a b", "b c", "ab c", "a bc"], "in their order"
    assert list(small["vocab"]) == ["a", "b", "c", "d", "ab", "bc", "abc"]


def test_merges_of_pieces_with_a_prefix_and_a_suffix():
    vocab = {piece: n for n, piece in enumerate(["a", "##b", "ab", "##c</w>", "##bc</w>"])}
    merges = [["a", "##b"], ["##b", "##c</w>"]]
    model = {"type": "BPE", "vocab": vocab, "merges": merges, "continuing_subword_prefix": "##"}
    data = file({**model, "end_of_word_suffix": "</w>"})
    assert indispensable(data) == {0, 1, 3}
    assert with_merge_parents(data, [2]) == {0, 1, 2}
    assert with_merge_parents(data, [4]) == {1, 3, 4}
    small = renumbered(data, {0: 0, 1: 1, 3: 2, 4: 3})["model"]
    assert small["merges"] == [["##b", "##c</w>"]]


def test_of_unigram_pieces_the_lowest_score_stays_and_unknowns_move():
    vocab = [["xy", -1.0], ["<unk>", 0.0], ["x", -2.0], ["long", -9.0], ["xyz", -3.0], ["<0x41>", -4.0]]
    data = file({"type": "Unigram", "vocab": vocab, "unk_id": 1})
    assert indispensable(data) == {1, 2, 3, 5}
    small = renumbered(data, {1: 0, 2: 1, 3: 2, 5: 3})["model"]
    assert (small["vocab"], small["unk_id"]) == ([vocab[1], vocab[2], vocab[3], vocab[5]], 0)
    assert renumbered(file({"vocab": vocab, "unk_id": None}), {2: 0})["model"]["unk_id"] is None


def test_every_place_of_the_file_that_names_an_id():
    vocab = {piece: n for n, piece in enumerate(["film", "[PAD]", "[CLS]", "[SEP]", "[UNK]"])}
    template = {"type": "TemplateProcessing", "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": []}}}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    data = file(
        {"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##"},
        post_processor={"type": "Sequence", "processors": [template, bert]},
        padding={"pad_id": 1, "pad_token": "[PAD]"},
        added_tokens=[{"id": 1, "content": "[PAD]"}],
    )
    assert indispensable(data) == {1, 2, 3, 4}
    small = renumbered(data, {1: 0, 2: 1, 3: 2, 4: 3})
    first, second = small["post_processor"]["processors"]
    assert first["special_tokens"]["[CLS]"]["ids"] == [1]
    assert (second["sep"], second["cls"]) == (["[SEP]", 2], ["[CLS]", 1])
    assert (small["padding"]["pad_id"], small["added_tokens"][0]["id"]) == (0, 0)
    assert data["post_processor"]["processors"][1]["sep"] == ["[SEP]", 3], "the file itself is not edited"


def test_other_tokenizers_are_refused():
    with pytest.raises(ModelError, match="a ByT5Tokenizer cannot be trimmed") as refused:
        trimmed(ByT5Tokenizer(), [])
    assert "fast tokenizer" in refused.value.remedy
    with pytest.raises(ModelError, match="of the kind Markov"):
        checked({"model": {"type": "Markov"}})


def test_a_class_that_adds_pieces_of_its_own_is_refused():
    class Adding(PreTrainedTokenizerFast):
        def __init__(self, *values, **knobs):
            super().__init__(*values, **knobs)
            self.add_tokens([f"own{len(self)}"])

    tokenizer = Adding(tokenizer_object=tiny_tokenizer("unigram").backend_tokenizer, unk_token="<unk>")
    with pytest.raises(ModelError, match="adds pieces of its own"):
        trimmed(tokenizer, [])


def test_the_file_is_readable_json_with_letters_as_they_are(tmp_path):
    _, small, _ = trim("wordpiece")
    small.save_pretrained(tmp_path)
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    assert "ç" in text
    assert json.loads(text)["model"]["type"] == "WordPiece"
