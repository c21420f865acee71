"""How big a model is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.errors import ModelError
from limbeck.core.progress import no_progress_bars
from limbeck.core.record import Size
from limbeck.engines.ctranslate2 import find_facts

_NOT_NEEDED = (".md", ".html", ".toml", ".pt", ".gitattributes")  # suffixes: cards, reports, what training left

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def size_of(model: PreTrainedModel, folder: Path | str | None = None) -> Size:
    """Parameters, shared ones counted once, and the bytes of the model files in `folder`.

    Without a folder the model is saved to a temporary one, so the bytes are those that save_pretrained writes.
    """
    every, without = count_parameters(model)
    size = weight_bytes(folder) if folder is not None else _saved_bytes(model)
    whole = bytes_in_all(folder) if folder is not None else 0
    return Size(parameters=every, parameters_without_embeddings=without, bytes_on_disk=size, bytes_in_all=whole)


def bytes_in_all(folder: Path | str) -> int:
    """Of every file in a model's folder that is needed to answer: all but what people read and training left."""
    files = (file for file in Path(folder).iterdir() if file.is_file() and not file.name.startswith("."))
    return sum(file.stat().st_size for file in files if file.suffix not in _NOT_NEEDED)


def converted_size(folder: Path | str) -> Size | None:
    """Of a CTranslate2 folder, where our conversion noted how many parameters it holds."""
    counts = find_facts(folder).get("parameters")
    if counts is None:
        return None
    return Size(parameters=counts[0], parameters_without_embeddings=counts[1], bytes_on_disk=weight_bytes(folder))


def weight_bytes(folder: Path | str) -> int:
    """The size of the safetensors files of a model folder, checkpoints inside it left out.

    Of CTranslate2's folders, that of the files it opens: model.bin, its config.json and its vocabularies.
    """
    places = ("model.bin", "config.json", "*vocabulary*") if is_ctranslate2(folder) else ("*.safetensors",)
    files = [file for place in places for file in Path(folder).glob(place)]
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file", "save the model there with save_pretrained")
    return sum(file.stat().st_size for file in files)


def is_ctranslate2(folder: Path | str) -> bool:
    """Whether a model in CTranslate2's own format is kept there; transformers writes no such file name."""
    return (Path(folder) / "model.bin").is_file()


def _saved_bytes(model: PreTrainedModel) -> int:
    with no_progress_bars(), tempfile.TemporaryDirectory(prefix="limbeck-size-") as folder:
        model.save_pretrained(folder)
        return weight_bytes(folder)


def count_parameters(model: PreTrainedModel) -> tuple[int, int]:
    """All of them, and those outside tables of embeddings; what two names share counts once."""
    every = _elements(model.parameters())
    return every, every - _elements(tables_of(model))


def tables_of(model: PreTrainedModel) -> list[Tensor]:
    """What is looked up and not multiplied, unless a head shares it."""
    from torch import nn

    return [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum({tensor.data_ptr() or id(tensor): tensor.numel() for tensor in tensors}.values())
