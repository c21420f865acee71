"""Language: the student learns the words themselves, as in plain pre-training.

    L = −log q(word)

The mean is over the words that are asked for: in mask-fill those chosen for masking, also the tenth that stays
as it is and the tenth that is replaced; in generate every next word. Untrained, the loss is near the logarithm of the
size of the vocabulary; exp(L) is the perplexity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from limbeck import math
from limbeck.core.card import method
from limbeck.core.chunk import Chunk
from limbeck.core.objective import Rows, TokenObjective
from limbeck.objectives.papers import DEVLIN_2019

if TYPE_CHECKING:
    from torch import Tensor


@method("language", DEVLIN_2019)
class Language(TokenObjective):
    rows: ClassVar[Rows] = "labelled"
    name: ClassVar[str] = "language"

    def each(self, chunk: Chunk) -> Tensor:
        words = chunk.labels.where(chunk.labelled, 0)  # a filler may be no id at all
        return -math.pick(chunk.log_q(), words[:, None])[:, 0]
