"""MRPC's pairs to a small fast file, by the same commands a person types; three seeds.

    .venv/bin/python benchmarks/small_mrpc.py

Reads ../shared/data/mrpc: 3,668 training pairs, so the student sees them for more epochs than on SST-2. The Record
and its page are benchmarks/results/small_mrpc; no sentence of the data is in them.
"""

from __future__ import annotations

from encoders import MRPC
from story import tell

STUDENT = (
    *("--preset", "small", "--export", "onnx-int8", "--stages.hidden.epochs", 3, "--epochs", 6, "--no-baseline"),
    *("--measure.speed", "--measure.threads", 1),
)

if __name__ == "__main__":
    tell("small_mrpc", data=MRPC, teacher=["--epochs", 4], student=STUDENT)
