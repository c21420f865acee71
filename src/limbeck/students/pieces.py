"""What students that are no transformers share: which pieces they read, and narrow vectors to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from limbeck.core.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

_OUTSIDE = ("cls_token_id", "sep_token_id", "pad_token_id", "bos_token_id", "eos_token_id")


def principal(table: Tensor, width: int) -> Tensor:
    """[words, width] the table's coordinates along its first principal axes: distances change least."""
    centred = table.double() - table.double().mean(0)
    _, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    axes = axes[:, -width:].flip(1)
    # An axis may point either way; that of its largest entry is the same on every machine.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    return (centred @ (axes * largest.sign())).to(table.dtype)


def how_texts_end(tokenizer: Any, pairs: bool) -> dict[str, Any]:
    """What is not part of a text, and what tells two texts apart. Mask and unknown tokens are words like others."""
    outside = {name: getattr(tokenizer, name, None) for name in _OUTSIDE}
    spoken = {tokenizer.mask_token_id, tokenizer.unk_token_id}
    separator = outside["sep_token_id"] if outside["sep_token_id"] is not None else outside["eos_token_id"]
    segments = 1 in tokenizer("a", "b").get("token_type_ids", [])
    if pairs and not segments and separator is None:
        raise ModelError(
            "the tokenizer neither marks the texts of a pair by token_type_ids nor has a separator between them",
            "set tokenizer.sep_token, or keep the teacher's architecture with --student.family same",
        )
    unread = {token for token in outside.values() if token is not None} - spoken
    return {"segments": segments, "separator_id": -1 if separator is None else separator, "unread_ids": sorted(unread)}
