"""Datasets and collators, as the trainer and the teachers' caches see them: of texts, windows, blocks or sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from limbeck.core.task import TaskInfo

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Dataset(Protocol):
    """Map-style, as torch has it."""

    lengths: list[int]  # in tokens

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> dict[str, Any]: ...


class Split(Dataset, Protocol):
    """A dataset whose rows have uids and labels."""

    truncated: int  # texts that were cut

    @property
    def uids(self) -> np.ndarray: ...

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def has_label(self) -> np.ndarray: ...

    def take(self, indices: Sequence[int] | np.ndarray) -> Self: ...


class Collate(Protocol):
    """Rows become one padded batch of tensors."""

    task: TaskInfo

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]: ...
