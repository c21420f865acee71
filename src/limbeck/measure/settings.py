"""What is measured, and how carefully."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob


class MeasureSettings(Settings):
    speed: bool = knob(
        True, "measure latency, throughput and peak memory, each model alone in a process of its own", free=True
    )
    repeats: int = knob(3, "turns each model gets, in rotation; the median counts", at_least=1, free=True)
    rounds: int = knob(100, "texts timed one by one in each turn", at_least=5, free=True)
    batch_size: int = knob(32, "texts per batch when throughput is measured", at_least=1, free=True)
    threads: int = knob(0, "CPU threads while timing; 0 for every core", at_least=0, free=True)
    bootstrap: int = knob(10_000, "resamples behind the interval of 'distillation helped'", at_least=100)
    examples: int = knob(40, "examples shown on which student and teacher part ways", at_least=0, free=True)
