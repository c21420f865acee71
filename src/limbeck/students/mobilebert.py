"""A MobileBERT for a BERT, or for a MobileBERT with an inverted bottleneck: as wide outside its layers, thin inside.

Each layer narrows its input to the bottleneck, attends and runs several feed-forward blocks there, and widens the
result again; NoNorm (γ ⊙ h + β) and ReLU take the place of layer norm and GELU. Word embeddings are narrow, and three
neighbours make one input.

- Of a MobileBERT the student copies embeddings, pooler and head bit for bit, as the paper's code does; of a BERT it
  copies what fits. BERT's words are put on their leading directions, which the middle of the trigram undoes, and its
  layer norm becomes the NoNorm that divides every token by the same mean length.
- The layers are new: there is no teacher layer of their shape. Teach them with the objective 'mobilebert'.
- A language-model head of BERT's cannot be carried over to turned word embeddings: its transform is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from limbeck.core.errors import KnobError
from limbeck.students.albert import bert_head
from limbeck.students.factorised_embeddings import centred, directions, second_moment
from limbeck.students.families import family
from limbeck.students.inherit import Built, Inheritance
from limbeck.students.shrink import Shrink, kept_layers

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import MobileBertConfig, PretrainedConfig, PreTrainedModel

_SAME = (
    *("vocab_size", "hidden_size", "type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("max_position_embeddings", "initializer_range", "layer_norm_eps", "pad_token_id", "tie_word_embeddings"),
    *("id2label", "label2id", "problem_type", "classifier_dropout"),
)


def ib_teacher(
    vocab_size: int = 30522,
    layers: int = 24,
    hidden: int = 512,
    heads: int = 4,
    inside: int = 1024,
    feed_forward: int = 4096,
) -> MobileBertConfig:
    """A teacher with an inverted bottleneck: its layers are `inside` wide, between them it is as wide as its student.

    The published one reads queries, keys and values from the narrow stream; transformers cannot express that, so here
    they are read from the widened one, which makes 332 million parameters of the published 293."""
    from transformers import MobileBertConfig

    return MobileBertConfig(
        vocab_size=vocab_size,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intra_bottleneck_size=inside,
        intermediate_size=feed_forward,
        embedding_size=hidden // 4,
        num_feedforward_networks=1,
        use_bottleneck_attention=True,
        key_query_shared_bottleneck=False,
        normalization_type="layer_norm",
        hidden_act="gelu",
    )


@family("mobilebert", "from BERT; bottlenecks", knobs=("embedding", "bottleneck", "feed_forwards"), small=True)
@torch.no_grad()
def to_mobilebert(teacher: PreTrainedModel, shape: Shrink, tokenizer: Any, pairs: bool) -> Built:
    """A MobileBert… of the teacher's kind, as deep as `shape` says and as wide between its layers as the teacher."""
    import transformers

    kind = bert_head(teacher, ("bert", "mobilebert"), "a MobileBERT", "set --student.family same")
    config = _config(teacher.config, shape)
    with torch.device(teacher.device):
        student = getattr(transformers, f"MobileBert{kind}")._from_config(config, dtype=teacher.dtype).eval()
    prefix = f"{teacher.base_model_prefix}."
    weights = {name.removeprefix(prefix): tensor for name, tensor in teacher.state_dict().items()}
    here = {name.removeprefix("mobilebert."): name for name in student.state_dict()}
    outside = [name for name in here if not name.startswith("encoder.")]
    made = _embeddings(weights, config) if teacher.config.model_type == "bert" else {}
    turned = ("cls.predictions.transform.", "cls.predictions.dense.") if made else ()
    copied = {name: weights[name] for name in outside if name in weights and not name.startswith(turned)}
    fits = {name: x for name, x in (copied | made).items() if student.state_dict()[here[name]].shape == x.shape}
    student.load_state_dict({here[name]: tensor for name, tensor in fits.items()}, strict=False)
    return student, Inheritance(
        layers=[],
        whole=len(fits.keys() - made.keys()),
        sliced=len(made),
        fresh=[here[name] for name in here if name not in fits],
        dropped=[name for name in weights if not name.startswith("encoder.") and name not in here],
    )


def _config(teacher: PretrainedConfig, shape: Shrink) -> PretrainedConfig:
    from transformers import MobileBertConfig

    hidden, heads = teacher.hidden_size, shape.heads or teacher.num_attention_heads
    bottleneck = shape.bottleneck or max(hidden // 4 // heads, 1) * heads
    embedding = shape.embedding or getattr(teacher, "embedding_size", hidden // 4)
    if shape.hidden or shape.head_size:
        raise KnobError(
            f"a MobileBERT is as wide as its teacher, {hidden}, between its layers",
            "leave hidden and head_size at 0; bottleneck is the width inside a layer",
        )
    if bottleneck % heads or bottleneck > hidden or embedding > hidden:
        raise KnobError(
            f"a MobileBERT of width {hidden} cannot have a bottleneck of {bottleneck} in {heads} heads "
            f"and embeddings of {embedding}",
            f"ask for a multiple of {heads} and for embeddings, both of at most {hidden}",
        )
    return MobileBertConfig(
        **{name: getattr(teacher, name) for name in _SAME},
        num_hidden_layers=len(kept_layers(shape.keep, teacher.num_hidden_layers, shape.layers)),
        num_attention_heads=heads,
        embedding_size=embedding,
        intra_bottleneck_size=bottleneck,
        intermediate_size=shape.feed_forward or 4 * bottleneck,
        num_feedforward_networks=shape.feed_forwards,
    )


def _embeddings(weights: dict[str, Tensor], config: PretrainedConfig) -> dict[str, Tensor]:
    """BERT's embeddings as MobileBERT's: narrow words, a trigram that looks at its middle, the mean of the norms."""
    names = ("word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight")
    word, position, segment = (centred(weights[f"embeddings.{name}"]) for name in names)
    leading = directions([word], config.embedding_size)  # [hidden, embedding]
    deviation = (second_moment([word, position, segment]).trace() / len(leading)).sqrt()
    aside = torch.zeros_like(leading)
    made = {
        "word_embeddings.weight": word @ leading,
        "position_embeddings.weight": position,
        "token_type_embeddings.weight": segment,
        "embedding_transformation.weight": torch.cat([aside, leading, aside], 1),
        "embedding_transformation.bias": torch.zeros_like(position[0]),
        "LayerNorm.weight": weights["embeddings.LayerNorm.weight"] / deviation,
    }
    found = {f"embeddings.{name}": tensor for name, tensor in made.items()}
    if "cls.predictions.decoder.weight" in weights and config.tie_word_embeddings:
        found["cls.predictions.decoder.weight"] = found["embeddings.word_embeddings.weight"]
    return found
