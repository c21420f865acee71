"""How big a model is."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from limbeck.core.checksum import FILES
from limbeck.core.errors import ModelError
from limbeck.core.progress import no_progress_bars
from limbeck.core.record import Size
from limbeck.engines.ctranslate2 import FACTS, find_facts
from limbeck_runtime import is_exported
from limbeck_runtime.folder import GRAPH, VECTORS

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_CONVERTED = ("model.bin", "config.json", "*vocabulary*")  # what CTranslate2 opens
_SETTINGS = (
    *("config.json", "generation_config.json", "*token*_config.json", "special_tokens_map.json"),
    "preprocessor_config.json",
)
_VOCABULARIES = ("vocab.*", "merges.txt", "*.model", "*.spm", "added_tokens.json")


def size_of(model: PreTrainedModel, folder: Path | str | None = None) -> Size:
    """Parameters, shared ones counted once, and the bytes of the model files in `folder`.

    Without a folder the model is saved to a temporary one, so the bytes are those that save_pretrained writes.
    """
    every, without = count_parameters(model)
    size = weight_bytes(folder) if folder is not None else _saved_bytes(model)
    whole = bytes_in_all(folder) if folder is not None else 0
    return Size(parameters=every, parameters_without_embeddings=without, bytes_on_disk=size, bytes_in_all=whole)


def converted_size(folder: Path | str) -> Size | None:
    """Of a folder for another engine, where our exporter noted how many parameters it holds."""
    counts = find_facts(folder).get("parameters")
    if not counts:
        return None
    files = {"bytes_on_disk": weight_bytes(folder), "bytes_in_all": bytes_in_all(folder)}
    return Size(parameters=counts[0], parameters_without_embeddings=counts[1], **files)


def bytes_in_all(folder: Path | str) -> int:
    """Of every file needed to answer: of an export all that it lists; else weights, settings and the tokenizer.

    A tokenizer.json holds the vocabulary too, so what older tokenizers read lies beside it without being needed."""
    folder, facts = Path(folder), find_facts(folder)
    if FILES in facts:
        return sum((folder / name).stat().st_size for name in (FACTS, *facts[FILES]) if (folder / name).is_file())
    whole = (folder / "tokenizer.json").is_file()
    places = (*_WEIGHTS, *_SETTINGS, "tokenizer.json", *(() if whole else _VOCABULARIES))
    if is_ctranslate2(folder):
        places = (*_CONVERTED, *places)
    return sum(file.stat().st_size for file in {file for place in places for file in folder.glob(place)})


def weight_bytes(folder: Path | str) -> int:
    """The size of the safetensors files of a model folder, checkpoints inside it left out.

    Of CTranslate2's folders, that of the files it opens: model.bin, its config.json and its vocabularies. Of exported
    folders, that of the graph or the vectors.
    """
    places = _CONVERTED if is_ctranslate2(folder) else (GRAPH, VECTORS) if is_exported(folder) else ("*.safetensors",)
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
    from limbeck.core.layers import QuantizedEmbedding, QuantizedLinear, shape_of

    # Integers are no parameters to PyTorch; a layer without codes shares another's.
    coded = [one for one in model.modules() if isinstance(one, QuantizedEmbedding | QuantizedLinear) and not one.holder]
    tables = [one for one in coded if isinstance(one, QuantizedEmbedding)]
    every = _elements(model.parameters()) + sum(math.prod(shape_of(one)) for one in coded)
    return every, every - _elements(tables_of(model)) - sum(math.prod(shape_of(one)) for one in tables)


def tables_of(model: PreTrainedModel) -> list[Tensor]:
    """What is looked up and not multiplied, unless a head shares it."""
    from torch import nn

    return [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum({tensor.data_ptr() or id(tensor): tensor.numel() for tensor in tensors}.values())
