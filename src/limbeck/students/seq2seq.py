"""Encoder-decoder models: the token and the language they start from, a pad that stays zero, and a new one.

Translators of many languages (mBART, mBART-50, NLLB, M2M100) have tokenizers that put a code at one end of every text,
and write the code of the target language first or start from it. Most folders name the language on one side only. A
tokenizer that is not told it takes the code of the source; a model that is not told it chooses one itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_OF_MANY = ("MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer", "M2M100Tokenizer")


@table("seq2seq", "config of a randomly initialised model, where there is none to start from", SEQ2SEQ_KINDS)
class Seq2SeqConfig(Settings):
    encoder_layers: int = knob(4, "encoder layers", at_least=1)
    decoder_layers: int = knob(4, "decoder layers", at_least=1)
    hidden: int = knob(256, "width of the residual stream", at_least=8)
    heads: int = knob(4, "attention heads", at_least=1)
    feed_forward: int = knob(0, "neurons of each feed-forward block; 0: four times hidden", at_least=0)
    dropout: float = knob(0.1, "share of activations dropped in training", at_least=0, below=1)
    vocabulary: int = knob(8000, "pieces of words, shared by both languages", at_least=64)
    pieces: Literal["unigram", "bpe"] = knob(
        "unigram", "subword model; SentencePiece's unigram model, or byte-pair encoding"
    )
    positions: int = knob(512, "tokens of a text at most", at_least=16)
    vocabulary_from: str = knob(
        "", "of `limbeck train`: a model whose vocabulary is taken instead of training one", short="--vocabulary-from"
    )
    smoothing: float = knob(
        0.1,
        "of `limbeck train`: label smoothing",
        at_least=0,
        below=1,
        source="Vaswani et al. 2017",
        short="--smoothing",
    )


def decoder_start(model: PreTrainedModel) -> int:
    """The token that the decoder reads before it writes the first."""
    for settings in (model.config, model.generation_config):
        if (start := getattr(settings, "decoder_start_token_id", None)) is not None:
            return int(start)
    raise ModelError(
        f"the config of this {model.config.model_type} model does not say which token a translation starts from",
        "set decoder_start_token_id in its config.json (T5: its pad; mBART: the code of the target language)",
    )


def new_seq2seq(settings: Seq2SeqConfig, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A Marian with random weights from torch's current seed, in eval mode; encoder, decoder and
    output projection share one table of embeddings.

    The table that reads a token also scores it, so through the residual stream a token speaks for itself as the next
    one, with a logit of up to hidden × init_std. At 5 it is lost among thousands of others, so that an untrained
    model's loss is near the logarithm of the vocabulary; at 256 this is Marian's 0.02, which is too faint to learn
    from in a narrow model and 3 nats too loud in one of 1024."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    _check_heads(settings)
    feed_forward = settings.feed_forward or 4 * settings.hidden
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None or eos is None:
        raise ModelError(
            "the tokenizer has no padding token, or no end-of-sequence token",
            "make it with `limbeck train --task translate`, or name its pad_token and eos_token",
        )
    config = MarianConfig(
        vocab_size=max(tokenizer.get_vocab().values()) + 1,
        d_model=settings.hidden,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        encoder_attention_heads=settings.heads,
        decoder_attention_heads=settings.heads,
        encoder_ffn_dim=feed_forward,
        decoder_ffn_dim=feed_forward,
        activation_function="relu",
        dropout=settings.dropout,
        max_position_embeddings=settings.positions,
        scale_embedding=True,
        init_std=5 / settings.hidden,
        pad_token_id=pad,
        eos_token_id=eos,
        decoder_start_token_id=pad,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    model.generation_config = GenerationConfig(  # greedy, up to the last position, never a pad
        decoder_start_token_id=pad,
        pad_token_id=pad,
        eos_token_id=eos,
        bad_words_ids=[[pad]],
        num_beams=1,
        max_length=settings.positions,
    )
    hold_pad(model)
    return model


def hold_pad(model: PreTrainedModel) -> None:
    """A pad whose embedding is zero keeps it in training, also in copies of the model made by deepcopy.

    Where the table of embeddings is the output projection too, the loss would move the row. Marian starts to write from
    it, and CTranslate2 takes it to be zero."""
    table = model.get_input_embeddings()
    if table.padding_idx is None or table.weight.is_meta:
        return
    if not table.weight[table.padding_idx].any():
        model.register_forward_pre_hook(_hold)


def _hold(model: Any, _: Any) -> None:
    """A module's hooks are copied with it, its tensors' are not: so the one sets the other."""
    import torch

    table = model.get_input_embeddings()
    weight = table.weight
    if weight.requires_grad and not getattr(weight, "holds_pad", False):
        pad = torch.tensor([table.padding_idx], device=weight.device)
        weight.register_hook(lambda gradient: gradient.index_fill(0, pad, 0.0))
        weight.holds_pad = True


def _check_heads(settings: Seq2SeqConfig) -> None:
    if settings.hidden % settings.heads:
        fits = [heads for heads in range(1, settings.hidden + 1) if settings.hidden % heads == 0]
        near = sorted(sorted(fits, key=lambda heads: abs(heads - settings.heads))[:3])
        raise KnobError(
            f"a hidden size of {settings.hidden} does not divide into {settings.heads} heads",
            f"set heads to one of {', '.join(map(str, near))}, or change hidden",
        )


def settle_language(where: str | Path, model: PreTrainedModel, tokenizer: Any, start: int) -> None:
    """Makes targets and translations begin alike, `start` being what the decoder reads first; or refuses.

    Tokenizers of one language, or of one pair, are left alone."""
    if not _of_many(tokenizer):
        return
    codes = _codes(tokenizer)
    language = _language(where, tokenizer.tgt_lang, _forced(model), start, codes)
    tokenizer.tgt_lang = language
    if tokenizer(text_target="")["input_ids"][0] == codes[language]:
        model.generation_config.forced_bos_token_id = codes[language]
    elif start != codes[language]:
        raise ModelError(
            f"{where} starts to write from {tokenizer.convert_ids_to_tokens(start)}, but its tokenizer puts {language} "
            "behind a text, which is for models that start from it",
            f"set decoder_start_token_id to {codes[language]} in its config.json (mBART), "
            "or save its tokenizer with legacy_behaviour=False (NLLB)",
        )


def languages_said(tokenizer: Any) -> list[str]:
    """For a person to check: a source language that nobody named is the tokenizer's default, and no error."""
    if not _of_many(tokenizer):
        return []
    return [f"it reads {tokenizer.src_lang} and writes {tokenizer.tgt_lang}: src_lang and tgt_lang of its tokenizer"]


