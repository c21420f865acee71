"""Translators of many languages: targets are read, and translations written, in the one that the folder names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from limbeck.core.errors import ModelError
from limbeck.data.seq2seq.sequences import encode_sequences
from limbeck.engines.ctranslate2 import read_facts
from limbeck.engines.transformers import TransformersEngine
from limbeck.exporters.parity import choose_engine
from limbeck.students.load import load
from limbeck.students.seq2seq import decoder_start, languages_said
from limbeck.students.vocabulary import vocab_size_of
from limbeck.teachers.settings import TranslateSettings
from students.tiny_polyglots import ENGLISH, FAMILIES, GERMAN, code_of, model, saved, tokenizer
from untaught import make_teacher


def folder(family: str, place: Path, forced: str | None, start: str | None = None, **languages: str) -> Path:
    words = tokenizer(family, place / "files", **languages)
    first, before = (None if name is None else code_of(words, name) for name in (forced, start))
    return saved(place / "model", model(family, words, before or 2, first), words)


def said_by_model(family: str, place: Path, **languages: str) -> Path:
    """An mBART starts from the language, the others write it first."""
    german = GERMAN[family]
    return folder(family, place, *((None, german) if family == "mbart" else (german, None)), **languages)


def written(network: Any, words: Any) -> list[str]:
    read = words(["the dog"], return_tensors="pt")
    return words.convert_ids_to_tokens(network.generate(**read, max_new_tokens=2)[0].tolist())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("both", [False, True])
def test_targets_begin_as_translations_do(family: str, both: bool, tmp_path: Path) -> None:
    languages = {"src_lang": ENGLISH[family], "tgt_lang": GERMAN[family]} if both else {}
    network, words = load(said_by_model(family, tmp_path, **languages), "translate")
    row = encode_sequences(["the dog"], ["der hund"], words, decoder_start(network), 64)[0]
    code = code_of(words, GERMAN[family])
    if family == "mbart":
        assert row["labels"][-2:] == [2, code]
        assert row["decoder_input_ids"][0] == code
        assert written(network, words)[0] == words.convert_ids_to_tokens(code)
    else:
        assert (row["labels"][0], row["labels"][-1]) == (code, 2)
        assert row["decoder_input_ids"][:2] == [2, code]
        assert written(network, words)[:2] == words.convert_ids_to_tokens([2, code])
    assert code_of(words, ENGLISH[family]) in row["input_ids"]
    assert max(row["labels"]) < vocab_size_of(network, words)


@pytest.mark.parametrize("family", ["mbart50", "nllb", "m2m100"])
def test_a_language_that_only_the_tokenizer_names_is_written(family: str, tmp_path: Path) -> None:
    network, words = load(
        folder(family, tmp_path, None, src_lang=ENGLISH[family], tgt_lang=GERMAN[family]), "translate"
    )
    assert written(network, words)[1] == words.convert_ids_to_tokens(code_of(words, GERMAN[family]))


@pytest.mark.parametrize("family", FAMILIES)
def test_both_languages_are_told_to_the_person(family: str, tmp_path: Path) -> None:
    """One that is not named is the tokenizer's default, English, and may be wrong."""
    words = load(said_by_model(family, tmp_path), "translate")[1]
    assert [line.split(":")[0] for line in languages_said(words)] == [
        f"it reads {ENGLISH[family]} and writes {GERMAN[family]}"
    ]


def test_a_translator_of_one_pair_has_no_codes_to_tell(tmp_path: Path) -> None:
    assert languages_said(load(make_teacher(tmp_path, ["a dog", "ein hund"]), "translate")[1]) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_opened_and_saved_again_still_says_it(family: str, tmp_path: Path) -> None:
    network, words = load(said_by_model(family, tmp_path), "translate")
    again, same = load(saved(tmp_path / "again", network, words), "translate")
    assert same.tgt_lang == GERMAN[family]
    assert same(text_target="der hund")["input_ids"] == words(text_target="der hund")["input_ids"]
    assert written(again, same) == written(network, words)


@pytest.mark.parametrize("family", ["mbart50", "nllb", "m2m100"])
def test_a_language_that_nobody_names_is_asked_for(family: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"does not say which of its [0-9]+ languages it writes") as refused:
        load(folder(family, tmp_path, None), "translate")
    assert "src_lang=…, tgt_lang=…" in refused.value.remedy


@pytest.mark.parametrize("family", FAMILIES)
def test_two_languages_are_refused(family: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"tokenizer says {ENGLISH[family]}, and its model begins with") as refused:
        load(said_by_model(family, tmp_path, tgt_lang=ENGLISH[family]), "translate")
    assert GERMAN[family] in refused.value.problem
    assert f"tgt_lang='{GERMAN[family]}'" in refused.value.remedy


def test_a_language_that_the_tokenizer_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is to write 'german', which is none of its"):
        load(folder("nllb", tmp_path, None, tgt_lang="german"), "translate")


@pytest.mark.parametrize("family", ["mbart", "nllb"])
def test_a_code_behind_the_text_is_for_models_that_start_from_it(family: str, tmp_path: Path) -> None:
    place = folder(family, tmp_path, GERMAN[family])
    if family == "nllb":
        file = place / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "legacy_behaviour": True}))
    with pytest.raises(ModelError, match=f"starts to write from </s>, but its tokenizer puts {GERMAN[family]} behind"):
        load(place, "translate")


def test_the_code_is_no_part_of_the_text(tmp_path: Path) -> None:
    """The tokenizer of M2M100 that was saved by transformers 5 does not list its languages."""
    place = said_by_model("m2m100", tmp_path)
    network, words = load(place, "translate")
    assert words.decode(words(text_target="der hund")["input_ids"], skip_special_tokens=True) == "der hund"
    texts = [one[0].text for one in TransformersEngine(network, words).translate(["the dog", "a cat"])]
    assert not any("__" in text for text in texts)


def test_a_conversion_begins_with_the_language_too(tmp_path: Path) -> None:
    place = folder("nllb", tmp_path, None, tgt_lang=GERMAN["nllb"])
    network, words = load(place, "translate")
    engine, note = choose_engine(
        network, words, place, tmp_path / "home", TranslateSettings(beam=2), ["the dog", "a cat"]
    )
    assert engine.name == "ctranslate2 int8", note
    assert read_facts(tmp_path / "home" / "ct2-int8")["prefix"] == [GERMAN["nllb"]]
