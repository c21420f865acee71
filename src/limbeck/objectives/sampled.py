"""Sampled targets: the student learns tokens drawn at random from the teacher's distribution, which a cache can store.

    L = −T² · Σ (c_i / N) log q_i,   c_i the count of token i in N draws from p = softmax(t/T), with replacement

On average over the draws this is the cross-entropy with the whole teacher, and so is its gradient: unbiased, while a
cut at the top k is not. The price is noise: the target of one token is coarse, and only many tokens together show the
teacher's distribution. Fifty draws hit about twelve different tokens, so a cache is smaller than one of a top 50.

Try 'truncated' with its tail first; use this one when the cache must be smallest, or when improbable tokens matter. It
is a cross-entropy: its minimum is the teacher's entropy, not 0. A cache repeats its draws in every epoch; a live
teacher draws anew at every step. The temperature belongs to the draws, so a cache serves only the T of its draws.

Example:

    import torch
    import limbeck

    student, teacher = torch.randn(6, 100), torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.SampledTargets(draws=20), student, teacher)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck.core.card import Paper, method
from limbeck.core.errors import MismatchError
from limbeck.core.knob import knob
from limbeck.core.objective import TokenObjective
from limbeck.core.trace import Chunk, Want

if TYPE_CHECKING:
    from torch import Tensor

ANSHUMANN_2025 = Paper(
    "Sparse Logit Sampling: Accelerating Knowledge Distillation in LLMs",
    "Anshumann and Mohd Abbas Zaidi and Akhil Kedia and Jinwoo Ahn and Taehwak Kwon and Kangwook Lee and Haejun Lee "
    "and Joohyung Lee",
    2025,
    "ACL 2025, arXiv:2503.16870",
    "anshumann2025sparse",
    "https://arxiv.org/abs/2503.16870",
)


@method("sampled", ANSHUMANN_2025)
class SampledTargets(TokenObjective):
    """Cross-entropy with tokens drawn from the teacher."""

    wants: ClassVar[Want] = Want.SAMPLED
    name: ClassVar[str] = "sampled"

    draws: int = knob(50, "draws for each token, from a live teacher", at_least=1, source="paper")
    temperature: float = knob(1.0, "softens both distributions; 1 leaves them as they are", above=0, source="paper")

    def each(self, chunk: Chunk) -> Tensor:
        from limbeck.functional.truncated import draw, drawn_cross_entropy

        drawn = chunk.sampled
        if not len(drawn):
            drawn = draw(chunk.teacher_logits(), self.draws, self.temperature)
        return self.temperature**2 * drawn_cross_entropy(drawn, chunk.log_q(self.temperature))

    def fits(self, draws: int, temperature: float) -> None:
        """Refuses a cache of `draws` draws at a temperature that these knobs cannot use. Any number of draws serves."""
        if self.temperature != temperature:
            raise MismatchError(
                f"'sampled' works at temperature {self.temperature:g}, but the {draws} draws of the cache were made at "
                f"{temperature:g}",
                f"set objective.sampled.temperature to {temperature:g}, or make the cache again at "
                f"{self.temperature:g}",
            )
