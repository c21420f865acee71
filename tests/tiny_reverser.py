"""Tiny real translators: a tokenizer of whole words, a Marian, and how it learns to reverse."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from tiny_sources import WORDS, make_sources, mirrored


def make_tokenizer(words=WORDS, pad_last=True) -> PreTrainedTokenizerFast:
    """</s> is 0, <unk> is 1, <pad> the last; or, as M2M has it, </s> is 0, <pad> is 1 and a language code the last."""
    tokens = ["</s>", "<unk>", *words, "<pad>"] if pad_last else ["</s>", "<pad>", "<unk>", *words, "<to>"]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    if not pad_last:
        names["additional_special_tokens"] = ["<to>"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def common(words=WORDS, **settings):
    last = len(words) + 2
    return {
        "vocab_size": last + 1,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 64,
        "dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": last,
        "decoder_start_token_id": last,
        "forced_eos_token_id": None,
    } | settings


def make_marian(words=WORDS, seed=0, scale=4.0, **settings) -> MarianMTModel:
    """Random, with outputs that are not all alike."""
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**common(words, **settings), scale_embedding=True))
    model.generation_config.bad_words_ids = [[len(words) + 2]]
    return spread(model, scale)


def spread(model, scale):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "positions" not in name and "norm" not in name:
                weight.mul_(scale)
    return model.eval()


def train_to_reverse(model, tokenizer, steps=250, rate=3e-3):
    """Teaches the model to write its source backwards; after a few seconds it mostly does."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    start = model.config.decoder_start_token_id
    for step in range(steps):
        sources = make_sources(48, seed=step + 1000, longest=6)
        given = tokenizer(sources, return_tensors="pt", padding=True)
        labels = tokenizer([mirrored(source) for source in sources], return_tensors="pt", padding=True).input_ids
        before = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], 1)
        out = model(input_ids=given.input_ids, attention_mask=given.attention_mask, decoder_input_ids=before)
        loss = cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=tokenizer.pad_token_id)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


@torch.no_grad()
def forced_log_p(model, tokenizer, source, text, ended=True):
    """The float64 log-probability of a target, over all words but the banned, by teacher forcing."""
    model = model.double()
    try:
        given = tokenizer(source, return_tensors="pt")
        labels = tokenizer(text, return_tensors="pt").input_ids
        labels = labels if ended else labels[:, :-1]
        start = torch.full_like(labels[:, :1], model.config.decoder_start_token_id)
        before = torch.cat([start, labels[:, :-1]], 1)
        logits = model(**{k: given[k] for k in ("input_ids", "attention_mask")}, decoder_input_ids=before).logits
        for (word,) in model.generation_config.bad_words_ids or []:
            logits[..., word] = -torch.inf
        return logits.log_softmax(-1).gather(-1, labels[..., None]).sum().item()
    finally:
        model.float()
