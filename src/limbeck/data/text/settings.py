"""New training texts for a text classifier."""

from __future__ import annotations

from typing import Literal, Self

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import TEXT_KINDS

_TANG, _JIAO = "Tang et al. 2019", "TinyBERT code"


@table("augment", "augmented texts for the teacher to label", TEXT_KINDS)
class AugmentSettings(Settings):
    """New training texts, made from the old ones."""

    kind: Literal["auto", "none", "bilstm", "tinybert"] = knob(
        "auto",
        "bilstm: masks, words of the same part of speech, n-grams; tinybert: words that a masked LM predicts; "
        "auto: as the recipe has it, else none",
    )
    copies: int = knob(
        0,
        "new texts per row; 0: as published (bilstm 20, pairs 10; tinybert 30, from 10,000 rows 20, from 200,000 10)",
        at_least=0,
        source=f"{_TANG}; {_JIAO}",
    )
    mask: float = knob(0.1, "bilstm: part of the words that is masked", at_least=0, at_most=1, source=_TANG)
    pos: float = knob(
        0.1,
        "bilstm: part replaced by words of the same part of speech; in other languages than English set 0",
        at_least=0,
        at_most=1,
        source=_TANG,
    )
    ngram: float = knob(0.25, "bilstm: part of the texts cut to a few words", at_least=0, at_most=1, source=_TANG)
    longest_ngram: int = knob(5, "bilstm: most words of a text so cut", at_least=1, source=_TANG)
    replace: float = knob(0.4, "tinybert: part of the words that is replaced", at_least=0, at_most=1, source=_JIAO)
    candidates: int = knob(15, "tinybert: candidates for each word", at_least=1, source=_JIAO)
    model: str = knob(
        "",
        "tinybert: a masked LM that predicts the words, a folder or a Hub id; else the nearest ones in the "
        "teacher's embeddings",
    )
    limit: int = knob(0, "new texts at most, drawn by hash; 0 keeps all", at_least=0)
    seed: int = knob(0, "of the new texts; the same for every student, so that one cache serves all", at_least=0)

    def settled(self, kind: str = "none") -> Self:
        """With `auto` decided."""
        return self.model_copy(update={"kind": kind}) if self.kind == "auto" else self
