"""Tiny random translators of every family, and a tokenizer for ours."""

from __future__ import annotations

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

VOCABULARY = 60
PAD = VOCABULARY - 1
_SIZES = {
    "d_model": 32,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 40,
}
_T5 = {"d_model": 32, "d_kv": 6, "num_heads": 4, "d_ff": 64, "num_layers": 4, "num_decoder_layers": 4}
_FAIRSEQ = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_OF_MARIAN = {"pad_token_id": PAD, "eos_token_id": 0, "decoder_start_token_id": PAD, "forced_eos_token_id": None}
_OF_T5 = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
CONFIGS = {
    "marian": lambda: hf.MarianConfig(vocab_size=VOCABULARY, scale_embedding=True, **_OF_MARIAN, **_SIZES),
    "bart": lambda: hf.BartConfig(**_FAIRSEQ, decoder_start_token_id=2, **_SIZES),
    "mbart": lambda: hf.MBartConfig(**_FAIRSEQ, decoder_start_token_id=2, scale_embedding=True, **_SIZES),
    "m2m_100": lambda: hf.M2M100Config(**_FAIRSEQ, decoder_start_token_id=2, **_SIZES),
    "t5": lambda: hf.T5Config(**_OF_T5, **_T5, relative_attention_num_buckets=8),
    # the kind of version 1.1
    "t5-gated": lambda: hf.T5Config(**_OF_T5, **_T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}
FAMILIES = list(CONFIGS)


@torch.no_grad()
def translator(family: str, seed: int = 0) -> hf.PreTrainedModel:
    """Every weight shows in the outputs; the pad's embedding is zero where the architecture has it so."""
    torch.manual_seed(seed)
    model = hf.AutoModelForSeq2SeqLM.from_config(CONFIGS[family]())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.copy_(0.2 * torch.randn_like(parameter) + (parameter.dim() == 1) * 0.5)
    if "final_logits_bias" in model.state_dict():
        model.final_logits_bias.normal_()
    if (pad := model.get_input_embeddings().padding_idx) is not None:
        model.get_input_embeddings().weight[pad] = 0.0
    model.generation_config.num_beams = 2
    return model.eval()


@torch.no_grad()
def logits(model: hf.PreTrainedModel) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, PAD, (3, 9), generator=draw)
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = model.config.pad_token_id, 0
    written = torch.randint(3, PAD, (3, 7), generator=draw)
    return model(input_ids=ids, attention_mask=mask, decoder_input_ids=written).logits


def tokenizer(words: int = VOCABULARY - 3) -> hf.PreTrainedTokenizerFast:
    """Words; the end first, the pad last, as ours are."""
    names = ["</s>", "<unk>", *(f"word{number}" for number in range(words)), "<pad>"]
    backend = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", unk_token="<unk>", pad_token="<pad>", model_max_length=40
    )
