"""Tiny real tokenizers of every algorithm, trained on a few lines, as transformers opens them."""

import json
from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizerFast

LINES = [
    "the film was warm and the story was warmer",
    "a film with a plot, and a story without one!",
    "naïve façades – très bien, ça va?",
    "understand the understanding of the understated",
    "filming films, telling stories, plotting plots",
    "one two three four five six seven eight nine ten",
] * 3


def wordpiece():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False)
    )
    vocab = {f"[unused{n}]": n + 1 for n in range(3)} | {"[PAD]": 0}  # so that ids of special tokens move
    for piece, _ in sorted(made.get_vocab().items(), key=lambda entry: entry[1]):
        vocab.setdefault(piece, len(vocab))
    return BertTokenizerFast(vocab=vocab, strip_accents=False, model_max_length=64, padding_side="left")


def unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        LINES,
        trainers.UnigramTrainer(vocab_size=140, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, mask_token="<mask>", model_max_length=50, **names)


def byte_bpe():
    """Without an unknown token, as GPT-2's; its end-of-text comes last."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False))
    made.add_special_tokens(["<|end|>"])
    end = ("<|end|>", made.token_to_id("<|end|>"))
    made.post_processor = processors.RobertaProcessing(end, end)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", pad_token="<|end|>")


def fallback_bpe():
    """BPE over characters that falls back on bytes, as Llama's."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))]
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.Metaspace()
    plain.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=120, show_progress=False))
    learnt = json.loads(plain.to_str())["model"]
    vocab = {piece: number for number, piece in enumerate([*pieces, *learnt["vocab"]])}
    merges = [tuple(merge) for merge in learnt["merges"]]
    made = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    made.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


MADE = {"wordpiece": wordpiece, "unigram": unigram, "byte-level BPE": byte_bpe, "BPE with bytes": fallback_bpe}


@cache
def tiny_tokenizer(kind):
    """The same one for every test: do not change it."""
    return MADE[kind]()
