"""docs/translation.md: Kim and Rush's table on Multi30k, from the Records of benchmarks/multi30k.py."""

from __future__ import annotations

from collections.abc import Mapping

from limbeck.core.record import Record
from limbeck.report.card import markdown_table
from limbeck.report.columns import halves
from limbeck.report.gains import sentences, together
from limbeck.report.writers import readings

SETS = {"multi30k": "test_2016_flickr", "multi30k_2017": "test_2017_flickr"}


def page(records: Mapping[str, Record]) -> str:
    parts = [
        "# Translation, by word and by sentence",
        "Multi30k, English to German, made by `benchmarks/multi30k.py`: `limbeck train` makes the teacher, "
        "`limbeck compare` its students. K is the width of the beam; p(ŷ) the probability that a model gives its own "
        "best translation; the perplexities are of the given targets and of the teacher's translations. Mean ± one "
        "standard deviation over the seeds.",
        "The student is as small as it is because a wider one had nothing to learn: of width 128 it wrote as well "
        "as the teacher does without being taught by it. Width 64 was chosen then, by BLEU on dev, before any student "
        "of that width had a teacher. Students start from as much of the teacher's weights as fits them.",
    ]
    for name, title in SETS.items():
        if name in records:
            record = records[name]
            said = [*sentences(record), *filter(None, [together(record)]), *readings(record)]
            timed = any(arm.speed for arm in record.arms)  # on one set only
            tables = [markdown_table([record], keys) for keys in halves(record)[: 1 + timed]]
            parts += [f"## {title}", *tables, "\n".join(f"- {line}" for line in said)]
    return "\n\n".join(filter(None, parts)) + "\n"