def _of_many(tokenizer: Any) -> bool:
    return type(tokenizer).__name__.removesuffix("Fast") in _OF_MANY


def _codes(tokenizer: Any) -> dict[str, int]:
    """The ids of the languages, all of them in the vocabulary and among the special tokens."""
    codes = getattr(tokenizer, "lang_code_to_id", None)
    if codes is None:  # NLLB's, which has no other special tokens of this kind
        codes = {name: tokenizer.convert_tokens_to_ids(name) for name in tokenizer.extra_special_tokens}
    # M2M100's, once saved, forgets to list them: they would be written into the texts, with ids beyond the last
    if lost := sorted(set(codes.values()) - set(tokenizer.get_vocab().values())):
        tokenizer.add_special_tokens({"extra_special_tokens": tokenizer.convert_ids_to_tokens(lost)})
    return {name: number for name, number in codes.items() if number != tokenizer.unk_token_id}


def _forced(model: PreTrainedModel) -> int | None:
    for settings in (model.generation_config, model.config):
        if (token := getattr(settings, "forced_bos_token_id", None)) is not None:
            return int(token)
    return None


def _language(where: str | Path, own: str | None, forced: int | None, start: int, codes: dict[str, int]) -> str:
    """The one that the tokenizer (`own`) and the model name."""
    names = {number: name for name, number in codes.items()}
    said = names.get(-1 if forced is None else forced) or names.get(start)
    if own is not None and own not in codes:
        raise ModelError(
            f"the tokenizer of {where} is to write {own!r}, which is none of its {len(codes)} languages",
            f"save it with another tgt_lang, such as {next(iter(codes), '…')}",
        )
    if own and said and own != said:
        raise ModelError(
            f"{where} names two languages to write: its tokenizer says {own}, and its model begins with {said}",
            f"save its tokenizer with tgt_lang={said!r}, or set forced_bos_token_id (mBART: decoder_start_token_id) to "
            f"{codes[own]}, which is {own}",
        )
    if not own and not said:
        raise ModelError(
            f"{where} does not say which of its {len(codes)} languages it writes",
            "save its tokenizer with src_lang=…, tgt_lang=…",
        )
    return own or said or ""
