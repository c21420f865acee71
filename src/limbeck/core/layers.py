"""Layers that passes make and loaders rebuild: two thin factors, or small integers, in place of a matrix.

Each says with `describe` what it is, as plain data, and is made again from that. `weight` is the matrix it stands for,
computed when it is read. Quantised layers that share a matrix, such as a head that is its model's word table, hold it
once: the first has the codes, the others are `tied_to` it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from limbeck.core.errors import ModelError
from limbeck.core.integers import dequantise, unpack

Description = dict[str, dict[str, Any]]  # module name → what its layer is made from; all of it JSON


class LowRankLinear(nn.Module):
    """y = L·(R·x) + b: the bias belongs to the second factor."""

    def __init__(self, in_features: int, out_features: int, rank: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features, self.rank = in_features, out_features, rank
        self.first = nn.Linear(in_features, rank, bias=False)
        self.second = nn.Linear(rank, out_features, bias=bias)

    @property
    def weight(self) -> Tensor:
        return self.second.weight @ self.first.weight

    @property
    def bias(self) -> Tensor | None:
        return self.second.bias

    def describe(self) -> dict[str, Any]:
        return _read(self, "in_features", "out_features", "rank") | {"bias": self.bias is not None}

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.second(self.first(x))
        return found


class LowRankEmbedding(nn.Module):
    """A table of V × H as V × r times r × H. `embed_scale` is what some translators multiply vectors by."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int,
        padding_idx: int | None = None,
        embed_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.rank = num_embeddings, embedding_dim, rank
        self.padding_idx, self.embed_scale = padding_idx, embed_scale
        self.words = nn.Embedding(num_embeddings, rank, padding_idx=padding_idx)
        self.back = nn.Linear(rank, embedding_dim, bias=False)

    @property
    def weight(self) -> Tensor:
        return self.words.weight @ self.back.weight.T

    def describe(self) -> dict[str, Any]:
        return _read(self, "num_embeddings", "embedding_dim", "rank", "padding_idx", "embed_scale")

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.back(self.words(ids)) * self.embed_scale
        return found


