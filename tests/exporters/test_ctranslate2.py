"""CTranslate2 writes what transformers writes, or it is not used."""

import json
import shutil
import sys

import pytest
import torch
import transformers

from limbeck.core.errors import KnobError, ModelError
from limbeck.engines.base import EMPTY
from limbeck.engines.ctranslate2 import CTranslate2Engine
from limbeck.engines.transformers import TransformersEngine
from limbeck.exporters.ctranslate2 import convert
from tiny import make_classifier
from tiny_reverser import common, forced_log_p, make_marian, make_tokenizer, spread
from tiny_sources import WORDS, make_sources, mirrored

pytestmark = pytest.mark.slow

SOURCES = make_sources(48, seed=5, longest=7)
PAD = len(WORDS) + 2
T5 = {
    "vocab_size": PAD + 1,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 2,
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
    "dropout_rate": 0.0,
}
M2M = {"pad_token_id": 1, "decoder_start_token_id": 0, "vocab_size": len(WORDS) + 4}
CODE = len(WORDS) + 3
ARCHITECTURES = {
    "marian": ("MarianMTModel", "MarianConfig", common(), None),
    "bart": ("BartForConditionalGeneration", "BartConfig", common(), 4),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", common(decoder_start_token_id=5), None),
    "mbart50": ("MBartForConditionalGeneration", "MBartConfig", common(**M2M), CODE),
    "m2m100": ("M2M100ForConditionalGeneration", "M2M100Config", common(**M2M), CODE),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", common(), None),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, None),
    "t5 1.1": (
        "T5ForConditionalGeneration",
        "T5Config",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        None,
    ),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", T5, None),
}


def texts(found):
    return [row[0].text for row in found]


def same(one, other):
    return sum(a == b for a, b in zip(one, other, strict=True))


def saved(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def float32(reverser_folder, tmp_path_factory):
    return convert(reverser_folder, tmp_path_factory.mktemp("ct2") / "float32", "float32")


def test_greedy_is_the_same_token_for_token(reverser, words, float32):
    ours, theirs = (
        TransformersEngine(reverser, words).translate(SOURCES),
        CTranslate2Engine(float32, words).translate(SOURCES),
    )
    assert texts(ours) == texts(theirs)
    for (one,), (other,) in zip(ours, theirs, strict=True):
        assert one.log_p == pytest.approx(other.log_p, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_translations_are_cut(reverser, words, float32, beam):
    ours, theirs = (
        engine.translate(SOURCES, beam)
        for engine in (TransformersEngine(reverser, words, longest=5), CTranslate2Engine(float32, words, longest=5))
    )
    alike = [(one.cut, other.cut) for (one,), (other,) in zip(ours, theirs, strict=True) if one.text == other.text]
    assert {cut for cut, _ in alike} == {True, False}
    assert all(one == other for one, other in alike)
    assert not any(row[0].cut for row in CTranslate2Engine(float32, words).translate(SOURCES, beam))


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_beam_of_five_is_the_same_and_its_log_p_the_teacher_forced_sum(reverser, words, float32, penalty):
    ours = TransformersEngine(reverser, words, length_penalty=penalty).translate(SOURCES, 5, 3)
    theirs = CTranslate2Engine(float32, words, length_penalty=penalty).translate(SOURCES, 5, 3)
    assert same(texts(ours), texts(theirs)) >= 46
    for source, row in zip(SOURCES[:10], theirs[:10], strict=True):
        assert len(row) == 3
        for each in row:
            assert each.log_p == pytest.approx(forced_log_p(reverser, words, source, each.text), abs=1e-4)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name, tmp_path):
    model_class, config_class, settings, forced = ARCHITECTURES[name]
    torch.manual_seed(1)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**settings))
    spread(model, 2.0 if "t5" in name else 4.0)
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.generation_config.forced_bos_token_id = forced
    tokenizer = make_tokenizer(pad_last=model.config.pad_token_id == PAD)
    folder = saved(tmp_path / "model", model, tokenizer)
    slow, fast = (
        TransformersEngine(model, tokenizer, longest=9),
        CTranslate2Engine(convert(folder, tmp_path / "ct2", "float32"), longest=9),
    )
    for beam in (1, 4):
        ours, theirs = slow.translate(SOURCES[:16], beam), fast.translate(SOURCES[:16], beam)
        assert same(texts(ours), texts(theirs)) >= 15
        for (one,), (other,) in zip(ours, theirs, strict=True):
            if one.text == other.text:
                assert one.log_p == pytest.approx(other.log_p, abs=1e-3)
    assert not any("<" in text for text in texts(theirs)), "language codes are not part of the text"


