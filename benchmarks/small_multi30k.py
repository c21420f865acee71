"""Multi30k's translator to a small fast folder for CTranslate2, by the same commands a person types; three seeds.

    .venv/bin/python benchmarks/small_multi30k.py      some hours on two cores; finished parts are kept

Reads ../shared/data/multi30k_en_de. The teacher is that of benchmarks/multi30k.py, trained for 8 epochs instead of 14;
the student keeps all encoder layers and one decoder layer at half the width, and learns from the teacher's
translations. The Record and its page are benchmarks/results/small_multi30k; no sentence of the data is in them.
"""

from __future__ import annotations

from limbeck.core.record import Record
from multi30k import TEACHER, TEXT_BATCH
from story import WORK, limbeck, publish

PLACE = WORK / "small_multi30k"
STUDENT = (
    *("--preset", "deep-shallow", "--student.hidden", 128, "--student.feed-forward", 256),
    *("--epochs", 6, "--batch-size", 64, "--train.evals-per-epoch", 1, "--train.warmup", 0.06, "--seeds", 3),
    *("--no-baseline", "--export", "ctranslate2", "--measure.speed", "--measure.threads", 1, "--measure.examples", 0),
)

if __name__ == "__main__":
    limbeck("train", PLACE / "teacher", *TEXT_BATCH, *TEACHER, "--epochs", 8)
    limbeck("distill", PLACE / "student", "--teacher", PLACE / "teacher" / "model", *TEXT_BATCH, *STUDENT)
    publish(Record.load(PLACE / "student").but(samples=[]), "small_multi30k")
