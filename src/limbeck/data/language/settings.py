"""Running text as examples of a language model: what is read, packed, masked and predicted."""

from __future__ import annotations

from typing import Literal, Self

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import LANGUAGE_KINDS


@table("blocks", "how running text is cut into blocks of tokens", LANGUAGE_KINDS)
class BlockSettings(Settings):
    """Plain text, or chats, cut into blocks of tokens."""

    length: int = knob(128, "tokens of a block, special ones included", at_least=8)
    pack: bool = knob(True, "fill a block from several documents; without, no block crosses from one into the next")
    held_out: int = knob(500, "blocks of dev and of test at most, drawn by hash; 0 keeps all", at_least=0)
    documents: Literal["auto", "blank-line", "line", "file"] = knob(
        "auto", "what ends a document in a plain text file; auto: blank lines if there are any, else every line"
    )
    messages_column: str = knob("", "the column with chat messages (role and content); by default found by its name")
    learn: Literal["answers", "all"] = knob("answers", "loss on the assistant's messages only, or on the whole chat")
    pairs: bool = knob(
        False, "sentence pairs for next-sentence prediction: one sentence per line, blank lines between documents"
    )


@table("mask", "which tokens are masked, for masked language models", LANGUAGE_KINDS)
class MaskSettings(Settings):
    """Which tokens are masked, and on which the student imitates the teacher."""

    kind: Literal["auto", "token", "whole-word", "rare"] = knob(
        "auto",
        "token: any of them; whole-word: all pieces of a word together; rare: rare tokens more often; "
        "auto: as the recipe has it, else token",
        source="BERT; BERT's later release; DistilBERT code, count^-0.7",
    )
    share: float = knob(0.15, "part of the tokens that is predicted", above=0, below=1, source="BERT")
    hidden: float = knob(0.8, "of those, the part replaced by the mask token", at_least=0, at_most=1, source="BERT")
    random: float = knob(0.1, "of those, the part replaced by a random token", at_least=0, at_most=1, source="BERT")
    rounds: int = knob(
        0,
        "different masks per block, used by turns; 0 draws a new one every epoch (a cache: as many as it holds)",
        at_least=0,
        source="BERT's data has 10",
    )
    ask: Literal["auto", "masked", "all"] = knob(
        "auto",
        "tokens that soft terms compare: the masked ones, or all; auto: as the recipe has it, else masked",
        source="DistilBERT code: all",
    )
    seed: int = knob(0, "of the masks; the same for every student, so that one cache serves all", at_least=0)

    def settled(self, kind: str = "token", ask: str = "masked") -> Self:
        """With `auto` decided."""
        return self.but(kind=kind if self.kind == "auto" else self.kind, ask=ask if self.ask == "auto" else self.ask)
