"""What an objective needs to see of a model, and what a teacher can show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import Literal

from limbeck.core.errors import MismatchError

Pool = Literal["cls", "mean"]


class Want(Flag):
    NOTHING = 0
    LOGITS = auto()
    TOP = auto()
    SAMPLED = auto()
    HIDDEN = auto()  # every token's state after a layer
    POOLED = auto()  # one state for the whole text
    ATTENTION = auto()  # scores before the softmax
    QUERIES = auto()
    KEYS = auto()
    VALUES = auto()

    def __str__(self) -> str:
        return ", ".join(flag.name.lower() for flag in Want if flag in self and flag.name) or "nothing"


# What is said of the whole text, not per token: it does not depend on how the text was cut into tokens.
PER_TEXT = Want.LOGITS | Want.POOLED
ATTENTION_PARTS = Want.ATTENTION | Want.QUERIES | Want.KEYS | Want.VALUES


@dataclass(frozen=True)
class Request:
    """Exactly what is asked of one model. Layers are counted from 1, and 0 is the embeddings."""

    want: Want = Want.LOGITS
    hidden: tuple[int, ...] = ()  # layers whose HIDDEN is asked
    pooled: tuple[int, ...] = ()  # layers whose POOLED is asked
    heads: tuple[int, ...] = ()  # layers whose ATTENTION, QUERIES, KEYS or VALUES are asked
    pool: Pool = "cls"  # what stands for a text: the state of its first token, or the mean over its tokens

    def __or__(self, other: Request) -> Request:
        if self.pooled and other.pooled and self.pool != other.pool:
            raise MismatchError(
                "two terms let different things stand for a text (cls and mean)", "give both the same knob 'pool'"
            )
        return Request(
            self.want | other.want,
            tuple(sorted({*self.hidden, *other.hidden})),
            tuple(sorted({*self.pooled, *other.pooled})),
            tuple(sorted({*self.heads, *other.heads})),
            other.pool if other.pooled else self.pool,
        )


ONLY_LOGITS, NOTHING = Request(), Request(Want.NOTHING)
