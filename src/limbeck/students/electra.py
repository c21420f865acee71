"""An ELECTRA made from a BERT, a RoBERTa or a DistilBERT: the same layers, word embeddings that are narrower than them.

An ELECTRA layer computes what a BERT layer computes, and its embeddings may have a width of their own: they are normed
there, and a projection widens them. With embeddings of the hidden width the student's hidden states are its teacher's.
The result is an ordinary ELECTRA folder, which every tool that knows ELECTRA opens.

Nothing is drawn at random:

- Layers and neurons are cut as in family `same`; with training rows at hand, the neurons that do most. A smaller width
  is then the leading directions of the teacher's states (students/narrow.py); without rows, some of its coordinates.
- ELECTRA norms the narrow embedding, BERT the wide one. A norm centres and rescales, so the teacher's centred tables
  are put on leading directions, in coordinates of mean 0: the narrow norm then divides by about what the wide one
  divides by. The directions are those of the normed sums of word, position and segment that the training rows show;
  without rows, those of the tables.
- The projection maps the narrow embeddings of real tokens to the teacher's normed embeddings, by least squares.
- A head for whole texts is dense, GELU, linear in ELECTRA; BERT and RoBERTa have tanh there, DistilBERT ReLU. The dense
  layer is the teacher's; the last one is fitted to the teacher's own logits on training rows, from its last hidden
  states, by least squares that stay near the teacher's weights. Heads for tokens and spans are the teacher's.

A masked-language-model head is left to family `albert`: ELECTRA's has the narrow width inside, the teacher's does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import gelu, layer_norm

from limbeck.core.compress import NO_CALIBRATION, Calibration
from limbeck.core.errors import KnobError, ModelError
from limbeck.students.distilbert import LAYER
from limbeck.students.factorised_embeddings import centred, off_the_diagonal, second_moment
from limbeck.students.families import SAME, family
from limbeck.students.inherit import WATCHED_BATCHES, Built, Inheritance, some
from limbeck.students.narrow import Narrowing, Stream, keep_stream
from limbeck.students.shrink import Shrink, to_same
from limbeck.students.sizes import resized, sizes_of

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PretrainedConfig, PreTrainedModel

PUBLISHED_EMBEDDING = 128
_KINDS = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_WIDTHS = ("hidden", "heads", "head_size")
_TABLES, _HEAD = ("word", "position", "token_type"), ("dense", "out_proj")
_DENSE = {"bert": "pooler.dense", "distilbert": "pre_classifier"}  # what stands before a head for whole texts
_ROBERTAS = ("roberta", "xlm-roberta", "camembert")
_TEACHERS = ("bert", "electra", "distilbert", *_ROBERTAS)
_UNSEEN = 0.01  # share of the tables themselves in the directions: words that no training row has count a little
_NEAR = 1e-3  # how much the fitted head clings to the teacher's weights
_DISTILBERT = {"transformer.layer": "encoder.layer", **LAYER}  # its names → ours, which are BERT's
_SAME_CONFIG = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("initializer_range", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings"),
    *("id2label", "label2id", "problem_type"),
)
# Other settings: their names in ELECTRA, and where they differ, in DistilBERT.
_OTHER_CONFIG = {
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout": "seq_classif_dropout",
}
Tensors = dict[str, "Tensor"]


def can_be_electra(teacher: PreTrainedModel) -> bool:
    """Whether an ELECTRA can say what the teacher says."""
    config = teacher.config
    return bool(_kind(teacher)) and getattr(config, "embedding_size", config.hidden_size) == config.hidden_size


def _kind(teacher: PreTrainedModel) -> str:
    """What the name of its class ends with; nothing for a teacher of another kind."""
    named = re.fullmatch(r"(?:Bert|Electra|DistilBert|Roberta|XLMRoberta|Camembert)(\w+)", type(teacher).__name__)
    return named[1] if named and teacher.config.model_type in _TEACHERS and named[1] in _KINDS else ""


@family(
    "electra",
    "from BERT, RoBERTa, DistilBERT; narrow word embeddings",
    knobs=("embedding",),
    small=True,
    calibrates=True,
    accepts=can_be_electra,
)
@torch.no_grad()
def to_electra(
    teacher: PreTrainedModel,
    shape: Shrink,
    tokenizer: Any,
    pairs: bool,
    calibration: Calibration = NO_CALIBRATION,
) -> Built:
    """An Electra… of the teacher's kind, of the layers, heads and neurons that are kept."""
    _check(teacher)
    before, sizes = sizes_of(teacher.config), shape.sizes(sizes_of(teacher.config))
    embedding = _embedding_width(shape, sizes.hidden)
    narrows = sizes.hidden < before.hidden and bool(calibration.batches)
    as_wide = shape.but(family=SAME, embedding=0, **(dict.fromkeys(_WIDTHS, 0) if narrows else {}))
    cut, inheritance = to_same(teacher, as_wide, tokenizer, pairs, calibration)
    weights, layers = _weights(cut), inheritance.layers
    config = _config(resized(cut.config, sizes, range(sizes.layers)), embedding, weights)
    student = _untrained(teacher, config)
    made: Tensors = {}
    stream = None
    if narrows:
        narrowing = Narrowing(teacher, _parts(teacher, layers), layers, before, sizes, calibration)
        stream = narrowing.stream()
        keep_stream(student, stream)
        made = narrowing.weights(weights, stream) | _narrow_head(weights, stream)
    if embedding < sizes.hidden:
        made |= _embeddings(weights, embedding, config.layer_norm_eps, calibration, stream)
    if narrows or sizes.hidden == before.hidden:
        made |= _fitted_head(teacher, weights | made, calibration, stream)
    here = {name.removeprefix("electra."): name for name in student.state_dict()}
    student.load_state_dict({here[name]: tensor for name, tensor in (weights | made).items() if name in here})
    given = _weights(teacher)
    origins = {name: _in_teacher(name, layers) for name in here if name not in made}
    whole = sum(weights[name].shape == given[origin].shape for name, origin in origins.items())
    return student, Inheritance(
        layers=layers,
        whole=whole,
        sliced=len(here) - whole,
        dropped=[name for name in given if name.startswith("pooler.")],  # of a teacher without a head
        note=_note(narrows, "classifier.out_proj.bias" in made),
    )


