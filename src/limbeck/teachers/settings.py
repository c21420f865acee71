"""How the teacher is asked."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob


class TeachSettings(Settings):
    live: bool = knob(False, "ask the teacher at every step instead of once; slower, same losses")
    cache: str = knob("", "folder for the teacher's answers, to share between runs (default: inside --out)")
    batch_size: int = knob(64, "texts per question to the teacher", at_least=1)
