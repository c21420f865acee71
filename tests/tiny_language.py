"""Tiny real things for running text: texts, language models, and tokenizers.

These are WordPiece with [CLS] … [SEP], and byte-level BPE with chats and pad = eos."""

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from tiny import BAD, FILLER, GOOD, VOCABULARY

WORDS = "the a film plot story play under stand is was very and with good bad".split()
PIECES = ["##ing", "##ed", "##er", "##stand", "##able", "##s", ".", ",", "=", "!"]
WORDPIECE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]
TEXTS = [f"The film number {n} was {n * n} minutes of très good plot, and the story was bad." for n in range(50)]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def wordpiece(**how):
    return BertTokenizerFast(vocab={piece: index for index, piece in enumerate(WORDPIECE)}, **how)


def byte_level(template=CHATML, bos=False):
    """Its alphabet is all bytes, so whatever it encodes comes back."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|start|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    if bos:
        start = processors.TemplateProcessing(single="<|start|> $A", special_tokens=[("<|start|>", 1)])
        tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, start])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", clean_up_tokenization_spaces=False
    )
    made.chat_template = template
    return made


def save(model, tokenizer, folder) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_masked(layers=2, hidden=16, seed=0, heads=True, pairs=False, **config):
    """A BERT over the words of tiny.py: with its head for masked words, with one for next sentences too, or bare."""
    torch.manual_seed(seed)
    shape = BertConfig(
        **{"vocab_size": len(VOCABULARY), "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 2}
        | {"intermediate_size": 2 * hidden, "max_position_embeddings": 64}
        | config
    )
    kind = (BertForPreTraining if pairs else BertForMaskedLM) if heads else BertModel
    return kind(shape).eval()


def make_causal(tokenizer, layers=2, hidden=16, seed=0, padding=0, dropout=0.1):
    """A GPT-2 for `tokenizer`, with so many rows of padding behind its last token."""
    torch.manual_seed(seed)
    end = tokenizer.eos_token_id
    rows = len(tokenizer) + padding
    shape = {
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": 2,
        "n_positions": 128,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    drop = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    return GPT2LMHeadModel(GPT2Config(vocab_size=rows, **shape, **drop)).eval()


def make_text(documents=60, seed=0) -> list[str]:
    """Documents of several lines in the words of tiny.py, in which a noun decides the next adjective."""
    draw = random.Random(seed)
    lines = [
        [f"the {noun} is {draw.choice((GOOD if place % 2 else BAD)[:3])} and {draw.choice(FILLER)}" for noun in nouns]
        for place in range(documents)
        for nouns in [draw.choices(["film", "movie", "plot", "story"], k=draw.randint(2, 6))]
    ]
    return ["\n".join(document) for document in lines]


def make_encoded(tokenizer, kind="mask-fill", documents=60, vocabulary=0, length=16, pack=True, **mask):
    """The texts above as blocks, masked."""
    from limbeck.core.task import TaskInfo
    from limbeck.data.language.corpus import load_language
    from limbeck.data.settings import BlockSettings, DataSettings
    from limbeck.jobs.settings import Run
    from limbeck.tasks.language import LanguageTask

    blocks = BlockSettings(length=length, pack=pack)
    corpus = load_language(DataSettings(), blocks, kind, tokenizer, make_text(documents))
    task = LanguageTask(TaskInfo(kind=kind), Run(mask={"rounds": 1} | mask))
    return task._masked(corpus, tokenizer, vocabulary or len(tokenizer))


def make_words(*how, **mask):
    """Their evaluator, which holds the splits."""
    return make_encoded(*how, **mask).evaluator
