"""SST-2 by the same commands a person types: 10,000 training rows, the full dev set as test, three seeds.

    .venv/bin/python benchmarks/sst2.py

Reads ../shared/data/sst2 (GLUE's files). The Record is benchmarks/results/sst2.json; no sentence of the data is in it.
"""

from __future__ import annotations

from pathlib import Path

from story import tell

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sst2"

FILES = ["--data", DATA / "train.tsv.gz", "--data.test", DATA / "dev.tsv.gz"]
ROWS = ["--data.limit", "10000", "--data.dev-share", "0.015", "--data.max-length", "64"]

if __name__ == "__main__":
    tell("sst2", data=[*FILES, *ROWS], teacher=["--epochs", "2"], student=["--epochs", "2", "--student.layers", "3"])