def _check(teacher: PreTrainedModel) -> None:
    if not can_be_electra(teacher):
        raise ModelError(
            f"an ELECTRA is made from a BERT, RoBERTa or DistilBERT with a head for texts, tokens or spans, not from "
            f"{type(teacher).__name__}",
            "set --student.family same; --student.embedding factorises its word embeddings",
        )


def _embedding_width(shape: Shrink, hidden: int) -> int:
    embedding = shape.embedding or min(PUBLISHED_EMBEDDING, hidden)
    if not 2 <= embedding <= hidden:
        raise KnobError(
            f"embeddings of {embedding} do not fit an ELECTRA of width {hidden}", f"ask for 2 to {hidden} of them"
        )
    return embedding


def _untrained(teacher: PreTrainedModel, config: PretrainedConfig) -> PreTrainedModel:
    import transformers

    with torch.device(teacher.device):
        made = getattr(transformers, f"Electra{_kind(teacher)}")._from_config(config, dtype=teacher.dtype)
    student: PreTrainedModel = made.eval()
    return student


def _note(narrows: bool, fitted: bool) -> str:
    notes = ["Its width is the leading directions of the teacher's states on training rows."] if narrows else []
    notes += ["Its head is fitted to the teacher's logits."] if fitted else []
    return " ".join(notes)


def _in_teacher(name: str, layers: list[int]) -> str:
    return re.sub(r"^encoder\.layer\.(\d+)", lambda found: f"encoder.layer.{layers[int(found[1])]}", name)


