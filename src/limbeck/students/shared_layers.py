"""An encoder whose layers share weights in groups, as ALBERT's do, and whose word embeddings may be factorised.

Every layer stays a module of its own, with its own kind of attention and its own place; what it shares with the others
of its group are the parameters. They are tied as transformers ties a head to the embeddings, so that each is counted,
trained and saved once, its gradient is the sum over its uses, and opening the model ties it again.

The config is the architecture's own with two fields more, under a model type of its own: a transformers that does not
know it refuses the folder instead of filling the missing layers with noise.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from limbeck.core.compress import NO_CALIBRATION, Calibration
from limbeck.core.errors import KnobError, ModelError
from limbeck.students.factorised_embeddings import directions
from limbeck.students.inherit import Built, Inheritance, inherit
from limbeck.students.sizes import Sizes, resized

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

PREFIX = "limbeck-shared-"  # of model types
TASKS = {
    "": "MODEL",
    "ForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION",
    "ForTokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION",
    "ForQuestionAnswering": "MODEL_FOR_QUESTION_ANSWERING",
    "ForMaskedLM": "MODEL_FOR_MASKED_LM",
    "ForPreTraining": "MODEL_FOR_PRETRAINING",
}
FAMILIES = (
    *("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "mpnet"),
    *("deberta", "deberta-v2", "modernbert"),
)


def groups_of(layers: int, groups: int) -> list[int]:
    """The group of each layer, as ALBERT's code has it."""
    return [int(layer / (layers / groups)) for layer in range(layers)]


