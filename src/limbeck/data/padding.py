"""Rows of different length become tensors, each column padded to its own longest row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.task import TaskInfo

if TYPE_CHECKING:
    from torch import Tensor


class Collator:
    """One padded batch from the rows of a dataset of any kind.

    Where a row has ended the attention mask is 0: the padding token may also be a word."""

    def __init__(
        self, pad_id: int, task: TaskInfo, side: Literal["right", "left"] = "right", pad_type_id: int = 0
    ) -> None:
        self.task = task
        self.side = side
        self._fill = {"input_ids": pad_id, "decoder_input_ids": pad_id, "token_type_ids": pad_type_id}

    @classmethod
    def of(cls, tokenizer: Any, task: TaskInfo) -> Self:
        """With the padding token of a tokenizer; whole texts are padded on its padding side as well."""
        if task.over_vocabulary:
            pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
            return cls(pad or 0, task)
        if tokenizer.pad_token_id is None:
            raise ModelError(
                "the tokenizer has no padding token, so texts of different length cannot share a batch",
                "set tokenizer.pad_token and config.pad_token_id, and save both with the model",
            )
        if task.in_windows:  # labels count positions from the left
            return cls(tokenizer.pad_token_id, task)
        return cls(tokenizer.pad_token_id, task, tokenizer.padding_side, tokenizer.pad_token_type_id)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        import torch

        columns = {name: self._column(name, [row[name] for row in rows]) for name in rows[0]}
        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def _column(self, name: str, values: list[Any]) -> np.ndarray:
        """[batch], [batch, longest], or for the labels of windows [rows of all windows]."""
        dtype = self._dtype(name)
        if np.ndim(values[0]) == 0:
            return np.array(values, dtype=dtype)
        if self.task.in_windows and name in ("labels", "has_label"):
            return np.concatenate(values).astype(dtype, copy=False)
        column = np.full((len(values), max(map(len, values))), self._fill.get(name, 0), dtype=dtype)
        for line, value in zip(column, values, strict=True):
            line[slice(len(value)) if self.side == "right" else slice(len(line) - len(value), None)] = value
        return column

    def _dtype(self, name: str) -> type[np.generic] | type[bool]:
        if name in ("has_label", "predicted"):
            return bool
        return np.float32 if name == "labels" and self.task.kind in ("multilabel", "regress") else np.int64
