"""What a model can be exported to, and what is refused before one is opened. Imports nothing heavy."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from limbeck.core.errors import KnobError, LimbeckError

Target = Literal["onnx", "onnx-int8", "onnx-int4", "numpy", "numpy-int8", "ctranslate2"]
TARGETS: tuple[str, ...] = get_args(Target)
NUMPY_TARGETS = ("numpy", "numpy-int8")
_NEEDS: dict[str, tuple[str, ...]] = {"ctranslate2": ("ctranslate2",)} | dict.fromkeys(NUMPY_TARGETS, ())


def check_target(to: str, out: Path) -> None:
    if to not in TARGETS:
        raise KnobError(f"there is no target '{to}'", f"use one of {', '.join(TARGETS)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LimbeckError(f"{out} is there already", "choose another folder with --out, or delete it")
    place = next(each for each in out.absolute().parents if each.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        why = "cannot be written to" if place.is_dir() else "is a file, not a folder"
        raise LimbeckError(f"cannot write {out}: {place} {why}", "choose another folder with --out")
    if missing := [name for name in _NEEDS.get(to, ("onnx", "onnxruntime")) if find_spec(name) is None]:
        extra = "translate" if to == "ctranslate2" else "onnx"
        raise LimbeckError(f"exporting to {to} needs {' and '.join(missing)}", f"pip install 'limbeck[{extra}]'")
