"""Low-rank factorisation: a matrix W of m × n as L·R of rank r, by the directions of its output that matter most.

    plain        min ‖W − Ŵ‖        the leading left singular vectors U of W
    data-aware   min ‖(W − Ŵ)·X‖    those of W·S, where S·Sᵀ = X·Xᵀ is the second moment of the layer's inputs

In both Ŵ = U_r·U_rᵀ·W, since U_r·Σ_r·V_rᵀ·S⁻¹ = U_r·U_rᵀ·(W·S)·S⁻¹: nothing is inverted, so X may have any rank. U are
the eigenvectors of (W·S)(W·S)ᵀ = W·(X·Xᵀ)·Wᵀ, in float64. Directions that X does not show count a little by `damping`,
which adds its share of the mean second moment to the diagonal; on X the result is still never worse than the plain one.

The error is ‖(W − Ŵ)·X‖² = Σ_{i>r} g_i, where g_i is the gain of direction i; of the plain form g_i = σ_i².
Factors are balanced: column i of L is as long as row i of R, which of the plain form gives U·√Σ and √Σ·Vᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from limbeck.core.errors import KnobError

DAMPING = 0.01  # of the mean of the diagonal: GPTQ, arXiv 2210.17323, section 3.3


@dataclass(frozen=True)
class Decomposition:
    """Directions of a matrix's output, those that matter most first, and what each adds to ‖W·X‖²."""

    basis: Tensor  # [m, k] orthonormal columns, k = min(m, n)
    gains: Tensor  # [k] float64

    def error(self, rank: int) -> float:
        """‖(W − Ŵ)·X‖ / ‖W·X‖."""
        total = self.gains.sum()
        return float((self.gains[rank:].sum() / total).sqrt()) if total > 0 else 0.0

    def factors(self, weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
        """L [m, rank] and R [rank, n] in the type of the weight."""
        left = self.basis[:, :rank].double()
        right = left.T @ weight.double()
        balance = right.norm(dim=1, keepdim=True).sqrt()
        right = right / balance.clamp(min=torch.finfo(balance.dtype).tiny)
        return (left * balance.T).to(weight.dtype), right.to(weight.dtype)

    def table(self, weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
        """Of a transposed table: its rows in `rank` coordinates [n, rank], as long as they were, and the way back."""
        left = self.basis[:, :rank].double()
        return (weight.double().T @ left).to(weight.dtype), left.to(weight.dtype)


def decompose(weight: Tensor, moment: Tensor | None = None, damping: float = DAMPING) -> Decomposition:
    """Of W [m, n], with the second moment of its inputs: [n, n], or [n] where it is diagonal; plain without one.

    A table of word vectors is the transposed weight of a layer whose inputs are single ones: the diagonal is how often
    each word occurs."""
    weight = weight.detach().double()
    rows, columns = weight.shape
    outer: Tensor | None = None
    if rows > columns:  # the eigenvectors lie in the columns' span: a smaller problem, and exact at full rank
        outer, inner = torch.linalg.qr(weight)
    else:
        inner = weight
    gram = _through(inner, moment) @ inner.T
    if moment is not None:
        mean = (moment if moment.dim() == 1 else moment.diagonal()).mean()
        gram = gram + damping * mean * (inner @ inner.T)
    basis = torch.linalg.eigh((gram + gram.T) / 2).eigenvectors.flip(1)
    shown = basis.T @ inner  # [k, n]
    gains = (_through(shown, moment) * shown).sum(1).clamp(min=0)
    return Decomposition(basis if outer is None else outer @ basis, gains)


def _through(weight: Tensor, moment: Tensor | None) -> Tensor:
    """W·X·Xᵀ."""
    if moment is None:
        return weight
    return weight * moment if moment.dim() == 1 else weight @ moment.to(weight.dtype)


def largest_rank(rows: int, columns: int) -> int:
    """The largest rank at which two factors have fewer parameters than the matrix: below mn / (m + n)."""
    return (rows * columns - 1) // (rows + columns)


def rank_within(gains: Tensor, error: float) -> int:
    """The smallest rank, from 1, whose relative error √(Σ_{i>r} g_i / Σ g_i) is at most `error`."""
    tails = gains.flip(0).cumsum(0).flip(0)  # tails[r] = Σ_{i ≥ r}
    return max(1, int((tails > error**2 * gains.sum()).sum()))


def ranks_within(gains: Sequence[Tensor], shapes: Sequence[tuple[int, int]], budget: int) -> list[int]:
    """A rank for each matrix, or 0 where it stays whole, with at most `budget` parameters in all.

    Parameters go where they gain most: direction i of a matrix is worth g_i / Σ g for its m + n parameters. Of every
    matrix at least one direction stays, and one that would need as many parameters as it has stays whole."""
    worth = [
        g / max(float(g.sum()), torch.finfo(g.dtype).tiny) / sum(shape) for g, shape in zip(gains, shapes, strict=True)
    ]
    limits = torch.cat(worth).sort(descending=True).values

    def ranks(limit: float) -> list[int]:
        wanted = [max(1, int((each >= limit).sum())) for each in worth]
        return [r if r <= largest_rank(*shape) else 0 for r, shape in zip(wanted, shapes, strict=True)]

    low, high = 0, len(limits)  # the lowest limit that the budget allows, by bisection: lower ones cost more
    while low < high:
        middle = (low + high) // 2
        if cost(ranks(float(limits[middle])), shapes) <= budget:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        least = cost([1] * len(shapes), shapes)
        raise KnobError(
            f"no ranks leave {budget:,} parameters: with one direction in each layer there are {least:,}",
            "allow more parameters",
        )
    return ranks(float(limits[low - 1]))


def cost(ranks: Sequence[int], shapes: Sequence[tuple[int, int]]) -> int:
    """Parameters, biases apart; a rank of 0 is the whole matrix."""
    return sum(r * (m + n) if r else m * n for r, (m, n) in zip(ranks, shapes, strict=True))
