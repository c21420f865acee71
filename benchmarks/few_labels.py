"""A few labels and many texts without: what a teacher of the same few labels gives a small student on SST-2.

    .venv/bin/python benchmarks/few_labels.py [500 2000 10000] [--precision bf16]

Reads ../shared/data/sst2. For every number of labels three draws, each with its own labels, teacher and students; the
labels include the fifth of them that chooses the weights. Students have 3 layers and start from the pre-trained MiniLM,
not from the teacher. Beside one another on the 1,821 test sentences: labels alone, trained as long as it gets better on
dev; the same for as many steps as the student with the transfer set; soft targets on the labelled rows; and on 20,000
sentences without labels besides. At 500 labels also 2 layers, and a teacher of all labels, an upper bound.

Two trainings run side by side with one thread each; bf16 halves the time on processors that have instructions for it.
Records are results/few_labels_500 and so on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limbeck.cli.display import watching
from limbeck.core.files import write_text
from limbeck.core.record import Arm, Record
from limbeck.data.sources.demo import demo_model
from limbeck.experiments.experiment import Part
from limbeck.experiments.running import run_parts
from limbeck.experiments.seeds import compared_over, logits_of_test, merged, open_task
from story import HOME, WORK, publish

DATA = HOME.parents[1] / "shared" / "data" / "sst2"
COUNTS, DRAWS, UNLABELLED, DEV_SHARE = (500, 2_000, 10_000), 3, 20_000, 0.2
EPOCHS, TEACHER_EPOCHS = 4, {500: 10, 2_000: 5, 10_000: 3}
BATCH = 32
SPEED = 180.0  # rows that a student of 3 layers learns in a second on one core, by which progress is told
MOST = 67_349  # labels of the teacher that is an upper bound


@dataclass(frozen=True)
class Column:
    """An arm of the comparison: in which part of a draw it was trained, and how a reader calls it."""

    name: str
    part: str
    arm: str
    title: str


COLUMNS = (
    Column("labels", "transfer", "plain", "labels alone"),
    Column("labels-longer", "longer", "finetune", "labels alone, as many steps"),
    Column("soft", "labelled", "distilled", "soft targets, labelled rows"),
    Column("transfer", "transfer", "distilled", f"soft targets, + {UNLABELLED:,} without labels"),
)
MORE = {  # at the fewest labels alone
    500: (
        Column("labels-2", "transfer-2", "plain", "2 layers, labels alone"),
        Column("transfer-2", "transfer-2", "distilled", f"2 layers, + {UNLABELLED:,} without labels"),
        Column("upper-bound", "upper", "distilled", "upper bound: the teacher knows all labels"),
    )
}


@dataclass(frozen=True)
class Draw:
    """The files of one draw of labels, and the jobs over them."""

    count: int
    number: int
    precision: str = "fp32"

    @property
    def name(self) -> str:
        return f"{self.count}/draw-{self.number}"

    @property
    def place(self) -> Path:
        return WORK / "few_labels" / self.name

    def parts(self) -> Iterator[Part]:
        steps = EPOCHS * (UNLABELLED + self.train_rows) // BATCH
        teacher, upper = self.place / "teacher" / "model", WORK / "few_labels" / "teacher-of-all"
        start = ("--student-from", demo_model(), "--seed", self.number, "--batch-size", BATCH)
        measure = ("--measure.no-speed", "--measure.examples", 0, "--train.precision", self.precision)
        taught = (*self.data, *start, *measure, "--recipe", "hinton", "--teacher", teacher)
        unlabelled = ("--unlabelled", self.place / "unlabelled.tsv", "--epochs", EPOCHS)
        alone = ("--max-steps", max(1000, 20 * self.train_rows // BATCH), "--train.evals-per-epoch", 1)
        after, rows = (f"{self.name}/teacher",), UNLABELLED + self.train_rows
        learn = ("--model", demo_model(), *self.data, "--seed", self.number, "--epochs", TEACHER_EPOCHS[self.count])
        yield Part(after[0], "train", (*learn, *measure), seconds=60 + TEACHER_EPOCHS[self.count] * self.count / 100)
        whole = EPOCHS * rows / SPEED
        yield Part(f"{self.name}/transfer", "distill", (*taught, *of_layers(3), *unlabelled), after, 1.5 * whole)
        yield Part(f"{self.name}/labelled", "distill", (*taught, *of_layers(3), *alone, "--no-baseline"), after, 200)
        longer = (*taught, *of_layers(3), "--recipe", "finetune", "--max-steps", steps, "--train.patience", 0)
        yield Part(f"{self.name}/longer", "distill", longer, after, whole)
        if self.count in MORE:
            yield Part(f"{self.name}/transfer-2", "distill", (*taught, *of_layers(2), *unlabelled), after, whole)
            bound = (*taught, *of_layers(3), *unlabelled, "--no-baseline", "--teacher", upper / "model")
            yield Part(f"{self.name}/upper", "distill", bound, ("teacher-of-all",), whole)

    @property
    def train_rows(self) -> int:
        return round(self.count * (1 - DEV_SHARE))

    @property
    def data(self) -> tuple[object, ...]:
        named = ("--text-column", "sentence", "--label-column", "label", "--data.max-length", 64)
        files = ("--data", self.place / "labelled.tsv", "--data.dev", self.place / "dev.tsv")
        return *files, "--data.test", self.place / "test.tsv", *named

    def write(self, rows: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]) -> None:
        """Labels and texts without labels are drawn from the same shuffled rows, from either end."""
        mine = random.Random(self.number).sample(rows, len(rows))
        few, rest = mine[: self.count], mine[-UNLABELLED:]
        _write(self.place / "labelled.tsv", few[: self.train_rows])
        _write(self.place / "dev.tsv", few[self.train_rows :])
        _write(self.place / "test.tsv", test)
        _write(self.place / "unlabelled.tsv", [("", text) for _, text in rest])


def of_layers(count: int) -> tuple[object, ...]:
    return "--student.layers", count


def main() -> int:
    parser = argparse.ArgumentParser(description="What a teacher of few labels gives, with texts without labels.")
    parser.add_argument("counts", nargs="*", type=int, metavar="LABELS", help=f"among {', '.join(map(str, COUNTS))}")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="arithmetic of every training")
    asked = parser.parse_args()
    if unknown := [count for count in asked.counts if count not in COUNTS]:
        sys.exit(f"no experiment has {unknown[0]} labels; choose among {', '.join(map(str, COUNTS))}")
    for count in asked.counts or COUNTS:
        draws = [Draw(count, number, asked.precision) for number in range(DRAWS)]
        train, test = drawable(), _read(DATA / "test.tsv.gz")
        for draw in draws:
            draw.write(train, test)
        parts = [part for draw in draws for part in draw.parts()]
        if count in MORE:
            parts.insert(0, teacher_of_all(asked.precision))
        with watching() as watcher:
            run_parts(parts, WORK / "few_labels", f"{count:,} labels", 2, watcher)
        publish(record_of(draws), f"few_labels_{count}")
    return 0


def teacher_of_all(precision: str) -> Part:
    files = ("--data", DATA / "train.tsv.gz", "--data.dev", DATA / "dev.tsv.gz", "--data.test", DATA / "test.tsv.gz")
    how = ("--data.max-length", 64, "--epochs", 1, "--measure.no-speed", "--train.precision", precision)
    return Part("teacher-of-all", "train", ("--model", demo_model(), *files, *how), seconds=MOST / 100)


def drawable() -> list[tuple[str, str]]:
    """(label, sentence): each sentence once, and none that dev or test has."""
    held_out = {text for split in ("dev", "test") for _, text in _read(DATA / f"{split}.tsv.gz")}
    once: Mapping[str, str] = {text: label for label, text in _read(DATA / "train.tsv.gz") if text not in held_out}
    return [(label, text) for text, label in once.items()]


def record_of(draws: Sequence[Draw]) -> Record:
    """All draws as one Record, a run of each arm for every draw, compared with labels alone."""
    numbers = [draw.number for draw in draws]
    columns = (*COLUMNS, *MORE.get(draws[0].count, ()))

    def of_draws(part: str) -> Record:
        return merged([Record.load(draw.place / part) for draw in draws], numbers)

    found = {part: of_draws(part) for part in dict.fromkeys(column.part for column in columns)}
    whole = found["transfer"]
    arms = [whole.arm("teacher"), *(_arm(found[column.part], column) for column in columns)]
    logits = {
        column.name: [logits_of_test(draw.place / column.part, column.arm, draw.number) for draw in draws]
        for column in columns
    }
    _, evaluator = open_task(draws[0].place / "transfer")
    baselines = {column.name: "labels-2" if column.name.endswith("-2") else "labels" for column in columns}
    comparisons = []
    for baseline in dict.fromkeys(baselines.values()):
        of_it = {name: rows for name, rows in logits.items() if baselines[name] == baseline}
        comparisons += compared_over(whole, evaluator, of_it, baseline, 10_000)
    seconds = {arm.name: sum(run.seconds for run in arm.runs) for arm in arms}
    return whole.but(kind="compare", arms=arms, comparisons=comparisons, seconds=seconds)


def _arm(record: Record, column: Column) -> Arm:
    role = "baseline" if column.arm in ("plain", "finetune") else "student"
    return record.arm(column.arm).but(name=column.name, title=column.title, role=role)


def _read(file: Path) -> list[tuple[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(label, text.strip()) for label, text in rows[1:]]


def _write(file: Path, rows: Sequence[tuple[str, str]]) -> None:
    write_text(file, "".join(f"{label}\t{text}\n" for label, text in [("label", "sentence"), *rows]))


if __name__ == "__main__":
    sys.exit(main())
