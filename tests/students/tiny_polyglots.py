"""Tiny translators of many languages, with the tokenizers of their families."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

WORDS = "der hund die katze und the dog a cat and".split()
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
FAMILIES = ("mbart", "mbart50", "nllb", "m2m100")
GERMAN = {"mbart": "de_DE", "mbart50": "de_DE", "nllb": "deu_Latn", "m2m100": "de"}
ENGLISH = {"mbart": "en_XX", "mbart50": "en_XX", "nllb": "eng_Latn", "m2m100": "en"}


def tokenizer(family: str, folder: Path, **languages: str) -> Any:
    """Files that it is made from go into `folder`."""
    if family == "m2m100":
        return hf.M2M100Tokenizer(*_pieces(folder), **languages)
    if family == "nllb":
        every = [*SPECIAL, "▁", *sorted({letter for word in WORDS for letter in word})]
        return hf.NllbTokenizer({piece: number for number, piece in enumerate(every)}, merges=[], **languages)
    scores = [(piece, 0.0) for piece in SPECIAL] + [(f"▁{word}", -1.0) for word in WORDS]
    return {"mbart": hf.MBartTokenizer, "mbart50": hf.MBart50Tokenizer}[family](vocab=scores, **languages)


def _pieces(folder: Path) -> tuple[str, str]:
    sentencepiece = pytest.importorskip("sentencepiece")
    folder.mkdir(exist_ok=True, parents=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(WORDS)] * 3),
        model_prefix=str(folder / "m"),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    every = dict.fromkeys((*SPECIAL, *(pieces.id_to_piece(number) for number in range(pieces.get_piece_size()))))
    (folder / "m.json").write_text(json.dumps({piece: number for number, piece in enumerate(every)}))
    return str(folder / "m.json"), str(folder / "m.model")


def code_of(words: Any, language: str) -> int:
    return int(words.convert_tokens_to_ids(f"__{language}__" if "M2M" in type(words).__name__ else language))


def model(family: str, words: Any, start: int = 2, forced: int | None = None) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    kind = hf.MBartConfig if "mbart" in family else hf.M2M100Config
    config = kind(
        vocab_size=len(words) + 120,  # an M2M100 does not count its languages
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=64,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=start,
    )
    made = hf.AutoModelForSeq2SeqLM.from_config(config).eval()
    made.generation_config.forced_bos_token_id = forced
    return made


def saved(folder: Path, network: hf.PreTrainedModel, words: Any) -> Path:
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