def test_an_end_that_is_forced_takes_the_last_place_in_both(tmp_path):
    model, tokenizer = make_marian(), make_tokenizer()
    model.generation_config.forced_eos_token_id = 0
    fast = CTranslate2Engine(convert(saved(tmp_path / "m", model, tokenizer), tmp_path / "c", "float32"), longest=5)
    ours, theirs = TransformersEngine(model, tokenizer, longest=5).translate(SOURCES), fast.translate(SOURCES)
    assert texts(ours) == texts(theirs)
    assert [row[0].cut for row in ours] == [row[0].cut for row in theirs]
    assert max(len(text.split()) for text in texts(theirs)) == 4


def test_a_decoder_that_starts_from_zero_has_no_pad_and_one_that_does_not_keeps_it(tmp_path, reverser, float32):
    convert(saved(tmp_path / "zero", make_marian(), make_tokenizer()), tmp_path / "ct2")
    assert "<pad>" not in json.loads((tmp_path / "ct2" / "shared_vocabulary.json").read_text())
    assert reverser.get_input_embeddings().weight[-1].any(), "the output's gradient moved the row of <pad>"
    assert "<pad>" in json.loads((float32 / "shared_vocabulary.json").read_text())


def test_the_folder_is_complete_by_itself(reverser, words, tmp_path):
    folder = saved(tmp_path / "model", reverser, words)
    made = convert(folder, tmp_path / "deep" / "ct2")
    shutil.rmtree(folder)
    moved = made.rename(tmp_path / "elsewhere")
    engine = CTranslate2Engine(moved)
    assert engine.name == "ctranslate2 int8"
    found = engine.translate(["", *SOURCES, " "], 5, 2)
    assert found[0] == found[-1] == [EMPTY]
    short = [place for place, source in enumerate(SOURCES, 1) if len(source.split()) <= 5]
    right = sum(found[place][0].text == mirrored(SOURCES[place - 1]) for place in short)
    assert right >= 0.7 * len(short)


def test_long_and_unknown_sources_and_none(float32):
    engine = CTranslate2Engine(float32)
    assert engine.translate([]) == []
    assert [len(row) for row in engine.translate(["one " * 200, "what is this"], 2)] == [1, 1]
    with pytest.raises(KnobError, match="no 3 best"):
        engine.translate(["one"], 2, 3)


def test_what_cannot_be_converted_is_named_and_leaves_nothing(tmp_path, tokenizer):
    saved(tmp_path / "bert", make_classifier(), tokenizer)
    with pytest.raises(ModelError, match="bert is not a translator's folder"):
        convert(tmp_path / "bert", tmp_path / "ct2")
    with pytest.raises(ModelError, match="nowhere is not a translator's folder"):
        convert(tmp_path / "nowhere", tmp_path / "ct2")
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**common()))
    saved(tmp_path / "m2m", model, make_tokenizer())
    with pytest.raises(ModelError, match="not token 1"):
        convert(tmp_path / "m2m", tmp_path / "ct2")
    config = transformers.BlenderbotSmallConfig(**common())
    saved(tmp_path / "blender", transformers.BlenderbotSmallForConditionalGeneration(config), make_tokenizer())
    with pytest.raises(ModelError, match="knows no BlenderbotSmallConfig"):
        convert(tmp_path / "blender", tmp_path / "ct2")
    few = saved(tmp_path / "few", make_marian(), make_tokenizer(WORDS[:-1]))
    with pytest.raises(ModelError, match="cannot run"):
        convert(few, tmp_path / "ct2")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "config.json").write_text('{"model_type": "limbeck-compressed-marian"}')
    with pytest.raises(ModelError, match="which CTranslate2 does not know"):
        convert(tmp_path / "ours", tmp_path / "ct2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no limbeck\.json"):
        CTranslate2Engine(tmp_path / "empty")
    assert {path.name for path in tmp_path.iterdir()} == {"bert", "m2m", "blender", "few", "ours", "empty"}


def test_without_ctranslate2_nothing_is_converted(reverser_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(KnobError, match=r"limbeck\[translate\]"):
        convert(reverser_folder, tmp_path / "ct2")
