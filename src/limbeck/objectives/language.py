"""Language: the student learns the words themselves, as in plain pre-training.

    L = −(1 − ε) · log q(word) − ε · mean over the vocabulary of log q(k)

Smoothing ε is 0 unless it is asked for: a smoothed teacher has a flatter distribution to pass on. The mean is over the
words asked for: in mask-fill those chosen for masking, also the tenth that stays as it is and the tenth that is
replaced; in generate every next word; in translate every token of the target, its end included. Untrained, the loss is
near the logarithm of the size of the vocabulary; exp(L) is the perplexity.

Example:

    import torch
    import limbeck

    student = torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.LanguageModeling(smoothing=0.1), student, labels=torch.randint(100, (6,)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck import functional
from limbeck.core.card import method
from limbeck.core.knob import knob
from limbeck.core.objective import Rows, TokenObjective
from limbeck.core.trace import Chunk
from limbeck.objectives.labels import DEVLIN_2019

if TYPE_CHECKING:
    from torch import Tensor


@method("language", DEVLIN_2019)
class LanguageModeling(TokenObjective):
    """Cross-entropy with the tokens of the text."""

    rows: ClassVar[Rows] = "has_label"
    name: ClassVar[str] = "language"

    smoothing: float = knob(
        0.0, "label smoothing: share that goes to all words alike", at_least=0, below=1, source="none in the paper"
    )

    def each(self, chunk: Chunk) -> Tensor:
        words = chunk.labels.where(chunk.has_label, 0)  # a filler may be no id at all
        gold = -functional.pick(chunk.log_q(), words[:, None])[:, 0]
        return (1 - self.smoothing) * gold - self.smoothing * chunk.log_q().mean(-1) if self.smoothing else gold