def _electra_name(model: PreTrainedModel, name: str) -> str:
    name = name.removeprefix(f"{model.base_model_prefix}.")
    if model.config.model_type != "distilbert":
        return name
    return re.sub("|".join(map(re.escape, _DISTILBERT)), lambda part: _DISTILBERT[part[0]], name)


def _parts(teacher: PreTrainedModel, layers: list[int]) -> dict[str, nn.Module]:
    """The teacher's modules under the names that they have in the student."""
    here = {_electra_name(teacher, name): module for name, module in teacher.named_modules()}
    found = {name: module for name, module in here.items() if not name.startswith("encoder.layer.")}
    for number, layer in enumerate(layers):
        start = f"encoder.layer.{layer}."
        found |= {f"encoder.layer.{number}.{x.removeprefix(start)}": y for x, y in here.items() if x.startswith(start)}
    return found


def _weights(model: PreTrainedModel) -> Tensors:
    """A teacher's weights under the names that ELECTRA has for them."""
    family, hidden = model.config.model_type, model.config.hidden_size
    found = {_electra_name(model, name): tensor for name, tensor in model.state_dict().items()}
    if family == "distilbert":
        found[_table("token_type")] = found[_table("word")].new_zeros(1, hidden)
    if family in _ROBERTAS:  # positions are counted from behind the padding's
        found[_table("position")] = found[_table("position")][model.config.pad_token_id + 1 :]
    if _kind(model) == "ForSequenceClassification" and family in _DENSE:
        for part in ("weight", "bias"):
            found[f"classifier.out_proj.{part}"] = found.pop(f"classifier.{part}")
            found[f"classifier.dense.{part}"] = found.pop(f"{_DENSE[family]}.{part}")
    return found


def _table(kind: str) -> str:
    return f"embeddings.{kind}_embeddings.weight"


def _config(shape: PretrainedConfig, embedding: int, weights: Tensors) -> PretrainedConfig:
    from transformers import ElectraConfig

    return ElectraConfig(
        **{name: getattr(shape, name) for name in _SAME_CONFIG},
        **{ours: getattr(shape, ours, getattr(shape, theirs, None)) for ours, theirs in _OTHER_CONFIG.items()},
        max_position_embeddings=len(weights[_table("position")]),
        type_vocab_size=len(weights[_table("token_type")]),
        layer_norm_eps=getattr(shape, "layer_norm_eps", 1e-12),
        embedding_size=embedding,
    )


def _embeddings(
    weights: Tensors, width: int, eps: float, calibration: Calibration, stream: Stream | None = None
) -> Tensors:
    """Tables of that width, a plain norm, and the projection to the teacher's normed embeddings, or to a `stream` of
    fewer directions."""
    tables = [centred(weights[_table(kind)]) for kind in _TABLES]  # float64
    hidden = tables[0].shape[1]
    scale, shift = (weights[f"embeddings.LayerNorm.{part}"].double() for part in ("weight", "bias"))
    moment = second_moment(tables)
    if calibration.batches:
        shown = torch.zeros_like(moment)
        for x in _sums(tables, calibration, eps):
            shown += x.T @ x  # of a batch in float32: rows are of unit scale
        moment = shown / shown.trace() + _UNSEEN * moment / moment.trace()
    leading = torch.linalg.eigh(moment).eigenvectors.flip(1)[:, : width - 1]
    way = leading @ off_the_diagonal(width, leading.device).T  # [hidden, width]
    narrow = [table @ way for table in tables]
    project, bias = scale[:, None] * way * (hidden / width) ** 0.5, shift
    if calibration.batches:
        moments, products = scale.new_zeros(width + 1, width + 1), scale.new_zeros(width + 1, hidden)
        for wide, x in zip(_sums(tables, calibration, eps), _sums(narrow, calibration, eps), strict=True):
            x = torch.cat([x, x.new_ones(len(x), 1)], 1)
            moments += x.T @ x
            products += x.T @ (wide * scale.float() + shift.float())
        start = torch.cat([project, bias[:, None]], 1).T  # [width + 1, hidden]
        found = near(start, moments, products, 1e-6)
        project, bias = found[:-1].T, found[-1]
    if stream is not None:
        project, bias = stream.way.T @ project, stream.way.T @ bias
    return {
        **{_table(kind): table for kind, table in zip(_TABLES, narrow, strict=True)},
        "embeddings.LayerNorm.weight": scale.new_ones(width),
        "embeddings.LayerNorm.bias": scale.new_zeros(width),
        "embeddings_project.weight": project,
        "embeddings_project.bias": bias,
    }


