"""A chain of passes over a tiny classifier; and a run of it that kills itself."""

import sys
from pathlib import Path

import limbeck
from tickets import Kill
from tiny import make_classifier, make_rows, make_tokenizer, write_csv

PASSES = "vocabulary,lowrank,quantize"  # steps 0, 1 and 3: step 2 recovers what lowrank cost
TRAIN = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "evals_per_epoch": 2}


def make(folder):
    """A model and rows, in which some words of the model's vocabulary do not occur."""
    rows = [row for row in make_rows(240) if not {"tired", "of"} & set(row["text"].split())]
    make_classifier(layers=2, seed=5).save_pretrained(folder / "teacher")
    make_tokenizer().save_pretrained(folder / "teacher")
    write_csv(folder / "rows.csv", rows)


def chain(folder, out, passes=PASSES, teacher="self", **knobs):
    knobs = {"measure": {"speed": False, "bootstrap": 100}, "train": TRAIN, **knobs}
    return limbeck.compress(folder / "teacher", passes, teacher=teacher, data=folder / "rows.csv", out=out, **knobs)


if __name__ == "__main__":
    home, out, number = sys.argv[1:]
    chain(Path(home), Path(out), callbacks=[Kill(int(number), step=5)])
