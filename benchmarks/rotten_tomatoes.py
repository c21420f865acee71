"""The demo's job with three seeds: MiniLM-L6 fine-tuned on Rotten Tomatoes, distilled into 3 layers.

    .venv/bin/python benchmarks/rotten_tomatoes.py

The Record is benchmarks/results/rotten_tomatoes.json; no sentence of the data is in it.
"""

from __future__ import annotations

import csv

from limbeck.data.sources.demo import demo_rows
from story import WORK, tell

if __name__ == "__main__":
    table = WORK / "rotten_tomatoes.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["text", "label"])
        writer.writeheader()
        writer.writerows(demo_rows())
    tell(
        "rotten_tomatoes",
        data=["--data", table, "--data.max-length", "64"],
        teacher=["--epochs", "2"],
        student=["--epochs", "3", "--student.layers", "3"],
    )
