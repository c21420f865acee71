"""What logits say of a text, and how an answer is written down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Answer = dict[str, object]  # what is predicted of a row, by the name of its column
_JOINED = {"labels": "|", "words": " ", "tags": " "}  # what stands between the parts of a cell; other lists are JSON


def log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def log_sigmoid(logits: Array) -> Array:
    return np.asarray(-np.logaddexp(0.0, -logits))


def text_answer(kind: str, labels: Sequence[str], logits: Array, every: bool = False) -> Answer:
    """Of one text, from its logits in float64; with `every`, the probability of each class too."""
    if kind == "regress":
        return {"score": float(logits[0])}
    chances = np.exp(log_softmax(logits) if kind == "classify" else log_sigmoid(logits)).tolist()
    best = int(logits.argmax())
    answer: Answer = {"label": labels[best], "probability": chances[best]}
    if kind == "multilabel":
        some = [number for number, chance in enumerate(chances) if chance > 0.5]
        answer = {"labels": [labels[number] for number in some], "probabilities": [chances[number] for number in some]}
    each = {f"probability_{label}": chance for label, chance in zip(labels, chances, strict=True)}
    return {**answer, **each} if every else answer


def beside(row: dict[str, Any], answer: Answer) -> dict[str, object]:
    """A row with its answer. Where a column has the name of an answer already, that is called predicted_NAME."""
    return row | {f"predicted_{name}" if name in row else name: value for name, value in answer.items()}


def cell(name: str, value: object) -> str:
    """A value as one field of a delimited file."""
    name = name.removeprefix("predicted_")
    if value is None:
        return ""
    if name in _JOINED and isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return value if isinstance(value, str) else _JOINED[name].join(value)
    return as_json(value) if isinstance(value, list | dict | bool) else str(value)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)  # dates, for one