class _Quantized(nn.Module):
    """[rows, width] integers of `bits` bits, and a scale per row, or per `group` of a row's weights.

    Norms, biases and what a layer multiplies with stay float: the weights become float again whenever they are used."""

    codes: Tensor  # [rows, width] int8, or [rows, ⌈width / 2⌉] uint8
    scales: Tensor  # [rows, groups]
    zeros: Tensor | None  # [rows, groups] int8

    def __init__(self, rows: int, width: int, bits: int, group: int, affine: bool, owner: _Quantized | None) -> None:
        super().__init__()
        self.bits, self.group, self.affine, self.width = bits, group, affine, width
        self.holder = (owner,) if owner is not None else ()  # in a tuple, so that it is no part of this module
        if owner is None:
            groups = -(-width // group) if group else 1
            packed = bits == 4
            self.register_buffer(
                "codes",
                torch.zeros(rows, -(-width // 2) if packed else width, dtype=torch.uint8 if packed else torch.int8),
            )
            self.register_buffer("scales", torch.ones(rows, groups))
            self.register_buffer("zeros", torch.zeros(rows, groups, dtype=torch.int8) if affine else None)

    @property
    def table(self) -> _Quantized:
        """What holds the codes."""
        return self.holder[0] if self.holder else self

    @property
    def weight(self) -> Tensor:
        return self._numbers(self.table.codes, self.table.scales, self.table.zeros)

    def _numbers(self, codes: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
        return dequantise(unpack(codes, self.width) if self.bits == 4 else codes, scales, zeros, self.group)


class QuantizedLinear(_Quantized):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        bits: int = 8,
        group: int = 0,
        affine: bool = False,
        owner: _Quantized | None = None,
    ) -> None:
        super().__init__(out_features, in_features, bits, group, affine, owner)
        self.in_features, self.out_features = in_features, out_features
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def describe(self) -> dict[str, Any]:
        shape = _read(self, "in_features", "out_features") | {"bias": self.bias is not None}
        return shape | _read(self, "bits", "group", "affine")

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class QuantizedEmbedding(_Quantized):
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        embed_scale: float = 1.0,
        bits: int = 8,
        group: int = 0,
        affine: bool = False,
        owner: _Quantized | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, bits, group, affine, owner)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.embed_scale = padding_idx, embed_scale

    def describe(self) -> dict[str, Any]:
        shape = _read(self, "num_embeddings", "embedding_dim", "padding_idx", "embed_scale")
        return shape | _read(self, "bits", "group", "affine")

    def forward(self, ids: Tensor) -> Tensor:
        """Only the rows that are looked up become float."""
        table = self.table
        zeros = None if table.zeros is None else table.zeros[ids]
        return self._numbers(table.codes[ids], table.scales[ids], zeros) * self.embed_scale


def _read(module: nn.Module, *names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names}


Compressed = LowRankLinear | LowRankEmbedding | QuantizedLinear | QuantizedEmbedding
_TYPES: dict[str, Callable[..., Compressed]] = {
    cls.__name__: cls for cls in (LowRankLinear, LowRankEmbedding, QuantizedLinear, QuantizedEmbedding)
}
_OTHER = "description and model are of different models: copy or download both again"
C = TypeVar("C", bound=nn.Module)
P = TypeVar("P", bound=nn.Module)


def is_linear(module: nn.Module) -> bool:
    """Whether it does nothing but multiply by a matrix and add: also GPT-2's Conv1D, whose matrix is transposed."""
    return type(module) is nn.Linear or _is_transposed(module)


def is_table(module: nn.Module) -> bool:
    """Whether it does nothing but look up rows, and multiply them by `embed_scale` where it has one."""
    plain = type(module) is nn.Embedding or (isinstance(module, nn.Embedding) and hasattr(module, "embed_scale"))
    return plain and module.max_norm is None


def _is_transposed(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D" and type(module).__module__ == "transformers.pytorch_utils"


def matrix(module: nn.Module) -> Tensor:
    """[out, in] of a linear layer, [rows, width] of a table."""
    weight: Any = module.weight
    found: Tensor = weight.T if _is_transposed(module) else weight
    return found


def embed_scale(table: nn.Module) -> float:
    return float(getattr(table, "embed_scale", 1.0))


def stored(model: nn.Module) -> list[Tensor]:
    """Parameters, and codes, scales and zero points of quantised layers: what a file of weights holds."""
    quantized = [module for module in model.modules() if isinstance(module, _Quantized)]
    return [*model.parameters(), *(tensor for module in quantized for tensor in module.buffers(recurse=False))]


def layers_of(model: nn.Module) -> Description:
    """What `rebuild` needs: every layer of this file by its name in the model; {} of an ordinary model."""
    names = {id(module): name for name, module in model.named_modules()}
    found: Description = {}
    for name, module in model.named_modules():
        if isinstance(module, Compressed):
            found[name] = {"type": type(module).__name__, **module.describe()}
            if isinstance(module, _Quantized) and module.holder:
                found[name]["tied_to"] = names[id(module.table)]
    return found


def rebuild(model: nn.Module, description: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts empty layers of that description where the model has ordinary ones, so that their weights can be loaded.

    What is there already stays. A name or shape that the model does not have is refused, as is a compressed layer of
    the model's that the description lacks."""
    present = layers_of(model)
    if surplus := sorted(present.keys() - description.keys()):
        raise ModelError(f"the model's layer {surplus[0]} is compressed, but is not in the description", _OTHER)
    # Outer ones first, since a factor of a low-rank layer may be quantised; those that are tied last.
    for name, entry in sorted(description.items(), key=lambda one: ("tied_to" in one[1], one[0].count("."))):
        if present.get(name) != entry:
            replace(model, name, _made(model, name, dict(entry)))


def _made(model: nn.Module, name: str, entry: dict[str, Any]) -> Compressed:
    try:
        before, cls = model.get_submodule(name), _TYPES[entry.pop("type")]
        owner = entry.pop("tied_to", None)
        if owner is not None:
            entry["owner"] = model.get_submodule(owner)
        made = empty(cls, matrix(before), **entry)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"the layer {name} of this {type(model).__name__} cannot be made as it is described: {error}", _OTHER
        ) from None
    fits = is_table(before) if isinstance(made, LowRankEmbedding | QuantizedEmbedding) else is_linear(before)
    if not fits or shape_of(made) != tuple(matrix(before).shape):
        raise ModelError(
            f"the layer {name} is described as a {type(made).__name__} of {shape_of(made)}, but the model's is a "
            f"{type(before).__name__} of {tuple(matrix(before).shape)}",
            _OTHER,
        )
    return made.train(before.training)


def empty(cls: Callable[..., C], like: Tensor, **how: Any) -> C:
    """A layer with room for its weights, on the device and of the type of `like`. No random number is drawn."""
    with torch.device("meta"):
        made = cls(**how)
    return made.to(like.dtype).to_empty(device=like.device)


def shape_of(layer: Compressed) -> tuple[int, int]:
    """Of the matrix it stands for."""
    if isinstance(layer, LowRankEmbedding | QuantizedEmbedding):
        return layer.num_embeddings, layer.embedding_dim
    return layer.out_features, layer.in_features


def replace(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


def dense(model: P) -> P:
    """An ordinary copy, in which each such layer is the matrix it stands for: for exporters, and for speed."""
    if not (layers := layers_of(model)):
        return copy.deepcopy(model)
    source: Any = model
    cls: Any = getattr(type(model), "ordinary", type(model))  # core/compressed.py
    config = copy.deepcopy(source.config)
    if ordinary := getattr(type(config), "ordinary", None):
        config.__class__ = ordinary
        del config.compressed_layers
    with torch.random.fork_rng(devices=[]):
        found = cls._from_config(config, dtype=source.dtype)
    outer = [name for name in layers if not any(name.startswith(f"{other}.") for other in layers)]
    weights = {
        name: value
        for name, value in source.state_dict().items()
        if not any(name.startswith(f"{layer}.") for layer in outer)
    }
    for name in outer:
        layer, there = model.get_submodule(name), found.get_submodule(name)
        weights[f"{name}.weight"] = layer.weight.T if _is_transposed(there) else layer.weight
        if getattr(layer, "bias", None) is not None:
            weights[f"{name}.bias"] = layer.bias
    found.load_state_dict(weights)
    if hasattr(source, "generation_config"):
        found.generation_config = copy.deepcopy(source.generation_config)
    copied: P = found.to(source.device).train(model.training)
    return copied
