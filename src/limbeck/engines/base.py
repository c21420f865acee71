"""The promise of every engine, and what engines that hold a tokenizer share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limbeck.core.errors import KnobError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# By trial on two cores: with a beam of 5, a fourth and four times as many are both slower in transformers.
BATCH_TOKENS = 1024


@dataclass(frozen=True)
class Hypothesis:
    """One translation. `log_p` is the sum over its tokens, eos included, not divided by its length.

    Probabilities are over the words that may be written: banned ones are left out of the softmax, and a forced token
    counts 0. A black box gives no log_p; it is nan."""

    text: str
    log_p: float
    cut: bool = False  # it reached the most tokens it may have before it came to an end


EMPTY = Hypothesis("", 0.0)  # of a blank source, which no model is asked about: it would invent something


class Engine(ABC):
    """Anything that translates."""

    name: str
    at_once: int = 4096  # sources it does well to be handed in one call; what a crash may cost

    @abstractmethod
    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        """At least one hypothesis and at most `nbest` for each source, best first by length-normalised score."""


def check_beam(beam: int, nbest: int) -> None:
    if not 1 <= nbest <= beam:
        raise KnobError(
            f"a beam of {beam} has no {nbest} best translations",
            "give --translate.beam at least as many as --translate.nbest, and both at least 1",
        )


def batches_by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Rows in batches, longest first, each of at most `budget` tokens with its padding, or of one row.

    Rows without tokens are in no batch."""
    batches: list[list[int]] = []
    for row in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i]):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def max_new_tokens(source: int, longest: int, max_length: int) -> int:
    """Tokens that a translation of `source` tokens may have; the decoder's start takes one position too."""
    return min(longest or 2 * source + 16, max_length - 1)


def token_ids(tokenizer: PreTrainedTokenizerBase, sources: Sequence[str], max_length: int) -> list[list[int]]:
    """The tokens of each source, cut to `max_length`; none of a blank one."""
    if not len(sources):
        return []
    ids = tokenizer(list(sources), truncation=True, max_length=max_length)["input_ids"]
    return [row if source.strip() else [] for row, source in zip(ids, sources, strict=True)]


def decode(tokenizer: PreTrainedTokenizerBase, rows: list[list[int]]) -> list[str]:
    return [text.strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]
