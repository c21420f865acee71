"""Encoder-decoder models: the token they start from, a pad that stays zero, and a randomly initialised one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limbeck.core.errors import KnobError, ModelError
from limbeck.students.seq2seq_config import Seq2SeqConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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
    from transformers import MarianConfig, MarianMTModel

    _check_heads(settings)
    feed_forward = settings.feed_forward or 4 * settings.hidden
    pad, eos = _special(tokenizer)
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
    model.generation_config = _greedy(config)
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


def _greedy(config: Any) -> Any:
    """Greedy, up to the last position, never a pad."""
    from transformers import GenerationConfig

    return GenerationConfig(
        decoder_start_token_id=config.decoder_start_token_id,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        bad_words_ids=[[config.pad_token_id]],
        num_beams=1,
        max_length=config.max_position_embeddings,
    )


def _special(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None or eos is None:
        raise ModelError(
            "the tokenizer has no padding token, or no end-of-sequence token",
            "make it with `limbeck train --task translate`, or name its pad_token and eos_token",
        )
    return pad, eos


def _check_heads(settings: Seq2SeqConfig) -> None:
    if settings.hidden % settings.heads:
        fits = [heads for heads in range(1, settings.hidden + 1) if settings.hidden % heads == 0]
        near = sorted(sorted(fits, key=lambda heads: abs(heads - settings.heads))[:3])
        raise KnobError(
            f"a hidden size of {settings.hidden} does not divide into {settings.heads} heads",
            f"set heads to one of {', '.join(map(str, near))}, or change hidden",
        )
