"""Language modelling: the student learns the tokens of the text, as in plain pre-training.

    L = −(1 − ε) · log q(word) − ε · mean over the vocabulary of log q(k)

Smoothing ε is 0 by default: a model trained with smoothing has a flatter distribution to teach later. The mean is over
the predicted tokens. In mask-fill these are the tokens selected for masking, including the tenth that stays unchanged
and the tenth that is replaced; in generate, every next token; in translate, every token of the target and its end. An
untrained model has a loss near the logarithm of the vocabulary size; exp(L) is the perplexity.

Example:

    import torch
    import limbeck

    student = torch.randn(6, 100)  # [tokens, vocabulary]
    limbeck.loss(limbeck.LanguageModeling(smoothing=0.1), student, labels=torch.randint(100, (6,)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
        0.0, "label smoothing; share that goes to all tokens alike", at_least=0, below=1, source="none in the paper"
    )

    def each(self, chunk: Chunk) -> Tensor:
        from limbeck.functional.softmax import pick

        ids = chunk.labels.where(chunk.has_label, 0)  # a filler need not be an id
        gold = -pick(chunk.log_q(), ids[:, None])[:, 0]
        return (1 - self.smoothing) * gold - self.smoothing * chunk.log_q().mean(-1) if self.smoothing else gold
