"""Parallel texts, for --task translate."""

from __future__ import annotations

from limbeck.core.knob import Settings, knob, table
from limbeck.core.task import SEQ2SEQ_KINDS


@table("parallel", "sources and targets", SEQ2SEQ_KINDS)
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
    tag: str = knob(
        "",
        "the target language as a token before every source, <2de>, for a student of several teachers",
        short="--tag",
    )
    tags: str = knob("", "target languages, comma-separated, that get such a token in a new vocabulary", short="--tags")
