"""The encoder literature side by side, by the command a person types, and the knobs of hinton on less data.

    .venv/bin/python benchmarks/encoders.py                 everything, many hours on two cores; finished parts are kept
    .venv/bin/python benchmarks/encoders.py rte squad       some of it

The teacher is MiniLM-L6, fine-tuned on the same rows by `limbeck train`; students and recipes are in the TOML files,
those of PKD's own setting in the package (`limbeck reproduce pkd-sst2`).
Reads ../shared/data. The Records and pages are benchmarks/results/encoders_…; no sentence of the data is in them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from limbeck.core.record import Record
from limbeck.data.sources.demo import demo_model
from story import HOME, WORK, limbeck, publish, reproduced

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PAIRS = ("--data.quoting", "none", "--data.dev-share", "0.1", "--data.max-length", "128")


@dataclass(frozen=True)
class Set:
    data: tuple[object, ...]
    columns: str  # the run file
    epochs: int = 4  # of the teacher
    limit: int = 0  # rows the students see
    teacher: str = ""  # of another set
    other: tuple[object, ...] = ()  # than the run file says


SST2 = (
    *("--data", DATA / "sst2" / "train.tsv.gz", "--data.dev", DATA / "sst2" / "dev.tsv.gz"),
    *("--data.test", DATA / "sst2" / "test.tsv.gz", "--data.max-length", "64"),
)
MRPC = (
    *("--data", DATA / "mrpc" / "msr_paraphrase_train.txt.gz"),
    *("--data.test", DATA / "mrpc" / "msr_paraphrase_test.txt.gz", *PAIRS, "--data.label-column", "Quality"),
    *("--data.text-column", "#1 String", "--data.pair-column", "#2 String"),
)
RTE = (
    *("--data", DATA / "rte" / "train.tsv.gz", "--data.test", DATA / "rte" / "dev.tsv.gz", *PAIRS),
    *("--data.text-column", "sentence1", "--data.pair-column", "sentence2", "--data.label-column", "label"),
)
SQUAD = (
    *("--task", "answer", "--data", DATA / "squad_sample" / "squad_sample.jsonl.gz", "--data.max-length", "256"),
    *("--data.test", DATA / "xquad_squad11_dev_subset" / "xquad.en.json.gz"),
)
# With half the layers gone, an answerer has more to learn anew than a knob could show.
FIVE_OF_SIX = ("--student.layers", 5, "--epochs", 1, "--seeds", 2)
PUBLISHED = "published_sst2"  # PKD's own setting: limbeck reproduce pkd-sst2
SETS = {
    "sst2": Set((*SST2, "--data.limit", "10000"), "encoders.toml", epochs=3),
    "mrpc": Set(MRPC, "encoder_pairs.toml"),
    "rte": Set(RTE, "encoder_pairs.toml"),
    "squad": Set(SQUAD, "encoder_answers.toml", epochs=2, limit=1000),
    "knobs_sst2": Set(SST2, "knobs.toml", limit=1500, teacher="sst2"),
    "knobs_mrpc": Set(MRPC, "knobs.toml", limit=1000, teacher="mrpc"),
    "knobs_squad": Set(SQUAD, "knobs.toml", limit=600, teacher="squad", other=FIVE_OF_SIX),
}


def compare(name: str) -> None:
    if name == PUBLISHED:
        place = WORK / "encoders" / name
        publish(reproduced("pkd-sst2", DATA / "sst2", place), f"encoders_{name}")
        return
    chosen = SETS[name]
    place, teacher = WORK / "encoders" / name, WORK / "encoders" / (chosen.teacher or name) / "teacher"
    if not chosen.teacher:
        made = ["--model", demo_model(), *chosen.data, "--epochs", chosen.epochs, "--measure.no-speed"]
        limbeck("train", teacher, *made)
    less = ("--data.limit", chosen.limit) if chosen.limit else ()
    asked = ("--teacher", teacher / "model", *chosen.data, *less, *chosen.other)
    limbeck("compare", place / "compare", HOME / chosen.columns, *asked)
    publish(Record.load(place / "compare"), f"encoders_{name}")


if __name__ == "__main__":
    for asked in sys.argv[1:] or (*SETS, PUBLISHED):
        compare(asked)
