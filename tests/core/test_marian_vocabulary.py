"""A Marian tokenizer of SentencePiece files: kept texts have the same ids, others are spelled and not unknown."""

import copy
import io
import json

import pytest
import torch
import transformers as hf

from limbeck.core.compress import Calibration, Mask
from limbeck.core.errors import ModelError
from limbeck.core.vocabulary import trimmed
from limbeck.passes.vocabulary import Vocabulary

spm = pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

ENGLISH = ["the film was warm and the story was warmer", "a film with a plot and a story", "telling stories of films"]
GERMAN = [
    "der Film war warm und die Geschichte wärmer",
    "ein Film mit einer Handlung",
    "Geschichten von Filmen erzählen",
]


def learn(path, lines, kind="unigram"):
    made = io.BytesIO()
    size, how = (60 if kind == "unigram" else 50), {"hard_vocab_limit": False, "minloglevel": 2}
    texts = iter(lines * 4)
    spm.SentencePieceTrainer.train(sentence_iterator=texts, model_writer=made, vocab_size=size, model_type=kind, **how)
    path.write_bytes(made.getvalue())
    processor = spm.SentencePieceProcessor(model_proto=made.getvalue())
    return [processor.id_to_piece(n) for n in range(3, len(processor))]


def save(folder, kind="unigram"):
    folder.mkdir()
    pieces = [*learn(folder / "source.spm", ENGLISH, kind), *learn(folder / "target.spm", GERMAN, kind)]
    words = list(dict.fromkeys(["</s>", "<unk>", ">>de<<", *pieces, "<pad>"]))
    if kind == "unigram":
        words.remove("▁warm")  # a piece that SentencePiece knows and the vocabulary does not
    (folder / "vocab.json").write_text(json.dumps({piece: n for n, piece in enumerate(words)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer", "model_max_length": 64}')
    return hf.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return save(tmp_path_factory.mktemp("marian") / "tokenizer")


def both(tokenizer, source, target):
    return tokenizer(source)["input_ids"] + tokenizer(text_target=target)["input_ids"]


def test_kept_texts_have_the_same_ids_and_others_are_spelled(tokenizer, tmp_path):
    assert type(tokenizer) is hf.MarianTokenizer
    kept = both(tokenizer, ENGLISH[0], GERMAN[0])
    assert 1 in kept, "warm"
    small, old_ids = trimmed(tokenizer, kept)
    small.save_pretrained(tmp_path)
    for one in (small, copy.deepcopy(small), hf.AutoTokenizer.from_pretrained(tmp_path)):
        assert len(one) == len(old_ids) < len(tokenizer)
        assert [old_ids[n] for n in both(one, ENGLISH[0], GERMAN[0])] == kept
        assert [old_ids[n] for n in both(one, f">>de<< {ENGLISH[0]}", "")] == both(
            tokenizer, f">>de<< {ENGLISH[0]}", ""
        )
        assert one.pad_token_id == len(old_ids) - 1, "the pad is last"
        assert (one.unk_token_id, one.eos_token_id, one.model_max_length) == (1, 0, 64)
        for source, target in zip(ENGLISH[1:], GERMAN[1:], strict=True):
            before, after = both(tokenizer, source, target), both(one, source, target)
            assert after.count(1) <= before.count(1), "no new unknown"
            assert len(after) > len(before)
            ids = one(text_target=target)["input_ids"]
            assert one.decode(ids, skip_special_tokens=True, use_source_tokenizer=False) == target


def test_a_translator_with_such_a_tokenizer(tokenizer, tmp_path):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
    pad = tokenizer.pad_token_id
    ends = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    model = hf.MarianMTModel(hf.MarianConfig(vocab_size=pad + 1, init_std=0.5, **sizes, **heads, **ends)).eval()
    texts = list(zip(ENGLISH[:2], GERMAN[:2], strict=True))
    used = {n for text in texts for n in both(tokenizer, *text)}
    before = write(model, tokenizer, [n for n in range(len(tokenizer)) if n not in used])
    change = Vocabulary().apply(model, Mask(), Calibration(texts=texts, processor=tokenizer, held_out=texts[:1]))
    assert change.figures["held_out_resegmented"] == 0
    small = change.processor
    assert len(small) < len(tokenizer)
    assert model.config.pad_token_id == model.generation_config.decoder_start_token_id == len(small) - 1
    old = [tokenizer.get_vocab()[piece] for piece in small.convert_ids_to_tokens(range(len(small)))]
    assert write(model, small, [n for n, was in enumerate(old) if was not in used]) == before


def write(model, tokenizer, banned):
    given = tokenizer(ENGLISH[:2], return_tensors="pt", padding=True)
    ids = model.generate(**given, max_new_tokens=8, num_beams=2, suppress_tokens=banned)
    return [tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]


def test_models_that_are_not_unigram_and_two_vocabularies_are_refused(tokenizer, tmp_path):
    with pytest.raises(ModelError, match=r"source\.spm of this MarianTokenizer is no unigram model"):
        trimmed(save(tmp_path / "bpe", "bpe"), [])
    two = copy.deepcopy(tokenizer)
    two.separate_vocabs, two.target_encoder = True, two.encoder
    with pytest.raises(ModelError, match="cannot be trimmed"):
        trimmed(two, [])
