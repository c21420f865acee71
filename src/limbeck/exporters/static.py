"""A static student for NumPy: its vectors as half floats, or as 8-bit integers with a factor per row.

    static.safetensors  config.json  tokenizer.json  tokenizer_config.json  limbeck.json

float16 stores a vector to three digits. int8 stores round(127 · v / max |v|) of each row, and max |v| / 127 as its
factor; the matrices, a few per cent of the file, stay float32. Before either is written, the same vectors in float32
must give PyTorch's logits to rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.exporters.reference import AGREEMENT, NOISE, Reference, check_rounding, keeps_answers
from limbeck.exporters.targets import NUMPY_TARGETS
from limbeck.students.families import is_family
from limbeck_runtime.folder import CONFIG, VECTORS
from limbeck_runtime.static import SCALE, StaticNetwork

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from transformers import PreTrainedModel

    Array = NDArray[Any]

TOLERANCE = 1e-4  # of logits in float32, beside the largest
HALF_TOLERANCE = 1e-2  # of logits in float16
_TABLE = "pieces"


def is_static(model: PreTrainedModel) -> bool:
    return is_family(model.config.model_type, "static")


def check_static(folder: Path, model: PreTrainedModel, to: str) -> None:
    """NumPy runs static students and no others, and they go nowhere else."""
    if is_static(model) == (to in NUMPY_TARGETS):
        return
    if is_static(model):
        raise ModelError(
            f"{folder} is a static student, which is looked up rather than computed, so it is not exported to {to}",
            "use --to numpy or --to numpy-int8, which need no other engine",
        )
    raise ModelError(
        f"{folder} is a {type(model).__name__}, but NumPy runs students of family 'static' only",
        "use --to onnx-int8, or distill a static student with --recipe static",
    )


def static_files(
    model: PreTrainedModel, to: str, reference: Reference, write_config: Callable[[Path], None], part: Path
) -> dict[str, float]:
    """Writes vectors and config into a folder → how near its answers come, or a refusal."""
    weights = {
        name.removeprefix("reader."): tensor.float().cpu().numpy() for name, tensor in model.state_dict().items()
    }
    table = weights[f"{_TABLE}.weight"]
    write_config(part / CONFIG)
    _save(part, weights)
    check_rounding(reference.compare(StaticNetwork(part)), reference.rows, TOLERANCE)
    if to == "numpy":
        _save(part, weights | {f"{_TABLE}.weight": _half(table)})
        figures = reference.compare(StaticNetwork(part))
        check_rounding(figures, reference.rows, HALF_TOLERANCE)
        return figures
    _save(part, weights | _integers(table))
    figures = reference.compare(StaticNetwork(part))
    if not keeps_answers(figures, 8):
        raise ModelError(
            f"in int8, {figures['agreement']:.1%} of the answers on {reference.rows} texts are the source's and the "
            f"noise in the logits is {figures['noise']:.1%} (wanted: {AGREEMENT[8]:.0%} and at most {NOISE[8]:.0%})",
            "nothing was written; use --to numpy, or train with more data",
        )
    return figures


def _half(table: Array) -> Array:
    if np.abs(table).max(initial=0.0) > np.finfo(np.float16).max:
        raise ModelError("the vectors are too long for float16", "train with a smaller learning rate")
    return table.astype(np.float16)


def _integers(table: Array) -> dict[str, Array]:
    """A table's rows in 8 bits, and the factor of each; rows of zeros have 0."""
    scale = np.abs(table).max(1) / 127
    rows = np.round(table / np.where(scale > 0, scale, 1)[:, None]).astype(np.int8)
    return {f"{_TABLE}.weight": rows, f"{_TABLE}{SCALE}": scale.astype(np.float32)}


def _save(part: Path, tensors: dict[str, Array]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(one) for name, one in tensors.items()}, part / VECTORS)
