"""How a teacher translates the training set, and which of its translations are learnt from."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS

# By trial on two cores: with a beam of 5, a fourth and four times as many are both slower in transformers.
BATCH_TOKENS = 1024


@table("translate", "how the teacher translates, and what is learnt from it", SEQ2SEQ_KINDS)
class TranslateSettings(Settings):
    targets: Literal["gold", "beam", "closest"] = knob(
        "gold",
        "what the student learns to write: the given targets; the teacher's best translations; or, of its n best, "
        "those closest to the given ones",
        source="Kim and Rush 2016",
    )
    command: str = knob(
        "", "a teacher that is only a program: it reads a source per line and writes a translation per line"
    )
    endpoint: str = knob("", "a teacher that is only an address: it is posted a JSON list of sources")
    beam: int = knob(5, "hypotheses kept open while the teacher translates", at_least=1, source="Kim and Rush 2016, 5")
    nbest: int = knob(0, "translations kept of each source; 0: one, and of 'closest' as many as the beam", at_least=0)
    closeness: Literal["bleu", "chrf"] = knob(
        "bleu", "how 'closest' is told: smoothed sentence BLEU or chrF, both as sacrebleu has them"
    )
    engine: Literal["auto", "ctranslate2", "transformers"] = knob(
        "auto", "what runs the teacher; auto: CTranslate2 where it gives what transformers gives"
    )
    precision: Literal["int8", "float32"] = knob("int8", "of CTranslate2's weights")
    length_penalty: float = knob(1.0, "a translation's log-probability is divided by its length to this power")
    longest: int = knob(0, "tokens of a translation at most; 0: twice its source's and 16", at_least=0)
    batch_tokens: int = knob(BATCH_TOKENS, "source tokens translated at once, padding included", at_least=16, free=True)
    copies: bool = knob(False, "also learn from translations that repeat their source word for word")
    cut: bool = knob(False, "also learn from translations that reached the most tokens before they came to an end")
    ratio: float = knob(
        4.0, "translations more than this many times longer or shorter than their source are left out", above=1
    )
    metric: Literal["bleu", "chrf"] = knob("bleu", "what chooses the best checkpoint and leads the report")
    test_beam: int = knob(5, "beam with which models are tested, beside greedy decoding", at_least=1)
