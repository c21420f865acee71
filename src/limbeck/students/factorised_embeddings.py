"""Embedding tables in fewer coordinates: the directions that matter most to the sum a model reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def directions(tables: Sequence[Tensor], count: int) -> Tensor:
    """[width, count] orthonormal: of all subspaces, the one that keeps most of E‖x‖².

    x is one row of each table, drawn independently and added up: a word, its position, its segment. Of a single table
    these are the right singular vectors, so rows @ found @ found.T is its truncated SVD."""
    return torch.linalg.eigh(second_moment(tables)).eigenvectors.flip(1)[:, :count]


def second_moment(tables: Sequence[Tensor]) -> Tensor:
    """[width, width] float64: E x·xᵀ."""
    means = [table.double().mean(0) for table in tables]
    spreads = [table.double() - mean for table, mean in zip(tables, means, strict=True)]
    mean = torch.stack(means).sum(0)
    within = torch.stack([spread.T @ spread / len(spread) for spread in spreads]).sum(0)
    return within + torch.outer(mean, mean)


def centred(table: Tensor) -> Tensor:
    """Each row without its mean: what a layer norm sees of it."""
    return table.double() - table.double().mean(1, keepdim=True)


def off_the_diagonal(width: int, device: torch.device) -> Tensor:
    """[width, width − 1] orthonormal columns, each with mean 0: coordinates that a layer norm's centring spares."""
    start = torch.eye(width, dtype=torch.float64, device=device)
    start[:, 0] = 1.0
    return torch.linalg.qr(start).Q[:, 1:]
