"""Models with layers of core/layers.py as models of their own: how they are saved, and opened again.

The config is the architecture's own with one field more, which describes those layers, under a model type of its own:
a transformers that does not know it refuses the folder instead of filling the missing weights with noise.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from limbeck.core.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

    from limbeck.core.layers import Description

PREFIX = "limbeck-compressed-"  # of model types
NAME = "Compressed"  # what the names of their classes begin with


class _Compressed:
    """Mixed into a model class."""

    def __init__(self, config: Any, *options: Any, **named: Any) -> None:
        from limbeck.core.layers import rebuild

        super().__init__(config, *options, **named)  # type: ignore[call-arg]
        rebuild(self, _fitting(self, config))  # type: ignore[arg-type]
        _keep_ties(self)

    def save_pretrained(self, *where: Any, **how: Any) -> None:
        declare_layers(self)  # type: ignore[arg-type]
        super().save_pretrained(*where, **how)  # type: ignore[misc]

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Only what is still there: a tied layer that is quantised holds no weight to tie."""
        if "compressed_ties" in vars(self):
            return dict(vars(self)["compressed_ties"])
        found: dict[str, str] = super().get_expanded_tied_weights_keys(all_submodels)  # type: ignore[misc]
        return found


def declare_layers(model: nn.Module) -> None:
    """Makes a model that has such layers say so in its config, by a class of its own; others stay as they are.

    It is the same object before and after, and computes the same."""
    from transformers import PreTrainedModel
    from transformers.utils.output_capturing import _CAN_RECORD_REGISTRY

    from limbeck.core.layers import layers_of

    layers, ordinary = layers_of(model), cast(Any, type(model))
    if not layers or not isinstance(model, PreTrainedModel):
        return
    if not isinstance(model, _Compressed):
        cls = model_class(ordinary)
        _CAN_RECORD_REGISTRY[str(cls)] = model._can_record_outputs  # transformers looks hidden states up by class
        model.__class__, model.config.__class__ = cls, cls.config_class
    model.config.compressed_layers = layers
    _keep_ties(model)


def check_declarable(model: nn.Module) -> None:
    """Refuses a model whose folder could not be opened again, before a pass changes it."""
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel) or isinstance(model, _Compressed):
        return
    if type(model).__module__.partition(".")[0] not in ("transformers", "limbeck"):
        raise ModelError(
            f"{type(model).__name__} is neither an architecture of transformers nor of Limbeck: its layers can be "
            "made smaller, but could not be opened again",
            "use a model of an architecture that transformers knows",
        )


def _keep_ties(model: Any) -> None:
    present = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    ties = {to: of for to, of in model.all_tied_weights_keys.items() if {to, of} <= present}
    model.all_tied_weights_keys, model.compressed_ties = ties, dict(ties)


def _fitting(model: Any, config: Any) -> Description:
    """The description as it concerns this class: an architecture may be opened with another head, or with none.

    Layers of a head that this class lacks, or has for other labels, stay ordinary: their weights are then missing,
    which whoever opens the model refuses, or asked for."""
    layers: Description = config.compressed_layers or {}
    prefix, modules = f"{model.base_model_prefix}.", dict(model.named_modules())
    if inside := {name: entry for name, entry in layers.items() if name.startswith(prefix)}:
        if model.base_model is model:
            return {name.removeprefix(prefix): _moved(entry, prefix, "") for name, entry in inside.items()}
        head = {name: entry for name, entry in layers.items() if name not in inside}
        fits = [
            name for name, entry in head.items() if name in modules and _shape(entry) == _shape(vars(modules[name]))
        ]
        return inside | {
            name: entry for name, entry in head.items() if any(f"{name}.".startswith(f"{one}.") for one in fits)
        }
    if model.base_model is not model and not layers.keys() & modules.keys():
        return {prefix + name: _moved(entry, "", prefix) for name, entry in layers.items()}
    return layers


def _moved(entry: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    return entry | {key: after + entry[key].removeprefix(before) for key in ("tied_to",) if key in entry}


def _shape(of: Any) -> list[int | None]:
    return [of.get(name) for name in ("in_features", "out_features", "num_embeddings", "embedding_dim")]


@cache
def config_class(ordinary: Any) -> Any:
    body = {
        "__annotations__": {"compressed_layers": dict | None},
        "__module__": __name__,
        "model_type": PREFIX + ordinary.model_type,
        "compressed_layers": None,
        "ordinary": ordinary,
    }
    return type(NAME + ordinary.__name__, (ordinary,), body)


@cache
def model_class(ordinary: Any) -> Any:
    """The model class with compressed layers mixed in."""
    body = {"__module__": __name__, "config_class": config_class(ordinary.config_class), "ordinary": ordinary}
    return type(NAME + ordinary.__name__, (_Compressed, ordinary), body)


@cache
def register(model_type: str) -> None:
    """Makes the Auto classes of transformers know a model type that begins with PREFIX."""
    from transformers.models.auto import modeling_auto as autos
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

    try:
        ordinary = CONFIG_MAPPING[model_type.removeprefix(PREFIX)]
    except KeyError:
        return  # whoever opens it says that this transformers does not know it
    AutoConfig.register(model_type, config_class(ordinary), exist_ok=True)
    for auto in (found for name, found in vars(autos).items() if name.startswith("AutoModel")):
        found: Any = auto._model_mapping.get(ordinary, None)
        if isinstance(found, type):
            auto.register(config_class(ordinary), model_class(found), exist_ok=True)
