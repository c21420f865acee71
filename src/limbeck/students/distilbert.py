"""A DistilBERT cut from a BERT: some of its layers, its embeddings and its head; no segments, no pooler.

Segments are dropped as DistilBERT's code drops them: the embedding of segment 0, which BERT adds to every token of a
single text, is lost, and training makes up for it. What is copied is bit-identical.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from limbeck.core.errors import ModelError
from limbeck.students.families import family
from limbeck.students.inherit import Built, Inheritance
from limbeck.students.shrink import Shrink, kept_at_full_width

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAYER = {  # its names → BERT's
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
}
_HEAD = {
    "vocab_transform": "cls.predictions.transform.dense",
    "vocab_layer_norm": "cls.predictions.transform.LayerNorm",
    "vocab_projector": "cls.predictions.decoder",
}


@family("distilbert", "from BERT; no segments, no pooler")
@torch.no_grad()
def to_distilbert(teacher: PreTrainedModel, shape: Shrink, tokenizer: Any, pairs: bool) -> Built:
    """A DistilBertForMaskedLM whose layers are those of the teacher that are kept."""
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    if teacher.config.model_type != "bert" or not hasattr(teacher, "cls"):
        raise ModelError(
            f"a DistilBERT is cut from a BERT with a masked language-model head, not from {type(teacher).__name__}",
            "set --student.family same",
        )
    kept = kept_at_full_width(shape, teacher, "a DistilBERT", "layers")
    source = teacher.config
    config = DistilBertConfig(
        vocab_size=source.vocab_size,
        max_position_embeddings=source.max_position_embeddings,
        n_layers=len(kept),
        n_heads=source.num_attention_heads,
        dim=source.hidden_size,
        hidden_dim=source.intermediate_size,
        dropout=source.hidden_dropout_prob,
        attention_dropout=source.attention_probs_dropout_prob,
        activation=source.hidden_act,
        initializer_range=source.initializer_range,
        pad_token_id=source.pad_token_id,
        tie_word_embeddings=source.tie_word_embeddings,
    )
    with torch.device(teacher.device):
        student = DistilBertForMaskedLM._from_config(config, dtype=teacher.dtype).eval()
    origins = _origins(kept)
    weights = teacher.state_dict()
    student.load_state_dict({name: weights[origin] for name, origin in origins.items()}, strict=False)
    left = ["bert.embeddings.token_type_embeddings.weight"]
    return student, Inheritance(layers=kept, whole=len(origins), dropped=left)


def _origins(kept: list[int]) -> dict[str, str]:
    """Student tensor → teacher tensor."""
    parts = _HEAD | {"distilbert.embeddings.LayerNorm": "bert.embeddings.LayerNorm"}
    for place, layer in enumerate(kept):
        for ours, theirs in LAYER.items():
            parts[f"distilbert.transformer.layer.{place}.{ours}"] = f"bert.encoder.layer.{layer}.{theirs}"
    tables = ("word_embeddings.weight", "position_embeddings.weight")
    names = {f"distilbert.embeddings.{table}": f"bert.embeddings.{table}" for table in tables}
    return names | {
        f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in parts.items() for kind in ("weight", "bias")
    }
