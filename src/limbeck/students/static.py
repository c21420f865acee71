"""A student without layers: a vector per word piece, filters over neighbouring ones, one hidden layer.

A piece starts from what the teacher makes of it alone (one forward pass per piece of the vocabulary, as Model2Vec does
it), reduced to its principal components and weighted as SIF does (Arora et al. 2017): a / (a + p), p by Zipf's law from
the piece's number, for vocabularies are sorted by frequency.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import TEXT_KINDS
from limbeck.students.families import family, has_layers
from limbeck.students.inherit import Built, Inheritance
from limbeck.students.networks.static import StaticConfig, StaticForSequenceClassification
from limbeck.students.pieces import how_texts_end, principal
from limbeck.students.shrink import Shrink

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

EMBEDDING, HIDDEN = 128, 128
SIF = 1e-4  # a; Model2Vec's
SPREAD = 1.0  # root mean square of the vectors' coordinates at the start
_AT_ONCE = 512  # pieces in a forward pass
_TABLE = "reader.pieces.weight"
_LAYERED = ("layers", "decoder_layers", "heads", "head_size", "hidden", "groups")


@cache
def register() -> None:
    """Makes the Auto classes of transformers know it."""
    AutoConfig.register(StaticConfig.model_type, StaticConfig, exist_ok=True)
    AutoModelForSequenceClassification.register(StaticConfig, StaticForSequenceClassification, exist_ok=True)
    # So that save_pretrained copies the file beside the weights.
    StaticConfig.register_for_auto_class()
    StaticForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")


@family(
    "static",
    "from any encoder; no layers, vectors of pieces and filters over a few",
    knobs=("embedding", "window", "filters", "word_dropout", "vectors"),
    small=True,
    layers=False,
    serves=TEXT_KINDS,
    architecture=StaticConfig.model_type,
    register=register,
)
@torch.no_grad()
def to_static(teacher: PreTrainedModel, shape: Shrink, tokenizer: Any, pairs: bool) -> Built:
    """An untrained static student in eval mode. 0 means: the family's size, or the teacher's where that is smaller.

    Filters and the hidden layer are fresh from torch's current seed."""
    _check(shape, tokenizer)
    register()
    words = teacher.get_input_embeddings().weight
    forward = shape.vectors == "forward" and has_layers(teacher.config.model_type)
    start = piece_vectors(teacher, tokenizer) if forward else words.detach().float()
    width = shape.embedding or min(EMBEDDING, start.shape[1])
    if width > start.shape[1]:
        raise KnobError(
            f"the student's vectors would be {width} wide, but the teacher's are {start.shape[1]}",
            f"ask for at most {start.shape[1]}, or leave the size out",
        )
    config = StaticConfig(
        vocab_size=len(words),
        embedding_size=width,
        window=shape.window,
        filters=shape.filters,
        word_dropout=shape.word_dropout,
        intermediate_size=shape.feed_forward or HIDDEN,
        pairs=pairs,
        id2label=teacher.config.id2label,
        label2id=teacher.config.label2id,
        problem_type=teacher.config.problem_type,
        pad_token_id=tokenizer.pad_token_id,
        **how_texts_end(tokenizer, pairs),
    )
    with torch.device(teacher.device):
        student = StaticForSequenceClassification._from_config(config, dtype=teacher.dtype).eval()
    student.reader.pieces.weight.copy_(weighted(principal(start, width)))
    fresh = [name for name, _ in student.named_parameters() if name != _TABLE]
    how = "what the teacher makes of each piece alone" if forward else "the teacher's embeddings"
    return student, Inheritance(layers=[], sliced=1, fresh=fresh, note=f"Vectors of pieces start from {how}.")


def piece_vectors(teacher: PreTrainedModel, tokenizer: Any) -> Tensor:
    """[pieces, hidden] the teacher's last states of every piece as a text of its own, averaged over its tokens."""
    one = tokenizer("a", return_special_tokens_mask=True)
    special = one["special_tokens_mask"]
    first = special.index(0) if 0 in special else len(special)
    before, after = one["input_ids"][:first], [token for token in one["input_ids"][first:] if token in _ends(one)]
    count, found = teacher.get_input_embeddings().weight.shape[0], []
    was_training = teacher.training
    teacher.eval()
    for start in range(0, count, _AT_ONCE):
        pieces = torch.arange(start, min(start + _AT_ONCE, count), device=teacher.device)
        columns = [torch.full_like(pieces, token) for token in before], [torch.full_like(pieces, t) for t in after]
        ids = torch.stack([*columns[0], pieces, *columns[1]], dim=1)
        states = teacher.base_model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
        found.append(states.float().mean(1))
    teacher.train(was_training)
    return torch.cat(found)


def _ends(one: Any) -> set[int]:
    """The special tokens of an encoded text."""
    return {token for token, special in zip(one["input_ids"], one["special_tokens_mask"], strict=True) if special}


def weighted(vectors: Tensor) -> Tensor:
    """With rare pieces longer than frequent ones, and coordinates of one size whatever the teacher's are."""
    ranks = torch.arange(1, len(vectors) + 1, dtype=torch.float64, device=vectors.device)
    share = (1 / ranks) / (1 / ranks).sum()
    found = vectors.double() * (SIF / (SIF + share))[:, None]
    size = found.square().mean().sqrt()
    return (found * (SPREAD / size) if size > 0 else found).to(vectors.dtype)


def _check(shape: Shrink, tokenizer: Any) -> None:
    if tokenizer is None:
        raise ModelError(
            "a static student reads words only, so it needs the tokenizer to tell them from special tokens",
            "pass it: shrink(model, tokenizer, family='static')",
        )
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(
            f"a static student answers without transformers, but a {type(tokenizer).__name__} has no tokenizer.json",
            "use a teacher with a fast tokenizer, or keep its architecture with --student.family same",
        )
    for name in _LAYERED:
        if getattr(shape, name):
            raise KnobError(
                f"'student.{name}' has no effect for family 'static', which has no layers",
                "leave it at 0, and --preset out; its sizes are student.embedding, student.filters, student.window and "
                "student.feed_forward",
            )
