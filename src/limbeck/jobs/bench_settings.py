"""Knobs of `limbeck bench`."""

from __future__ import annotations

from limbeck.core.knob import knob
from limbeck.jobs.settings import MeasuredKnobs


class BenchRun(MeasuredKnobs):
    beam: int = knob(5, "of seq2seq models: beam size; 1 is greedy", at_least=1, short="--beam")