def _sums(tables: list[Tensor], calibration: Calibration, eps: float) -> Iterator[Tensor]:
    """[tokens, width] of every batch: word, position and segment of each token that is there, normed."""
    words, positions, segments = (table.float() for table in tables)
    for batch in calibration.batches:
        inputs = batch.to(words.device).inputs
        ids, present = inputs["input_ids"], inputs["attention_mask"].bool()
        types = inputs.get("token_type_ids", torch.zeros_like(ids)).clamp(max=len(segments) - 1)
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        rows = words[ids[present]] + positions[places[present]] + segments[types[present]]
        yield layer_norm(rows, rows.shape[1:], eps=eps)


def near(start: Tensor, moments: Tensor, products: Tensor, pull: float) -> Tensor:
    """[features, outputs]: W of least ‖X W − Y‖² + pull · tr(XᵀX) / features · ‖W − start‖², from XᵀX and XᵀY."""
    ridge = pull * moments.trace() / len(moments) * torch.eye(len(moments), dtype=moments.dtype, device=moments.device)
    return torch.linalg.solve(moments + ridge, products + ridge @ start)


def _narrow_head(weights: Tensors, stream: Stream) -> Tensors:
    """Of a dense layer before the last one, the neurons of the largest weights."""
    head = next((name for name in ("classifier.dense", "classifier", "qa_outputs") if f"{name}.weight" in weights), "")
    if not head:
        return {}
    weight, bias = weights[f"{head}.weight"], weights[f"{head}.bias"]
    found: Tensors = {}
    if head == "classifier.dense":
        out = weights["classifier.out_proj.weight"]
        neurons = (weight.norm(dim=1) * out.norm(dim=0)).topk(stream.way.shape[1]).indices.sort().values
        weight, bias, found = weight[neurons], bias[neurons], {"classifier.out_proj.weight": out[:, neurons]}
    narrow = stream.read(weight, bias)
    return found | {f"{head}.weight": narrow[0], f"{head}.bias": narrow[1]}


def _fitted_head(
    teacher: PreTrainedModel, weights: Tensors, calibration: Calibration, stream: Stream | None = None
) -> Tensors:
    """The last layer of a head for whole texts, such that with a GELU before it it gives the teacher's logits."""
    as_it_is = teacher.config.model_type == "electra" and stream is None
    if _kind(teacher) != "ForSequenceClassification" or as_it_is:
        return {}
    dense, out = ([weights[f"classifier.{name}.{x}"].double() for x in ("weight", "bias")] for name in _HEAD)
    start = torch.cat([out[0], out[1][:, None]], 1).T  # [width + 1, outputs]
    moments, products = start.new_zeros(len(start), len(start)), torch.zeros_like(start)
    for batch in some(calibration.batches, WATCHED_BATCHES):
        shown = teacher(**batch.to(teacher.device).inputs, output_hidden_states=True)
        first = shown.hidden_states[-1][:, 0].double()
        x = gelu((first @ stream.way if stream else first) @ dense[0].T + dense[1])
        x = torch.cat([x, x.new_ones(len(x), 1)], 1)
        moments += x.T @ x
        products += x.T @ shown.logits.double()
    if not calibration.batches:
        return {}
    found = near(start, moments, products, _NEAR)
    return {"classifier.out_proj.weight": found[:-1].T, "classifier.out_proj.bias": found[-1]}
