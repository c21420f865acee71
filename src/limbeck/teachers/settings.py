"""How a teacher's outputs are collected, how it translates, and when it steps back. Imports no torch."""

from __future__ import annotations

from typing import Literal

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS
from limbeck.engines.base import BATCH_TOKENS


class TeacherCacheSettings(Settings):
    live: bool = knob(False, "run the teacher at every step instead of caching its outputs; slower, same losses")
    cache: str = knob(
        "",
        "folder of the teacher's outputs, shared between runs (default: in --out); `limbeck cache` makes one of a "
        "language model",
        short="--cache",
    )
    batch_size: int = knob(64, "texts per forward pass of the teacher", at_least=1, free=True)
    top: int = knob(
        50, "over a vocabulary: most probable tokens cached of each distribution", at_least=1, short="--top"
    )
    draws: int = knob(
        0,
        "over a vocabulary: samples cached of each distribution instead of its top; serves the objective 'sampled'",
        at_least=0,
        at_most=255,
    )


@table("translate", "how the teacher translates, and what is learnt from it", SEQ2SEQ_KINDS)
class TranslateSettings(Settings):
    """How a teacher translates the training set, and which of its translations are learnt from."""

    targets: Literal["gold", "beam", "closest"] = knob(
        "gold",
        "what the student learns to write; gold: the given targets; beam: the teacher's best translations; closest: of "
        "its n best, those closest to the given ones",
        source="Kim and Rush 2016",
    )
    command: str = knob(
        "", "a teacher that is only a program: it reads a source per line and writes a translation per line"
    )
    endpoint: str = knob("", "a teacher that is only an address: it is posted a JSON list of sources")
    beam: int = knob(5, "beam size of the teacher", at_least=1, source="Kim and Rush 2016, 5")
    nbest: int = knob(0, "translations kept of each source; 0: one, and of 'closest' as many as the beam", at_least=0)
    closeness: Literal["bleu", "chrf"] = knob(
        "bleu", "similarity by which 'closest' is chosen; smoothed sentence BLEU or chrF, both as sacrebleu has them"
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
    metric: Literal["bleu", "chrf"] = knob(
        "bleu", "what chooses the best checkpoint and leads the report, unless --metric says"
    )
    test_beam: int = knob(5, "beam with which models are tested, beside greedy decoding", at_least=1)


@table("switch", "when a teacher that its student has passed steps back", SEQ2SEQ_KINDS)
class SwitchSettings(Settings):
    """When a teacher steps back from a student that has outgrown it, for --task translate."""

    strategy: Literal["fixed", "threshold", "adaptive"] = knob(
        "fixed",
        "how a direction's teacher gives way to the given targets; fixed: never; threshold: wholly, while its "
        "student's dev BLEU is its own and `margin` or more; adaptive: by half for every BLEU from 2 below its own",
        source="Tan et al. 2019: threshold, as the recipe multilingual has it",
    )
    margin: float = knob(1.0, "of threshold: BLEU by which a student passes its teacher", source="Tan et al. 2019, 1")
