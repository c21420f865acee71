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
from limbeck.students.pieces import how_texts_end, principal
from limbeck.students.shrink import Shrink

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EMBEDDING, HIDDEN, FEED_FORWARD = 300, 150, 200  # Tang et al. 2019
_TABLES = ("reader.static.weight", "reader.tuned.weight")


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
        **how_texts_end(tokenizer, pairs),
    )
    with torch.device(teacher.device):
        student = BiLSTMForSequenceClassification._from_config(config, dtype=teacher.dtype).eval()
    whole = width == table.shape[1]
    start = table if whole else principal(table, width)
    for name in _TABLES:
        student.get_parameter(name).copy_(start)
    fresh = [name for name in student.state_dict() if name not in _TABLES]
    return student, Inheritance(layers=[], whole=2 * whole, sliced=2 * (not whole), fresh=fresh)
