"""docs/choosing.md: which recipe to take, with what the Records say of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from truncated_page import told

from limbeck.core.record import Record
from limbeck.recipes.choosing import SITUATIONS, Situation


@dataclass(frozen=True)
class Measured:
    """A comparison in a Record, by the student whose gain it is."""

    record: str
    student: str
    of: str  # data and conditions, before its sentence


MEASURED: Mapping[str, tuple[Measured, ...]] = {
    "few labels, many texts without": (
        Measured("few_labels_sst2_500", "transfer", "SST-2, 500 labels and 20,000 sentences without"),
        Measured("few_labels_sst2_2000", "transfer", "SST-2, 2,000 labels"),
        Measured("few_labels_sst2_10000", "transfer", "SST-2, 10,000 labels"),
        Measured("few_labels_mrpc_500", "transfer", "MRPC, 500 labels and 3,000 pairs without"),
        Measured("few_labels_stsb_500", "transfer", "STS-B, 500 labels and 6,000 pairs without"),
    ),
    "labels for all texts, one small fast file": (
        Measured("equal_labels_sst2", "small", "SST-2, all 67,349 labels for teacher and student"),
    ),
    "labels for all texts, half the layers": (
        Measured("encoders_sst2", "hinton", "SST-2, 10,000 labels, `hinton`"),
        Measured("encoders_sst2", "pkd-skip", "SST-2, 10,000 labels, `pkd-skip`"),
        Measured("encoders_sst2", "minilmv2", "SST-2, 10,000 labels, `minilmv2`"),
        Measured("encoders_mrpc", "hinton", "MRPC, `hinton`"),
    ),
    "translation or summaries": (Measured("multi30k", "seq-kd", "Multi30k, English to German"),),
    "a language model": (
        Measured("imdb_words", "tail-50", "Masked words of IMDB reviews, 50 words of the distribution kept"),
    ),
}
INTRODUCTION = """\
By what you have, and why. What a teacher gave over labels alone is from the Records in `benchmarks/results`; where no
such sentence stands, nobody has compared the two here. `limbeck methods` lists the same in short.\
"""


def page(records: Mapping[str, Record]) -> str:
    if lost := MEASURED.keys() - {situation.title for situation in SITUATIONS}:
        raise KeyError(f"no situation is called {', '.join(sorted(lost))}")
    parts = ["# Which recipe should I take?", INTRODUCTION]
    for situation in SITUATIONS:
        parts += [f"## {situation.title[0].upper()}{situation.title[1:]}", _command(situation), situation.why]
        if said := "\n".join(_figures(records, MEASURED.get(situation.title, ()))):
            parts.append(said)
    return "\n\n".join(parts) + "\n"


def _command(situation: Situation) -> str:
    return f"`limbeck distill … {situation.flags}`"


def _figures(records: Mapping[str, Record], measured: tuple[Measured, ...]) -> Iterator[str]:
    for one in measured:
        if record := records.get(one.record):
            found = next(c for c in record.comparisons if c.better == one.student and c.metric == record.metric)
            yield f"- {one.of}: {told(record, found)}"
