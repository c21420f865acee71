"""Word-level distillation: the student learns the teacher's whole distribution over the vocabulary, token by token.

    L = T² · D(P, Q),   P = softmax(t/T) of the teacher, Q = softmax(s/T) of the student
    D = (1 − β) · KL( P ‖ α·P + (1 − α)·Q )  +  β · KL( Q ‖ (1 − α)·P + α·Q )

Two continuous knobs span a family:

    reverse β  skew α
    0          0       forward KL, as in the paper: the student covers every token the teacher finds possible
    1          0       reverse KL: the student keeps the tokens the teacher finds likely, and drops the rest
    0          0.1     skewed KL (DistiLLM): forward, but no token costs more than −log α
    1          0.1     skewed reverse KL (DistiLLM-2, on text that the student generates)
    0.5        0.5     Jensen–Shannon: symmetric, at most log 2

Use forward KL unless the student is too small to cover the teacher; then a little skew steadies the loss, and reverse
KL gives cleaner but less varied text. The loss is 0 when both agree, unlike the cross-entropy some tools call forward
KL.

The teacher runs at every step, with its whole softmax; to run it once and cache its outputs, use 'truncated'. The paper
has no temperature (T = 1) and gives this term and 'language' half the weight each.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(6, 100), torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.WordKD(temperature=2, reverse=0.5), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.knob import knob
from limbeck.core.objective import TokenObjective
from limbeck.core.trace import Chunk, Want

if TYPE_CHECKING:
    from torch import Tensor

KIM_RUSH_2016 = Paper(
    "Sequence-Level Knowledge Distillation",
    "Yoon Kim and Alexander M. Rush",
    2016,
    "EMNLP 2016, arXiv:1606.07947",
    "kim2016sequence",
    "https://arxiv.org/abs/1606.07947",
)


@method("word-kd", KIM_RUSH_2016)
class WordKD(TokenObjective):
    """A divergence over the whole vocabulary, token by token."""

    wants: ClassVar[Want] = Want.LOGITS
    name: ClassVar[str] = "word"

    temperature: float = knob(1.0, "softens both distributions; 1 leaves them as they are", above=0, source="paper")
    reverse: float = knob(0.0, "0 is forward KL, 1 is reverse KL", at_least=0, at_most=1, source="paper")
    skew: float = knob(
        0.0, "share of its own that each side of the KL gets mixed in", at_least=0, below=1, source="paper"
    )

    def each(self, chunk: Chunk) -> Tensor:
        from limbeck.functional.divergence import kl_family

        log_p, log_q = chunk.log_p(self.temperature), chunk.log_q(self.temperature)
        return self.temperature**2 * kl_family(log_p, log_q, self.reverse, self.skew)
