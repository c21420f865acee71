"""Short names for a model and a tokenizer that change exactly when their answers may."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from limbeck.core.image_processor import ImageProcessor

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Settings that say where a model came from or what its outputs are called, not what it computes.
_NO_MATTER = {
    "_name_or_path",
    "architectures",
    "auto_map",
    "dtype",
    "finetuning_task",
    "id2label",
    "label2id",
    "problem_type",
    "torch_dtype",
    "transformers_version",
}


def fingerprint(model: PreTrainedModel) -> str:
    """16 hex digits of the model's settings and of every weight, bit for bit."""
    import torch

    config = {key: value for key, value in model.config.to_dict().items() if key not in _NO_MATTER}
    digest = blake2b(_canonical(config), digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # numpy knows no bfloat16, so tensors are hashed as bytes; reshape, because a scalar has no byte view
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase | ImageProcessor) -> str:
    """16 hex digits of the vocabulary, the special tokens and the rules of splitting; padding state does not count."""
    if isinstance(tokenizer, ImageProcessor):
        return blake2b(_canonical(tokenizer.to_dict()), digest_size=8).hexdigest()
    parts: dict[str, Any] = {
        "vocabulary": sorted(tokenizer.get_vocab().items()),
        "special": {key: str(value) for key, value in tokenizer.special_tokens_map.items()},
    }
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        parts["class"] = type(tokenizer).__name__
    else:
        rules = json.loads(backend.to_str())
        parts["rules"] = {key: rules[key] for key in rules.keys() - {"padding", "truncation", "version"}}
    return blake2b(_canonical(parts), digest_size=8).hexdigest()


def tokenizers_equal(a: PreTrainedTokenizerBase, b: PreTrainedTokenizerBase) -> bool:
    """Whether both turn every text into the same ids."""
    return a is b or tokenizer_fingerprint(a) == tokenizer_fingerprint(b)


def digest(parts: Sequence[str | np.ndarray]) -> str:
    """16 hex digits of texts and arrays, one after another."""
    found = blake2b(digest_size=8)
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part.tobytes())
    return found.hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()
