"""The encoder literature side by side, by the command a person types: SST-2, MRPC and RTE, three seeds each.

    .venv/bin/python benchmarks/encoders.py            all three, some hours on two cores; finished parts are kept
    .venv/bin/python benchmarks/encoders.py rte        one of them

The teacher is MiniLM-L6, fine-tuned on the same rows by `limbeck train`; students and recipes are in encoders.toml and
encoder_pairs.toml.
Reads ../shared/data. The Records are benchmarks/results/encoders_….json; no sentence of the data is in them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from limbeck.core.record import Record
from limbeck.data.demo import demo_model
from story import HOME, WORK, limbeck

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PAIRS = ["--data.quoting", "none", "--data.dev-share", "0.1", "--data.max-length", "128"]
SETS: dict[str, list[object]] = {
    "sst2": [
        *("--data", DATA / "sst2" / "train.tsv.gz", "--data.dev", DATA / "sst2" / "dev.tsv.gz"),
        *("--data.test", DATA / "sst2" / "test.tsv.gz", "--data.limit", "10000", "--data.max-length", "64"),
    ],
    "mrpc": [
        *("--data", DATA / "mrpc" / "msr_paraphrase_train.txt.gz"),
        *("--data.test", DATA / "mrpc" / "msr_paraphrase_test.txt.gz", *PAIRS, "--data.label-column", "Quality"),
        *("--data.text-column", "#1 String", "--data.pair-column", "#2 String"),
    ],
    "rte": [
        *("--data", DATA / "rte" / "train.tsv.gz", "--data.test", DATA / "rte" / "dev.tsv.gz", *PAIRS),
        *("--data.text-column", "sentence1", "--data.pair-column", "sentence2", "--data.label-column", "label"),
    ],
}
EPOCHS = {"sst2": 3, "mrpc": 4, "rte": 4}  # of the teacher
COLUMNS = {"sst2": "encoders.toml", "mrpc": "encoder_pairs.toml", "rte": "encoder_pairs.toml"}


def compare(name: str) -> None:
    place, data = WORK / "encoders" / name, SETS[name]
    made = ["--model", demo_model(), *data, "--epochs", EPOCHS[name], "--measure.no-speed"]
    limbeck("train", place / "teacher", *made)
    limbeck("compare", place / "compare", HOME / COLUMNS[name], "--teacher", place / "teacher" / "model", *data)
    Record.load(place / "compare").save(HOME / "results" / f"encoders_{name}.json")


if __name__ == "__main__":
    for asked in sys.argv[1:] or SETS:
        compare(asked)
