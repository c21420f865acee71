"""Translators opened from folders, and new ones."""

from __future__ import annotations

import json
from copy import deepcopy
from math import log
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from limbeck.core.errors import KnobError, LimbeckError, MismatchError, ModelError
from limbeck.students.load import load
from limbeck.students.seq2seq import Seq2SeqConfig, decoder_start, new_seq2seq
from limbeck.students.shrink import Shrink
from students.tiny_encoders import classifier
from students.tiny_translators import CONFIGS, FAMILIES, PAD, logits, tokenizer, translator

SMALL = Seq2SeqConfig(encoder_layers=2, decoder_layers=1, hidden=32, heads=4, positions=40)


def saved(model: hf.PreTrainedModel, folder: Path, words: int = PAD - 2) -> Path:
    model.save_pretrained(folder)
    tokenizer(words).save_pretrained(folder)
    return folder


def new(**knobs: object) -> hf.PreTrainedModel:
    torch.manual_seed(3)
    return new_seq2seq(SMALL.but(**knobs), tokenizer())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_opens_as_it_was_saved(family: str, tmp_path: Path) -> None:
    model = translator(family)
    opened, words = load(saved(model, tmp_path), "translate")
    assert not opened.training
    assert torch.equal(logits(opened), logits(model))
    assert decoder_start(opened) == model.config.decoder_start_token_id
    assert words.eos_token_id == 0


def test_weights_are_opened_in_float32(tmp_path: Path) -> None:
    opened, _ = load(saved(translator("bart").to(torch.bfloat16), tmp_path), "translate")
    assert {weight.dtype for weight in opened.parameters()} == {torch.float32}


def _without(folder: Path, lost: str) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[lost]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _silent(folder: Path, value: str) -> None:
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((folder / name).read_text())
        settings.pop(value, None)
        (folder / name).write_text(json.dumps(settings))


def test_a_folder_that_lacks_a_weight_is_refused(tmp_path: Path) -> None:
    _without(saved(new(), tmp_path), "model.decoder.layers.0.fc1.weight")
    with pytest.raises(ModelError, match=r"lacks 1 weights .*model.decoder.layers.0.fc1.weight\n.*both again"):
        load(tmp_path, "translate")


def test_a_start_that_nothing_names_is_refused(tmp_path: Path) -> None:
    _silent(saved(translator("t5"), tmp_path), "decoder_start_token_id")
    with pytest.raises(ModelError, match=r"t5 model does not say which token.*\n.*decoder_start_token_id"):
        load(tmp_path, "translate")


def test_a_start_named_only_for_writing_will_do() -> None:
    config = CONFIGS["t5"]()
    config.decoder_start_token_id = None
    model = hf.T5ForConditionalGeneration(config)
    model.generation_config.decoder_start_token_id = 7
    assert decoder_start(model) == 7


def test_more_tokens_than_embeddings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="has 63 tokens, but the model has embeddings for only 60"):
        load(saved(new(), tmp_path, words=60), "translate")


def test_an_encoder_is_no_translator(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no sequence-to-sequence head; use a model such as Marian"):
        load(saved(classifier("bert"), tmp_path), "translate")


def test_an_untrained_translator_knows_nothing() -> None:
    """Its loss is near the logarithm of the vocabulary, at all usual widths, also where one layer writes."""
    draw = torch.Generator().manual_seed(5)
    for hidden, layers in ((96, 1), (96, 4), (256, 1), (512, 1), (1024, 1)):
        torch.manual_seed(0)
        settings = Seq2SeqConfig(encoder_layers=1, decoder_layers=layers, hidden=hidden, feed_forward=64, positions=16)
        model = new_seq2seq(settings, tokenizer(1997))
        source, target = torch.randint(2, 1999, (2, 8, 12), generator=draw)
        with torch.no_grad():
            loss = model(input_ids=source, labels=target).loss.item()
        assert loss == pytest.approx(log(2000), abs=0.25), (hidden, layers)


def test_a_new_translator_is_what_was_asked_for() -> None:
    model = new(dropout=0.2)
    config = model.config
    assert (config.d_model, config.encoder_layers, config.decoder_layers, config.dropout) == (32, 2, 1, 0.2)
    assert config.encoder_ffn_dim == config.decoder_ffn_dim == 128
    assert new(feed_forward=48).config.decoder_ffn_dim == 48
    assert config.vocab_size == PAD + 1
    assert decoder_start(model) == config.pad_token_id == PAD
    assert config.scale_embedding
    assert model.lm_head.weight is model.model.shared.weight is model.model.encoder.embed_tokens.weight
    assert all(torch.equal(x, y) for x, y in zip(model.parameters(), new(dropout=0.2).parameters(), strict=True))
    with pytest.raises(KnobError, match=r"32 does not divide into 5 heads\n.*2, 4, 8"):
        new(heads=5)


def test_a_tokenizer_that_cannot_pad_is_refused() -> None:
    words = tokenizer()
    words.pad_token = None
    with pytest.raises(LimbeckError, match="no padding token"):
        new_seq2seq(SMALL, words)


def test_a_new_translator_saves_opens_and_writes_text(tmp_path: Path) -> None:
    model = new()
    saved(model, tmp_path)
    opened = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert torch.equal(logits(opened), logits(model))
    words = tokenizer()
    source = words(["word1 word2", "word3"], return_tensors="pt", padding=True)
    with torch.no_grad():
        opened.lm_head.weight[PAD] = 100 * opened.model.decoder(torch.tensor([[PAD]])).last_hidden_state[0, 0]
    written = opened.generate(input_ids=source["input_ids"], attention_mask=source["attention_mask"])
    assert written.shape[1] <= 40
    assert (written[:, 1:] != PAD).any()
    texts = words.batch_decode(written, skip_special_tokens=True)
    assert all(text and "<pad>" not in text for text in texts)


def _step(model: hf.PreTrainedModel) -> None:
    """A loss that also pulls at the pad, as label smoothing does."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(2):
        source = torch.tensor([[4, 5, 0, PAD], [6, 7, 8, 0]])
        answers = model(input_ids=source, attention_mask=(source != PAD).long(), labels=source).logits
        (-answers.log_softmax(-1).mean()).backward()
        optimiser.step()
        optimiser.zero_grad()


def test_the_pad_stays_zero_in_training_and_in_copies(tmp_path: Path) -> None:
    model = new()
    opened, _ = load(saved(model, tmp_path), "translate")
    student, _ = Shrink(hidden=16).build(model)
    for network in (model, deepcopy(new()), opened, student, deepcopy(deepcopy(student))):
        before = network.get_input_embeddings().weight.detach().clone()
        _step(network)
        after = network.get_input_embeddings().weight
        assert not after[PAD].any()
        assert (after[:PAD] != before[:PAD]).any(-1).all()


def test_a_pad_that_means_something_is_free_to_learn() -> None:
    """T5 starts to write from its pad."""
    model = Shrink(decoder_layers=1).build(translator("t5"))[0]
    before = model.shared.weight[0].detach().clone()
    _step(model)
    assert (model.shared.weight[0] != before).any()


def test_a_new_translator_learns_to_copy() -> None:
    model = new(dropout=0.0).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    draw = torch.Generator().manual_seed(0)
    for _ in range(120):
        source = torch.randint(2, 22, (32, 5), generator=draw)
        source[:, -1] = 0
        loss = model(input_ids=source, labels=source).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    assert loss.item() < 1.5  # log(20) · 4/5 = 2.4 is what a model that does not read the source can reach
