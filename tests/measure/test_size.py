from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
from transformers.utils import logging

from exported import folders
from limbeck.core.errors import ModelError
from limbeck.measure.size import bytes_in_all, converted_size, size_of, weight_bytes
from tiny import make_tokenizer
from tiny_reverser import make_marian

Build = Callable[..., BertForSequenceClassification]


def test_parameters_by_hand(build: Build) -> None:
    model = build()
    words, hidden, wide = model.config.vocab_size, 32, 64
    embeddings = (words + 64 + 2) * hidden
    layer = 4 * (hidden * hidden + hidden) + (hidden * wide + wide) + (wide * hidden + hidden) + 4 * hidden
    rest = 2 * hidden + 2 * layer + (hidden * hidden + hidden) + (2 * hidden + 2)
    found = size_of(model)
    assert found.parameters_without_embeddings == rest
    assert found.parameters == rest + embeddings


def test_bytes_are_those_of_the_saved_file(build: Build, tmp_path: Path) -> None:
    model = build()
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    assert size_of(model).bytes_on_disk == size_of(model, tmp_path).bytes_on_disk == file.stat().st_size
    half = build().to(torch.float16)
    assert size_of(half).bytes_on_disk < 0.6 * file.stat().st_size


def test_measuring_is_silent(build: Build, capfd: pytest.CaptureFixture[str]) -> None:
    bars = logging.is_progress_bar_enabled()
    size_of(build())
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == bars


def test_tied_weights_count_once() -> None:
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    model = BertForMaskedLM(config)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    found = size_of(model)
    alone = sum(p.numel() for name, p in model.named_parameters() if "_embeddings." not in name)
    assert found.parameters_without_embeddings == alone
    assert found.parameters == alone + (100 + 512 + 2) * 32
    assert found.bytes_on_disk < 4 * found.parameters + 10_000


def test_a_translators_table_counts_once_though_three_read_from_it() -> None:
    model = make_marian()
    words, places, hidden, wide = 15, 64, 32, 64
    assert (model.config.vocab_size, model.config.d_model, model.config.encoder_ffn_dim) == (words, hidden, wide)
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = (hidden * wide + wide) + (wide * hidden + hidden)
    norm = 2 * hidden
    rest = (attention + feed_forward + 2 * norm) + (2 * attention + feed_forward + 3 * norm)
    found = size_of(model)
    assert found.parameters_without_embeddings == rest
    assert found.parameters == rest + words * hidden + 2 * places * hidden  # each side has its places


def test_shards_add_up_and_checkpoints_do_not(build: Build, tmp_path: Path) -> None:
    model = build()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    model.save_pretrained(tmp_path / "checkpoint-1")
    shards = list(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1
    assert weight_bytes(tmp_path) == sum(shard.stat().st_size for shard in shards)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no"):
        weight_bytes(tmp_path)


def test_what_is_needed_to_answer_includes_the_tokenizer(build: Build, tmp_path: Path) -> None:
    model = build()
    model.save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("a card")
    (tmp_path / "vocab.txt").write_text("the vocabulary, which tokenizer.json has too")
    (tmp_path / "optimizer.pt").write_text("what training left")
    needed = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
    found = size_of(model, tmp_path)
    assert found.bytes_in_all == sum((tmp_path / name).stat().st_size for name in needed)
    assert found.bytes_on_disk == (tmp_path / "model.safetensors").stat().st_size
    (tmp_path / "tokenizer.json").unlink()
    without = (*needed[:2], needed[3], "vocab.txt")
    assert bytes_in_all(tmp_path) == sum((tmp_path / name).stat().st_size for name in without)


def test_all_files_of_an_export_count() -> None:
    folder = folders("classify")[1]
    found = converted_size(folder)
    assert found.bytes_on_disk == (folder / "model.onnx").stat().st_size
    assert found.bytes_in_all == sum(file.stat().st_size for file in folder.iterdir())
    assert found.parameters > found.parameters_without_embeddings > 0
