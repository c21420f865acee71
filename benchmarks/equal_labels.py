"""The same labels for teacher and student: what a teacher gives a narrow student of 2 layers on all of SST-2.

    .venv/bin/python benchmarks/equal_labels.py [--precision bf16]

Teacher: MiniLM-L6, two epochs on the 67,349 rows. Student: `--preset tiny` and the recipe small, which learns the
teacher's hidden states and answers over the rows and joins of two of them. Beside it labels alone, as the recipe has
it, and for three times the epochs. Three seeds, two trainings side by side with one thread each; bf16 halves the time
on processors that have instructions for it. Reads ../shared/data/sst2. The Record is results/equal_labels_sst2.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from draws import Column, record_of
from limbeck.cli.display import watching
from limbeck.data.sources.demo import demo_model
from limbeck.experiments.experiment import Part
from limbeck.experiments.running import run_parts
from story import HOME, WORK, publish

DATA = HOME.parents[1] / "shared" / "data" / "sst2"
PLACE = WORK / "equal_labels"
SEEDS = range(3)
COLUMNS = (
    Column("labels", "small", "plain", "labels alone"),
    Column("labels-longer", "longer", "finetune", "labels alone, three times the epochs"),
    Column("small", "small", "distilled", "hidden states and answers"),
)


def parts(precision: str) -> Iterator[Part]:
    files = [f"{DATA}/{split}.tsv.gz" for split in ("train", "dev", "test")]
    data = ("--data", files[0], "--data.dev", files[1], "--data.test", files[2], "--data.max-length", 64)
    how = ("--measure.no-speed", "--measure.examples", 0, "--train.precision", precision)
    yield Part("teacher", "train", ("--model", demo_model(), *data, *how, "--epochs", 2), seconds=900)
    for seed in SEEDS:
        narrow = ("--teacher", PLACE / "teacher" / "model", "--preset", "tiny", "--student.keep", "1,5", "--seed", seed)
        taught = (*narrow, *data, *how)
        after = ("teacher", *(("seed-0/small",) if seed else ()))  # which writes the cache that serves all
        small = ("--recipe", "small", "--cache", PLACE / "cache")
        yield Part(f"seed-{seed}/small", "distill", (*taught, *small), after, 1200)
        longer = ("--recipe", "finetune", "--epochs", 6, "--batch-size", 64, "--learning-rate", 5e-4)
        yield Part(f"seed-{seed}/longer", "distill", (*taught, *longer), ("teacher",), 1200)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a teacher gives a narrow student of the same labels.")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="arithmetic of every training")
    asked = parser.parse_args()
    with watching() as watcher:
        run_parts(list(parts(asked.precision)), PLACE, "equal labels", 2, watcher)
    publish(record_of([PLACE / f"seed-{seed}" for seed in SEEDS], list(SEEDS), COLUMNS), "equal_labels_sst2")
