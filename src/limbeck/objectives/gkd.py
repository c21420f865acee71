"""Generalised Jensen–Shannon: one knob from forward KL to reverse KL.

    L = T² · JSD_β(P, Q) / (β(1 − β)),   M = β·P + (1 − β)·Q
    JSD_β(P, Q) = β · KL( P ‖ M ) + (1 − β) · KL( Q ‖ M )

P is the teacher, Q the student. β = 0 is forward KL, β = 1 reverse KL, β = 0.5 four times Jensen–Shannon. The paper's
JSD_β has no divisor and vanishes at both ends, so that β = 0.001 is a thousand times weaker than the forward KL that
its code uses at β = 0. The divisor keeps the size, so β can change without a new weight. For the paper's value, give
the term the weight β(1 − β).

This is the divergence of GKD on fixed text. Here T softens the loss; the paper uses it only when the student generates.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(6, 100), torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.GeneralisedJSD(beta=0.1), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.knob import knob
from limbeck.core.objective import TokenObjective
from limbeck.core.trace import Chunk, Want

if TYPE_CHECKING:
    from torch import Tensor

AGARWAL_2024 = Paper(
    "On-Policy Distillation of Language Models: Learning from Self-Generated Mistakes",
    "Rishabh Agarwal and Nino Vieillard and Yongchao Zhou and Piotr Stanczyk and Sabela Ramos and Matthieu Geist "
    "and Olivier Bachem",
    2024,
    "ICLR 2024, arXiv:2306.13649",
    "agarwal2024onpolicy",
    "https://arxiv.org/abs/2306.13649",
)


@method("gkd", AGARWAL_2024)
class GeneralisedJSD(TokenObjective):
    """A divergence between forward and reverse KL, token by token."""

    wants: ClassVar[Want] = Want.LOGITS
    name: ClassVar[str] = "jsd"

    beta: float = knob(0.5, "0 is forward KL, 1 is reverse KL", at_least=0, at_most=1, source="TRL's default")
    temperature: float = knob(1.0, "softens both distributions; 1 leaves them as they are", above=0, source="paper")

    def each(self, chunk: Chunk) -> Tensor:
        from limbeck.functional.divergence import scaled_jsd

        log_p, log_q = chunk.log_p(self.temperature), chunk.log_q(self.temperature)
        return self.temperature**2 * scaled_jsd(log_p, log_q, self.beta)