def middles(layers: int, groups: int) -> list[int]:
    """The layer in the middle of each group; of two, the upper."""
    members = [[layer for layer, its in enumerate(groups_of(layers, groups)) if its == g] for g in range(groups)]
    return [group[len(group) // 2] for group in members]


@torch.no_grad()
def share(
    teacher: PreTrainedModel,
    kept: list[int],
    after: Sizes,
    groups: int,
    embedding: int,
    calibration: Calibration = NO_CALIBRATION,
) -> Built:
    """The student of these sizes whose layers start from the middle of their group. 0 groups: none are shared."""
    config = _config(teacher, resized(teacher.config, after, kept), groups, embedding)
    register()
    with torch.device(teacher.device):
        shared = _student_class(type(teacher).__name__, teacher.config.model_type)
        student = shared._from_config(config, dtype=teacher.dtype).eval()
    middle = middles(after.layers, config.num_hidden_groups)
    layers = [kept[middle[group]] for group in groups_of(after.layers, config.num_hidden_groups)]
    result = inherit(student, teacher, layers, calibration=calibration)
    if embedding:
        _factorise(student, teacher, result)
    return student, result


def _config(teacher: PreTrainedModel, config: PretrainedConfig, groups: int, embedding: int) -> PretrainedConfig:
    import transformers

    family, width = config.model_type, teacher.get_input_embeddings().weight.shape[1]
    if family not in FAMILIES or not hasattr(transformers, type(teacher).__name__):
        raise ModelError(
            f"the weights of a {type(teacher).__name__} cannot be shared",
            f"leave groups and embedding at 0, or use one of {', '.join(FAMILIES)}",
        )
    if groups > config.num_hidden_layers or embedding >= width:
        raise KnobError(
            f"{groups} groups and embeddings of {embedding} do not make {config.num_hidden_layers} layers with "
            f"embeddings of {width} smaller",
            f"ask for 1 to {config.num_hidden_layers} groups, and embeddings below {width}",
        )
    if embedding and teacher.get_output_embeddings() is not None:
        raise KnobError(
            "a language model's output projection is its table of word embeddings, which cannot be factorised alone",
            "leave embedding at 0, or set --student.family albert",
        )
    fields = {name: value for name, value in config.to_dict().items() if name != "model_type"}
    return _config_class(family)(
        **fields, num_hidden_groups=groups or config.num_hidden_layers, factorised_embedding=embedding
    )


def _factorise(student: PreTrainedModel, teacher: PreTrainedModel, result: Inheritance) -> None:
    """Word embeddings by truncated SVD."""
    table, words = student.get_input_embeddings(), teacher.get_input_embeddings().weight
    if table.back.out_features != words.shape[1]:
        raise KnobError(
            "a student narrower than its teacher cannot have factorised embeddings too",
            f"leave embedding at 0, or keep the teacher's width of {words.shape[1]}",
        )
    leading = directions([words], table.words.embedding_dim)  # [width, embedding]
    table.words.weight.copy_(words.double() @ leading)
    table.back.weight.copy_(leading)
    made = {name for name, x in student.named_parameters() if any(x is mine for mine in table.parameters())}
    result.sliced += len(made)
    result.fresh = [name for name in result.fresh if name not in made]
    result.dropped = [name for name in result.dropped if teacher.get_parameter(name) is not words]


class Factorised(nn.Module):
    """A table of V × H as V × E times E × H."""

    def __init__(self, rows: int, narrow: int, wide: int, padding: int | None) -> None:
        super().__init__()
        self.words = nn.Embedding(rows, narrow, padding_idx=padding)
        self.back = nn.Linear(narrow, wide, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        states: Tensor = self.back(self.words(ids))
        return states


class _Sharing:
    """Mixed into a model class of transformers."""

    def __init__(self, config: PretrainedConfig, *options: Any, **named: Any) -> None:
        super().__init__(config, *options, **named)  # type: ignore[call-arg]
        model: Any = self
        prefix, layers = _layer_list(model)
        # Saving asks every module for such names: they are left out of the file.
        layers._tied_weights_keys = {name.removeprefix(f"{prefix}."): "" for name in ties(model)}
        if narrow := config.factorised_embedding:
            rows, wide = (table := model.get_input_embeddings()).weight.shape
            model.set_input_embeddings(Factorised(rows, narrow, wide, table.padding_idx))

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        found: dict[str, str] = super().get_expanded_tied_weights_keys(all_submodels)  # type: ignore[misc]
        return found | ties(self)


def ties(model: Any) -> dict[str, str]:
    """Parameter → the parameter it is: in every group, the first of its name."""
    prefix, layers = _layer_list(model)
    first: dict[tuple[int, str], str] = {}
    found: dict[str, str] = {}
    for number, group in enumerate(groups_of(len(layers), model.config.num_hidden_groups)):
        for name, _ in layers[number].named_parameters():
            here = f"{prefix}.{number}.{name}"
            source = first.setdefault((group, name), here)
            if source != here:
                found[here] = source
    return found


def _layer_list(model: Any) -> tuple[str, Any]:
    """The outermost list of as many modules as there are layers, and its name."""
    lists = ((name, part) for name, part in model.named_modules() if isinstance(part, nn.ModuleList))
    return next((name, part) for name, part in lists if len(part) == model.config.num_hidden_layers)


@cache
def _config_class(family: str) -> type[PretrainedConfig]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    inner = CONFIG_MAPPING[family]
    body = {
        "__annotations__": {"num_hidden_groups": int, "factorised_embedding": int},
        "__module__": __name__,
        "model_type": PREFIX + family,
        "num_hidden_groups": 1,
        "factorised_embedding": 0,
    }
    return type(f"Shared{inner.__name__}", (inner,), body)


@cache
def _student_class(name: str, family: str) -> Any:
    """The model class of that name in transformers, with sharing mixed in."""
    import transformers

    body = {"__module__": __name__, "config_class": _config_class(family)}
    return type(f"Shared{name}", (_Sharing, getattr(transformers, name)), body)


@cache
def register() -> None:
    """Makes the Auto classes of transformers know students that share."""
    from transformers.models.auto import modeling_auto as autos
    from transformers.models.auto.configuration_auto import AutoConfig

    for family in FAMILIES:
        AutoConfig.register(PREFIX + family, _config_class(family), exist_ok=True)
    for task, mapping in TASKS.items():
        names, auto = getattr(autos, f"{mapping}_MAPPING_NAMES"), getattr(autos, f"AutoModel{task}")
        for family in FAMILIES:
            if family in names:
                auto.register(_config_class(family), _student_class(names[family], family), exist_ok=True)
