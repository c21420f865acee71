"""Answers with models that `limbeck export` wrote for ONNX Runtime or NumPy; needs neither torch nor transformers.

    import limbeck_runtime

    model = limbeck_runtime.load("small-onnx")
    model.predict(["a lovely film"])  # [{"label": "positive", "probability": 0.98}]

or `python -m limbeck_runtime small-onnx "a lovely film"`. NumPy, tokenizers and onnxruntime are all it imports; of
static models safetensors in the place of the latter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limbeck_runtime.folder import Facts as Facts
from limbeck_runtime.folder import UnusableError as UnusableError
from limbeck_runtime.folder import is_exported as is_exported
from limbeck_runtime.folder import read_facts as read_facts

if TYPE_CHECKING:
    from limbeck_runtime.model import Model as Model
    from limbeck_runtime.model import load as load

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """NumPy is imported when a model is opened: a look at a folder needs none."""
    if name not in ("Model", "load"):
        raise AttributeError(f"module 'limbeck_runtime' has no attribute '{name}'")
    from limbeck_runtime import model

    return getattr(model, name)
