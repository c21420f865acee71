"""Translators of many languages (mBART, mBART-50, NLLB, M2M100): which of them is written.

Their tokenizers put a code at one end of every text, and their models write the code of the target language first or
start from it. Most folders name the language on one side only. A tokenizer that is not told it takes the code of the
source; a model that is not told it chooses one itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OF_MANY = ("MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer", "M2M100Tokenizer")


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
