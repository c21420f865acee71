"""An ALBERT made from a BERT: its layers share weights in groups, its embeddings are factorised.

An ALBERT layer computes what a BERT layer computes, so with as many groups as layers and embeddings of the hidden
width the student is its teacher.

- A group starts from the teacher layer in its middle. The mean of its layers would be nobody's weights: neurons and
  heads of different layers have no common order, and averaging them cancels what each has learned.
- ALBERT norms the narrow embedding and then maps it to the hidden width; BERT norms the wide one. A norm centres and
  rescales, so the teacher's centred tables are put on their leading directions, in coordinates of mean 0: the narrow
  norm then divides by the length the wide one would divide by, and the map holds the teacher's scale and shift. One
  coordinate of the narrow width is spent on that.
- A language-model head of another width than the teacher's cannot be carried over: its transform is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from limbeck.core.errors import KnobError, ModelError
from limbeck.students.factorised_embeddings import centred, directions, off_the_diagonal
from limbeck.students.families import family
from limbeck.students.inherit import Built, Inheritance
from limbeck.students.shared_layers import groups_of, middles
from limbeck.students.shrink import Shrink, kept_at_full_width

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

PUBLISHED_EMBEDDING = 128
_CLASSES = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM")
_MAP = "encoder.embedding_hidden_mapping_in"
_TABLES = ("word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight")
_SAME: tuple[str, ...] = (
    *("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "hidden_act", "type_vocab_size"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "initializer_range"),
    *("layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings"),
    *("id2label", "label2id", "problem_type"),
)
_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.dense": "attention.output.dense",
    "attention.LayerNorm": "attention.output.LayerNorm",
    "ffn": "intermediate.dense",
    "ffn_output": "output.dense",
    "full_layer_layer_norm": "output.LayerNorm",
}
_HEADS = {
    "pooler": "pooler.dense",
    "classifier": "classifier",
    "qa_outputs": "qa_outputs",
    "predictions.dense": "cls.predictions.transform.dense",
    "predictions.LayerNorm": "cls.predictions.transform.LayerNorm",
    "predictions.decoder": "cls.predictions.decoder",
    "predictions": "cls.predictions",
}


@family("albert", "from BERT; layers share weights", knobs=("groups", "embedding"), small=True)
@torch.no_grad()
def to_albert(teacher: PreTrainedModel, shape: Shrink, tokenizer: Any, pairs: bool) -> Built:
    """An Albert… of the teacher's kind, with a layer for each one kept, in groups that share weights."""
    import transformers

    kept = kept_at_full_width(shape, teacher, "an ALBERT", "layers, groups and embedding")
    kind = bert_head(teacher, ("bert",), "an ALBERT", "keep the architecture and set --student.groups 1")
    hidden = teacher.config.hidden_size
    groups, embedding = shape.groups or 1, shape.embedding or min(PUBLISHED_EMBEDDING, hidden)
    if groups > len(kept) or embedding > hidden or embedding < 2:
        raise KnobError(
            f"an ALBERT of {len(kept)} layers × {hidden} cannot have {groups} groups and embeddings of {embedding}",
            f"ask for 1 to {len(kept)} groups, and embeddings of 2 to {hidden}",
        )
    config = _config(teacher.config, len(kept), groups, embedding)
    with torch.device(teacher.device):
        student = getattr(transformers, f"Albert{kind}")._from_config(config, dtype=teacher.dtype).eval()
    weights = {name.removeprefix("bert."): tensor for name, tensor in teacher.state_dict().items()}
    here = {name.removeprefix("albert."): name for name in student.state_dict()}
    layers = [kept[middle] for middle in middles(len(kept), groups)]
    origins = _origins(here, layers)
    copied = {name: weights[origin] for name, origin in origins.items() if origin in weights}
    if embedding < hidden:
        made = _embeddings(weights, embedding, config.tie_word_embeddings)
    else:
        copied |= {name: tensor for name, tensor in weights.items() if name.startswith("embeddings.")}
        made = {
            f"{_MAP}.weight": torch.eye(hidden, device=teacher.device),
            f"{_MAP}.bias": torch.zeros(hidden, device=teacher.device),
        }
    fits = {name: x for name, x in (copied | made).items() if student.get_parameter(here[name]).shape == x.shape}
    student.load_state_dict({here[name]: tensor for name, tensor in fits.items()}, strict=False)
    return student, Inheritance(
        layers=[layers[group] for group in groups_of(len(kept), groups)],
        whole=len(fits.keys() & copied.keys()),
        sliced=len(made) if embedding < hidden else 0,
        fresh=[here[name] for name in here if name not in fits],
        dropped=[
            name
            for name in weights
            if not name.startswith(("embeddings.", "encoder.")) and name not in origins.values()
        ],
    )


def bert_head(teacher: PreTrainedModel, families: tuple[str, ...], student: str, remedy: str) -> str:
    """What the name of the student's class ends with, as ForMaskedLM; or a refusal of a teacher of another family."""
    named = re.fullmatch(r"(?:Mobile)?Bert(\w+)", type(teacher).__name__)
    kind = {"ForPreTraining": "ForMaskedLM"}.get(named[1], named[1]) if named else ""
    if teacher.config.model_type not in families or kind not in _CLASSES:
        raise ModelError(f"{student} is made from a BERT, not from {type(teacher).__name__}", remedy)
    return kind


def _config(shape: PretrainedConfig, layers: int, groups: int, embedding: int) -> PretrainedConfig:
    from transformers import AlbertConfig

    dropout = getattr(shape, "classifier_dropout", None)
    return AlbertConfig(
        **{name: getattr(shape, name) for name in _SAME},
        num_hidden_layers=layers,
        num_hidden_groups=groups,
        embedding_size=embedding,
        classifier_dropout_prob=shape.hidden_dropout_prob if dropout is None else dropout,
    )


def _origins(here: Iterable[str], layers: list[int]) -> dict[str, str]:
    """Student tensor → teacher tensor, both without the prefix of the model; embeddings are left out."""
    origins: dict[str, str] = {}
    for name in here:
        part, kind = name.rpartition(".")[::2]
        if found := re.fullmatch(r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.(.+)", part):
            origins[name] = f"encoder.layer.{layers[int(found[1])]}.{_LAYER[found[2]]}.{kind}"
        elif part in _HEADS:
            origins[name] = f"{_HEADS[part]}.{kind}"
    return origins


def _embeddings(weights: dict[str, Tensor], embedding: int, tied: bool) -> dict[str, Tensor]:
    """The teacher's tables on their leading directions, and the map from there to the teacher's normed embeddings."""
    tables = {name: centred(weights[f"embeddings.{name}"]) for name in _TABLES}
    leading = directions(list(tables.values()), embedding - 1)  # [hidden, embedding - 1]
    way = leading @ off_the_diagonal(embedding, leading.device).T  # [hidden, embedding]
    scale = weights["embeddings.LayerNorm.weight"].double() * (len(way) / embedding) ** 0.5
    made = {f"embeddings.{name}": table @ way for name, table in tables.items()}
    made[f"{_MAP}.weight"] = scale[:, None] * way
    made[f"{_MAP}.bias"] = weights["embeddings.LayerNorm.bias"]
    if "cls.predictions.decoder.weight" in weights and tied:
        made["predictions.decoder.weight"] = made["embeddings.word_embeddings.weight"]
    return made
