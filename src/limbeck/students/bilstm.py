"""A BiLSTM that starts from its teacher's word embeddings and shares its tokenizer.

The paper reads words by word2vec; here the teacher's word pieces and its table of them stand in. Where the table is
wider than the student's, both channels start from its principal components; else they are copies.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import TEXT_KINDS
from limbeck.students.families import family
from limbeck.students.inherit import Built, Inheritance
from limbeck.students.networks.bilstm import BiLSTMConfig, BiLSTMForSequenceClassification
from limbeck.students.shrink import Shrink

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

EMBEDDING, HIDDEN, FEED_FORWARD = 300, 150, 200  # Tang et al. 2019
_TABLES = ("reader.static.weight", "reader.tuned.weight")
_OUTSIDE = ("cls_token_id", "sep_token_id", "pad_token_id", "bos_token_id", "eos_token_id")


@cache
def register() -> None:
    """Makes the Auto classes of transformers know it."""
    AutoConfig.register(BiLSTMConfig.model_type, BiLSTMConfig, exist_ok=True)
    AutoModelForSequenceClassification.register(BiLSTMConfig, BiLSTMForSequenceClassification, exist_ok=True)
    # So that save_pretrained copies the file beside the weights.
    BiLSTMConfig.register_for_auto_class()
    BiLSTMForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")


@family(
    "bilstm",
    "from any encoder; one recurrent layer",
    knobs=("embedding",),
    small=True,
    layers=False,
    serves=TEXT_KINDS,
    architecture=BiLSTMConfig.model_type,
    register=register,
)
@torch.no_grad()
def to_bilstm(teacher: PreTrainedModel, shape: Shrink, tokenizer: Any, pairs: bool) -> Built:
    """An untrained BiLSTM in eval mode. 0 means: the paper's size, or the teacher's embeddings where they are narrower.

    `hidden` is of each direction. The LSTM and the layers after it are fresh from torch's current seed."""
    if tokenizer is None:
        raise ModelError(
            "a bilstm reads words only, so it needs the tokenizer to tell them from special tokens",
            "pass it: shrink(model, tokenizer, family='bilstm')",
        )
    register()
    table = teacher.get_input_embeddings().weight.detach()
    width = shape.embedding or min(EMBEDDING, table.shape[1])
    if width > table.shape[1]:
        raise KnobError(
            f"the student's embeddings would be {width} wide, but the teacher's are {table.shape[1]}",
            f"ask for at most {table.shape[1]}, or leave the size out",
        )
    config = BiLSTMConfig(
        vocab_size=len(table),
        embedding_size=width,
        hidden_size=shape.hidden or HIDDEN,
        intermediate_size=shape.feed_forward or FEED_FORWARD,
        pairs=pairs,
        id2label=teacher.config.id2label,
        label2id=teacher.config.label2id,
        problem_type=teacher.config.problem_type,
        pad_token_id=tokenizer.pad_token_id,
        **_how_texts_end(tokenizer, pairs),
    )
    with torch.device(teacher.device):
        student = BiLSTMForSequenceClassification._from_config(config, dtype=teacher.dtype).eval()
    whole = width == table.shape[1]
    start = table if whole else principal(table, width)
    for name in _TABLES:
        student.get_parameter(name).copy_(start)
    fresh = [name for name in student.state_dict() if name not in _TABLES]
    return student, Inheritance(layers=[], whole=2 * whole, sliced=2 * (not whole), fresh=fresh)


def principal(table: Tensor, width: int) -> Tensor:
    """[words, width] the table's coordinates along its first principal axes: distances change least."""
    centred = table.double() - table.double().mean(0)
    _, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    axes = axes[:, -width:].flip(1)
    # An axis may point either way; that of its largest entry is the same on every machine.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    return (centred @ (axes * largest.sign())).to(table.dtype)


def _how_texts_end(tokenizer: Any, pairs: bool) -> dict[str, Any]:
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
