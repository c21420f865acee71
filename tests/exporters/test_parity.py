"""CTranslate2 runs a teacher where it writes what transformers writes, and only there."""

import copy
import re
import sys

import pytest
import torch

from flipping import flip
from limbeck.core.errors import KnobError, ModelError
from limbeck.engines.transformers import TransformersEngine
from limbeck.exporters.parity import choose_engine
from limbeck.teachers.settings import TranslateSettings
from tiny_reverser import make_marian
from tiny_sources import make_sources

SOURCES = make_sources(48, seed=5, longest=7)


def texts(found):
    return [row[0].text for row in found]


def same(one, other):
    return sum(a == b for a, b in zip(one, other, strict=True))


def saved(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_fastest_engine_is_ctranslate2_where_it_agrees(reverser, words, reverser_folder, tmp_path):
    engine, note = choose_engine(reverser, words, reverser_folder, tmp_path, TranslateSettings(), SOURCES)
    assert engine.name == "ctranslate2 int8"
    same_texts = re.search(r"CTranslate2 \(int8\): (\d+) of 24 sample texts come out as in transformers", note)
    assert same_texts
    assert int(same_texts[1]) >= 18
    assert {path.name for path in tmp_path.iterdir()} == {"ct2-int8"}
    engine, note = choose_engine(reverser, words, None, tmp_path, TranslateSettings(precision="float32"), SOURCES)
    assert engine.name == "ctranslate2 float32"
    assert "CTranslate2 (float32)" in note


def test_a_conversion_is_used_again_only_for_the_same_weights(reverser, words, reverser_folder, tmp_path):
    settings = TranslateSettings()
    choose_engine(reverser, words, reverser_folder, tmp_path, settings, SOURCES[:3])
    made = (tmp_path / "ct2-int8" / "model.bin").stat()
    choose_engine(reverser, words, reverser_folder, tmp_path, settings, SOURCES[:3])
    assert (tmp_path / "ct2-int8" / "model.bin").stat().st_ino == made.st_ino
    engine, _ = choose_engine(make_marian(), words, None, tmp_path, settings, SOURCES[:3])
    assert engine.name == "ctranslate2 int8"
    assert (tmp_path / "ct2-int8" / "model.bin").stat().st_ino != made.st_ino


def test_a_damaged_conversion_is_made_again(reverser, words, reverser_folder, tmp_path):
    settings, made = TranslateSettings(), tmp_path / "ct2-int8"
    choose_engine(reverser, words, reverser_folder, tmp_path, settings, SOURCES[:3])
    whole = {path.name: path.read_bytes() for path in made.iterdir()}
    for name in ("model.bin", "limbeck.json"):
        flip(made / name, len(whole[name]) // 2)
        choose_engine(reverser, words, reverser_folder, tmp_path, settings, SOURCES[:3])
        assert {path.name: path.read_bytes() for path in made.iterdir()} == whole, name


def test_a_conversion_that_writes_something_else_is_not_used(words, reverser_folder, tmp_path):
    other = make_marian(seed=3)
    engine, note = choose_engine(other, words, reverser_folder, tmp_path, TranslateSettings(), SOURCES)
    assert engine.name == "transformers float32"
    assert "not in CTranslate2: converted, the model writes only" in note
    with pytest.raises(ModelError, match="of 24 sample texts"):
        choose_engine(other, words, reverser_folder, tmp_path, TranslateSettings(engine="ctranslate2"), SOURCES)


def test_a_conversion_with_other_log_p_is_not_used(reverser, words, tmp_path):
    """Logits of twice the size have the same greedy texts."""
    louder = copy.deepcopy(reverser)
    with torch.no_grad():
        last = louder.model.decoder.layers[-1].final_layer_norm
        for weight in (last.weight, last.bias):
            weight.mul_(2)
    folder = saved(tmp_path / "louder", louder, words)
    one, other = (
        TransformersEngine(louder, words).translate(SOURCES[:24]),
        TransformersEngine(reverser, words).translate(SOURCES[:24]),
    )
    assert same(texts(one), texts(other)) >= 22
    assert (
        choose_engine(reverser, words, folder, tmp_path, TranslateSettings(), SOURCES)[0].name == "transformers float32"
    )


def test_without_ctranslate2_transformers_translates(reverser, words, reverser_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for settings in (TranslateSettings(), TranslateSettings(engine="transformers")):
        engine, note = choose_engine(reverser, words, reverser_folder, tmp_path, settings, SOURCES)
        assert engine.name == "transformers float32"
        assert ("not installed" in note) == (settings.engine == "auto")
    with pytest.raises(KnobError, match="not installed"):
        choose_engine(reverser, words, reverser_folder, tmp_path, TranslateSettings(engine="ctranslate2"), SOURCES)
