"""How the teacher is asked."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob


class TeacherCacheSettings(Settings):
    live: bool = knob(False, "ask the teacher at every step instead of once; slower, same losses")
    cache: str = knob(
        "",
        "folder of the teacher's answers, to share between runs; of words, made by `limbeck cache` (default: in --out)",
        short="--cache",
    )
    batch_size: int = knob(64, "texts per forward pass of the teacher", at_least=1, free=True)
    top: int = knob(
        50, "of words: how many of the most probable ones are kept of each answer", at_least=1, short="--top"
    )
    draws: int = knob(
        0,
        "of words: keep this many draws from the distribution instead of its top; serves the objective 'sampled'",
        at_least=0,
        at_most=255,
    )
