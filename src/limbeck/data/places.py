"""Windows of texts as the examples of a task about places: words to be tagged, or answers to be found.

A text that is longer than a model reads becomes several windows. Each is an example with a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.errors import DataError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Batch
from limbeck.data.encode import to_batch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Window:
    item: int  # the sentence or question it is of
    uid: int
    inputs: Mapping[str, np.ndarray]  # input_ids, and token_type_ids if the model has them: [length]
    predicted: np.ndarray  # [length] bool
    labels: np.ndarray  # [rows] int64: the tag of each asked word; start and end of the answer
    has_label: np.ndarray  # [rows] bool
    where: np.ndarray  # [rows] the word of each asked place; [length, 2] the characters each token stands for


class PlaceRows:
    """A map-style dataset: one row per window."""

    def __init__(self, windows: Sequence[Window], names: np.ndarray, truncated: int = 0) -> None:
        self.windows = windows
        self.names = names  # [sentences or questions] int64, unique in the corpus; one may have no window
        self.truncated = truncated  # questions that were cut
        self.lengths = [len(window.predicted) for window in windows]

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def uids(self) -> np.ndarray:
        return np.array([window.uid for window in self.windows], dtype=np.int64)

    @property
    def labels(self) -> np.ndarray:
        """[rows] of all windows."""
        return np.concatenate([np.empty(0, dtype=np.int64), *(window.labels for window in self.windows)])

    @property
    def has_label(self) -> np.ndarray:
        return np.concatenate([np.empty(0, dtype=bool), *(window.has_label for window in self.windows)])

    def take(self, indices: Sequence[int] | np.ndarray) -> PlaceRows:
        return PlaceRows([self.windows[index] for index in indices], self.names)

    def __getitem__(self, index: int) -> dict[str, Any]:
        window = self.windows[index]
        return {
            **window.inputs,
            "attention_mask": np.ones(len(window.predicted), dtype=np.int64),
            "predicted": window.predicted,
            "uids": window.uid,
            "labels": window.labels,
            "has_label": window.has_label,
        }


class PlaceCollator:
    """Windows become one batch, padded on the right; their rows are laid end to end."""

    def __init__(self, tokenizer: Any, task: TaskInfo) -> None:
        if tokenizer.pad_token_id is None:
            raise ModelError(
                "the tokenizer has no padding token, so texts of different length cannot share a batch",
                "set tokenizer.pad_token and config.pad_token_id, and save both with the model",
            )
        self.pad_id = tokenizer.pad_token_id
        self.task = task

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        import torch

        width = max(len(row["input_ids"]) for row in rows)
        columns: dict[str, np.ndarray] = {}
        for name in rows[0]:
            if name == "uids":
                columns[name] = np.array([row[name] for row in rows], dtype=np.int64)
            elif name in ("labels", "has_label"):
                columns[name] = np.concatenate([row[name] for row in rows])
            else:
                filler = self.pad_id if name == "input_ids" else 0
                column = np.full((len(rows), width), filler, dtype=bool if name == "predicted" else np.int64)
                for line, row in zip(column, rows, strict=True):
                    line[: len(row[name])] = row[name]
                columns[name] = column
        return {name: torch.from_numpy(column) for name, column in columns.items()}


def place_batches(rows: PlaceRows, collator: PlaceCollator, size: int) -> Iterator[tuple[list[Window], Batch]]:
    """Every window once, longest first, beside the batch it is in."""
    order = sorted(range(len(rows)), key=lambda index: -rows.lengths[index])
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        batch = to_batch(collator([rows[index] for index in chosen]), collator.task)
        yield [rows.windows[index] for index in chosen], batch


def hashed(purpose: str, parts: Sequence[str], where: str) -> int:
    """63 bits that depend on these texts alone; their lengths keep ("ab", "c") apart from ("a", "bc")."""
    content = "\0".join([*(str(len(part)) for part in parts), *parts])
    try:
        found = blake2b(content.encode(), digest_size=8, person=purpose.encode())
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: the text holds half a character ({error.object[error.start]!r})",
            "mend that row: a \\u escape of a pair was cut in two",
        ) from None
    return int.from_bytes(found.digest(), "big") >> 1


def check_fast(tokenizer: Any) -> None:
    if not tokenizer.is_fast:
        raise ModelError(
            f"{type(tokenizer).__name__} does not say which letters a token stands for, so no place can be found",
            "use a fast tokenizer: open it with AutoTokenizer and save it again, which writes tokenizer.json",
        )


def reads(found: Any, index: int) -> dict[str, np.ndarray]:
    """What a model reads of window `index` of a tokenizer's answer."""
    names = [name for name in ("input_ids", "token_type_ids") if name in found]
    return {name: np.array(found[name][index], dtype=np.int32) for name in names}


def windows_of(owners: np.ndarray, text: int) -> list[int]:
    """The windows of one text, by a tokenizer's list of whose each is: they stand side by side."""
    return list(range(np.searchsorted(owners, text), np.searchsorted(owners, text, side="right")))
