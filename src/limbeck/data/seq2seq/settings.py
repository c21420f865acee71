"""Parallel texts, for --task translate."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob


class ParallelSettings(Settings):
    target: str = knob(
        "",
        "a file with the target of each line of --data; without one, --data holds both. Files of dev and test are "
        "found by its ending",
        short="--target",
    )
    dev_target: str = knob("", "the same for --data.dev")
    test_target: str = knob("", "the same for --data.test")
    source_column: str = knob("", "the column to translate from; by default found by its name, or the first")
    target_column: str = knob("", "the column to translate to; by default found by its name, or the second")
    prefix: str = knob("", "words put before every source, as T5 wants them: 'translate English to German: '")
