"""What is kept of a teacher's distribution over a vocabulary: its top, or ids drawn from it.

Both speak of a flat list of tokens: the asked positions of a batch, row by row. The full log-sum-exp is kept beside the
top, so that the mass of the rest is known and logits can be had back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def _nothing() -> Tensor:
    import torch

    return torch.empty(0)


@dataclass(frozen=True)
class Top:
    """The k most probable ids of each token, most probable first; equals by the lower id."""

    ids: Tensor = field(default_factory=_nothing)  # [tokens, k] int64
    log_p: Tensor = field(default_factory=_nothing)  # [tokens, k] log-probabilities under the whole softmax, at T = 1
    log_sum: Tensor = field(default_factory=_nothing)  # [tokens] log Σ exp(logits) over the whole vocabulary
    # [tokens] log Σ p^(1/T) over the whole vocabulary, for the T below: log p_T(i) = log_p(i) / T − softened
    softened: Tensor = field(default_factory=_nothing)
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, tokens: slice) -> Top:
        return Top(self.ids[tokens], self.log_p[tokens], self.log_sum[tokens], self.softened[tokens], self.temperature)

    def first(self, k: int) -> Top:
        return Top(self.ids[:, :k], self.log_p[:, :k], self.log_sum, self.softened, self.temperature)


@dataclass(frozen=True)
class Sampled:
    """Ids drawn from softmax(logits / T) with replacement. The weights count / draws are an unbiased target."""

    ids: Tensor = field(default_factory=_nothing)  # [tokens, most] int64, distinct; unused places 0
    weights: Tensor = field(default_factory=_nothing)  # [tokens, most] sum to 1; unused places 0
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, tokens: slice) -> Sampled:
        return Sampled(self.ids[tokens], self.weights[tokens], self.temperature)
