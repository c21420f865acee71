"""Translators timed while they write, by both engines, and the size of what CTranslate2 opens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BartConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
)

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.progress import Silent
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.size import size_of, weight_bytes
from limbeck.measure.speed import measure_speed, speed
from limbeck.measure.speed_probe import by_ctranslate2, by_generate, writes

pytestmark = pytest.mark.slow

WORDS = "der die hund katze läuft schläft the dog cat runs sleeps a b c".split()
TOKENS = ["</s>", "<unk>", *(f"▁{word}" for word in WORDS), "<pad>"]
PLACES = 48
TEXTS = [("the dog runs", ""), ("a cat", ""), ("the cat sleeps " * 30, "")]


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="<unk>"))
    words.pre_tokenizer, words.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=PLACES, **names)


@pytest.fixture(scope="module")
def translator() -> MarianMTModel:
    torch.manual_seed(5)
    pad = len(TOKENS) - 1
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    inner = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": None}
    config = MarianConfig(
        vocab_size=len(TOKENS), d_model=32, max_position_embeddings=PLACES, init_std=1.0, **heads, **inner, **ids
    )
    return MarianMTModel(config).eval()


@pytest.fixture(scope="module")
def home(translator: MarianMTModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("translator")
    translator.save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    return place


def converted(home: Path, precision: str) -> Path:
    place = home.parent / f"{home.name}-{precision}"
    files = ["tokenizer.json", "tokenizer_config.json"]
    converter = ctranslate2.converters.TransformersConverter(str(home), copy_files=files)
    converter.convert(str(place), quantization=precision, force=True)
    return place


@pytest.fixture(scope="module")
def small(home: Path) -> Path:
    return converted(home, "int8")


@pytest.mark.usefixtures("forked_probes")
def test_folders_for_both_engines_are_timed_in_turn(home: Path, small: Path) -> None:
    folders = {"teacher": home, "student": small}
    settings = MeasureSettings(repeats=1, threads=1, rounds=5, batch_size=2)
    found = measure_speed(folders, TEXTS, settings, 128, Silent(), beam=2)
    assert {name: one.engine for name, one in found.items()} == {
        "teacher": "torch fp32",
        "student": "ctranslate2 int8",
    }
    for one in found.values():
        assert (one.threads, one.batch) == (1, 2)
        assert one.rounds in (5, 10, 15)  # a turn on a busy machine is repeated
        assert 0 < one.p50_ms <= one.p95_ms
        assert one.sentences_per_second > 0
        assert one.peak_bytes > 20e6


def test_both_engines_write_the_same_with_the_beam_asked_for(home: Path, translator: MarianMTModel) -> None:
    tokenizer, config = AutoTokenizer.from_pretrained(home), AutoConfig.from_pretrained(home)
    exact, texts = converted(home, "float32"), [list(both) for both in TEXTS[:2]]
    inputs = tokenizer([text for text, _ in texts], padding=True, return_tensors="pt")
    found = {}
    for beam in (1, 3):
        search = {"num_beams": beam, "early_stopping": beam > 1, "max_new_tokens": 24}
        written = translator.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], **search)
        found[beam] = tokenizer.batch_decode(written, skip_special_tokens=True)
        engine, write = by_ctranslate2(str(exact), 1, 40, beam)
        assert by_generate(str(home), config, tokenizer, 40, beam)(texts) == write(texts) == found[beam]
        assert engine == "ctranslate2 fp32"
    assert found[1] != found[3]


def spied(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What CTranslate2 is told when it is opened and asked, from now on."""
    told: dict[str, Any] = {}

    class Spied(ctranslate2.Translator):
        def __init__(self, *args: Any, **how: Any) -> None:
            told.update(how)
            super().__init__(*args, **how)

        def translate_batch(self, *args: Any, **how: Any) -> Any:
            told.update(how)
            return super().translate_batch(*args, **how)

    monkeypatch.setattr(ctranslate2, "Translator", Spied)
    return told


@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_write_a_part_of_the_batch_each(home: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, texts = str(converted(home, "float32")), [list(both) for both in TEXTS]
    alone = by_ctranslate2(exact, 1, 40, 2)[1](texts)
    made = spied(monkeypatch)
    assert by_ctranslate2(exact, threads, 40, 2)[1](texts) == alone
    assert (made["inter_threads"], made["intra_threads"]) == (threads, 1)
    assert made["max_batch_size"] * threads >= len(texts) > (made["max_batch_size"] - 1) * threads


def test_a_text_as_long_as_the_model_can_read_is_written_from(home: Path, small: Path) -> None:
    longest = [["the cat sleeps " * 30, ""]]
    tokenizer = AutoTokenizer.from_pretrained(home, model_max_length=10**30)  # as of a file that names no limit
    by_torch = by_generate(str(home), AutoConfig.from_pretrained(home), tokenizer, 1000, 1)(longest)
    by_ct2 = by_ctranslate2(str(small), 1, 1000, 1)[1](longest)
    assert all(0 < len(text.split()) < PLACES for text in (*by_torch, *by_ct2))


def test_what_the_conversion_notes_is_heeded(home: Path) -> None:
    place = converted(home, "int16")
    free = by_ctranslate2(str(place), 1, 40, 1)[1]([["the dog runs", ""]])[0]
    facts = {"prefix": ["▁die"], "banned": [[f"▁{free.split()[0]}"]], "reads": 5}
    (place / "limbeck.json").write_text(json.dumps(facts), encoding="utf-8")
    told = by_ctranslate2(str(place), 1, 40, 1)[1]([["the dog runs", ""]])[0].split()
    assert told[0] == "die"
    assert free.split()[0] not in told
    assert len(told) <= 5 < len(free.split())


def test_what_writes_is_told_from_what_judges() -> None:
    marian, classifier = MarianConfig(), BartConfig(architectures=["BartForSequenceClassification"])
    assert writes(marian)
    assert writes(T5Config(architectures=["T5ForConditionalGeneration"]))
    assert not writes(classifier)
    assert not writes(MarianConfig(is_encoder_decoder=False))


def test_an_engine_opens_only_its_own_folders(home: Path, small: Path, tmp_path: Path) -> None:
    with pytest.raises(KnobError, match=r"ctranslate2 cannot open .* kept for torch"):
        speed(home, TEXTS, engine="ctranslate2")
    with pytest.raises(KnobError, match=r"torch cannot open .* kept for ctranslate2"):
        speed(small, TEXTS, engine="torch")
    with pytest.raises(KnobError, match="beam -1"):
        speed(home, TEXTS, beam=-1)
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=r"config\.json"):
        speed(tmp_path, TEXTS)


def test_the_size_of_a_converted_folder_is_that_of_its_model_files(
    home: Path, small: Path, translator: MarianMTModel
) -> None:
    files = ("model.bin", "config.json", "shared_vocabulary.json")
    assert weight_bytes(small) == sum((small / name).stat().st_size for name in files)
    assert "tokenizer.json" in os.listdir(small)
    before, after = size_of(translator, home), size_of(translator, small)
    assert before.parameters == after.parameters
    assert after.bytes_on_disk < before.bytes_on_disk / 2
    assert "model_type" not in json.loads((small / "config.json").read_text())
