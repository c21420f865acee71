"""A few labels and many texts without: what a teacher of the same few labels gives a small student.

    .venv/bin/python benchmarks/few_labels.py [sst2 mrpc stsb] [--labels 500 2000 10000] [--precision bf16]

Reads ../shared/data. For every number of labels three draws, each with its own labels, teacher and students; the labels
include the fifth of them that chooses the weights. Students have 3 layers and start from the pre-trained MiniLM, not
from the teacher. Beside one another on all test rows: labels alone, trained as long as it gets better on dev; the same
for as many steps as the student with the transfer set; soft targets on the labelled rows; and on texts without labels
besides. At 500 labels of SST-2 also 2 layers, a static student, new texts made of the labelled ones, three teachers
averaged, and a teacher of all labels, an upper bound; of the first draw also half and twice the epochs, and all rows.

Two trainings run side by side with one thread each; bf16 halves the time on processors that have instructions for it.
Records are results/few_labels_sst2_500 and so on.
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

from draws import Column, record_of
from limbeck.cli.display import watching
from limbeck.core.files import write_text
from limbeck.data.sources.demo import demo_model
from limbeck.experiments.experiment import Part
from limbeck.experiments.running import run_parts
from story import HOME, WORK, publish

DATA = HOME.parents[1] / "shared" / "data"
DRAWS, DEV_SHARE, BATCH = 3, 0.2, 32
LEARNT = 80_000  # rows of the transfer set that a student sees in all, some of them several times
TEACHER_EPOCHS = {500: 10, 2_000: 5, 10_000: 3}
SPEED = {"fp32": 180.0, "bf16": 400.0}  # rows a second that a student of 3 layers learns on one core: for progress
Row = tuple[str, ...]  # the label first, then a text or two


@dataclass(frozen=True)
class Corpus:
    """Where the rows of a task are, and what a job is told of them."""

    train: tuple[str, ...]  # files
    test: str
    places: tuple[int, ...]  # of label and texts
    flags: tuple[object, ...]
    unlabelled: int
    counts: tuple[int, ...] = (500,)
    header: bool = True
    recipe: str = "hinton"  # a number has no distribution to soften

    @property
    def names(self) -> list[str]:
        return ["label", "text", "pair"][: len(self.places)]

    @property
    def held_out(self) -> list[str]:
        """Files whose texts no draw has."""
        dev = f"{Path(self.test).parent}/dev.tsv.gz"
        return [name for name in (dev, self.test) if (DATA / name).exists()]

    def rows(self, *files: str) -> Iterator[Row]:
        for name in files:
            with gzip.open(DATA / name, "rt", encoding="utf-8-sig", newline="") as lines:
                table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
                for row in list(table)[self.header :]:
                    yield tuple(row[place].strip() for place in self.places)

    def drawable(self) -> list[Row]:
        """Each text once, and none that dev or test has."""
        held_out = {row[1:] for row in self.rows(*self.held_out)}
        once: Mapping[Row, str] = {row[1:]: row[0] for row in self.rows(*self.train) if row[1:] not in held_out}
        return [(label, *texts) for texts, label in once.items()]


CORPORA = {
    "sst2": Corpus(
        ("sst2/train.tsv.gz",), "sst2/test.tsv.gz", (0, 1), ("--data.max-length", 64), 20_000, (500, 2_000, 10_000)
    ),
    "mrpc": Corpus(
        ("mrpc/msr_paraphrase_train.txt.gz",), "mrpc/msr_paraphrase_test.txt.gz", (0, 3, 4), (), unlabelled=3_000
    ),
    "stsb": Corpus(
        ("stsb/sts-train.csv.gz", "stsb/sts-dev.csv.gz"),
        "stsb/sts-test.csv.gz",
        (4, 5, 6),
        ("--task", "regress"),
        unlabelled=6_000,
        header=False,
        recipe="logits",
    ),
}


COLUMNS = (
    Column("labels", "transfer", "plain", "labels alone"),
    Column("labels-longer", "longer", "finetune", "labels alone, as many steps"),
    Column("soft", "labelled", "distilled", "soft targets, labelled rows"),
    Column("transfer", "transfer", "distilled", "soft targets, + texts without labels"),
)
MORE = (
    Column("labels-2", "transfer-2", "plain", "2 layers, labels alone", than="labels-2"),
    Column("transfer-2", "transfer-2", "distilled", "2 layers, + texts without labels", than="labels-2"),
    Column("static", "static", "distilled", "static, + texts without labels"),
    Column("augmented", "augmented", "distilled", "soft targets, + new texts made of the labelled"),
    Column("averaged", "averaged", "distilled", "three teachers, + texts without labels"),
    Column("upper-bound", "upper", "distilled", "upper bound: the teacher knows all labels"),
)
SCHEDULE = (  # of one draw
    COLUMNS[0],
    Column("halved", "halved", "distilled", "half the epochs"),
    Column("transfer", "transfer", "distilled", "as above"),
    Column("doubled", "doubled", "distilled", "twice the epochs"),
    Column("all-rows", "all-rows", "distilled", "all rows without labels, as many steps"),
)


@dataclass(frozen=True)
class Draw:
    """The files of one draw of labels, and the jobs over them."""

    corpus: str
    count: int
    number: int
    precision: str = "fp32"

    @property
    def name(self) -> str:
        return f"{self.corpus}/{self.count}/draw-{self.number}"

    @property
    def place(self) -> Path:
        return WORK / "few_labels" / self.name

    @property
    def about(self) -> Corpus:
        return CORPORA[self.corpus]

    @property
    def has_more(self) -> bool:
        return (self.corpus, self.count) == ("sst2", 500)

    @property
    def train_rows(self) -> int:
        return round(self.count * (1 - DEV_SHARE))

    def parts(self) -> Iterator[Part]:
        epochs = round(LEARNT / (self.about.unlabelled + self.train_rows), 1)
        unlabelled = ("--unlabelled", self.place / "unlabelled.tsv", "--epochs", epochs)
        alone = ("--max-steps", max(1000, 20 * self.train_rows // BATCH), "--train.evals-per-epoch", 1)
        longer = ("--recipe", "finetune", "--max-steps", LEARNT // BATCH, "--train.patience", 0)
        yield self._teacher("teacher", self.number)
        yield self._student("transfer", *unlabelled, baseline=True)
        yield self._student("labelled", *alone, share=0.4)
        yield self._student("longer", *longer, baseline=True)
        if self.has_more:
            yield from self._more(unlabelled)
            if not self.number:
                yield from self._schedule(epochs)

    def _more(self, unlabelled: tuple[object, ...]) -> Iterator[Part]:
        others = ("teacher-b", "teacher-c")
        yield from (self._teacher(name, self.number + 100 * place) for place, name in enumerate(others, start=1))
        yield self._student("transfer-2", *unlabelled, layers=2, baseline=True)
        yield self._student("static", "--unlabelled", unlabelled[1], "--recipe", "static", layers=0)
        copies = 20
        made = ("--augment.kind", "tinybert", "--augment.copies", copies)
        yield self._student("augmented", *made, "--epochs", round(LEARNT / (copies + 1) / self.train_rows, 1))
        yield self._student("averaged", *unlabelled, teachers=("teacher", *others))
        upper = WORK / "few_labels" / ALL
        yield self._student("upper", *unlabelled, "--teacher", upper / "model", teachers=(), after=(ALL,))

    def _schedule(self, epochs: float) -> Iterator[Part]:
        file = ("--unlabelled", self.place / "unlabelled.tsv")
        yield self._student("halved", *file, "--epochs", epochs / 2, share=0.5)
        yield self._student("doubled", *file, "--epochs", epochs * 2, share=2)
        yield self._student("all-rows", "--unlabelled", self.place / "rest.tsv", "--max-steps", LEARNT // BATCH)

    def _teacher(self, name: str, seed: int) -> Part:
        epochs = TEACHER_EPOCHS[self.count]
        learn = ("--model", demo_model(), *self._data(), "--seed", seed, "--epochs", epochs, *self._measure())
        return Part(f"{self.name}/{name}", "train", learn, seconds=60 + epochs * self.count / 100)

    def _student(
        self,
        name: str,
        *flags: object,
        layers: int = 3,
        baseline: bool = False,
        teachers: Sequence[str] = ("teacher",),
        after: tuple[str, ...] = (),
        share: float = 1.0,
    ) -> Part:
        """Of no layers it is of the recipe's own kind, and starts from the teacher."""
        own = ("--student.layers", layers, "--student-from", demo_model(), "--batch-size", BATCH) if layers else ()
        recipe = () if "--recipe" in flags else ("--recipe", self.about.recipe)
        taught = [word for one in teachers for word in ("--teacher", self.place / one / "model")]
        told = (*self._data(), *own, *recipe, *taught, "--seed", self.number, *self._measure(), *flags)
        needed = (*(f"{self.name}/{one}" for one in teachers), *after)
        seconds = share * LEARNT / SPEED[self.precision]
        return Part(
            f"{self.name}/{name}", "distill", (*told, *(() if baseline else ("--no-baseline",))), needed, seconds
        )

    def _measure(self) -> tuple[object, ...]:
        return "--measure.no-speed", "--measure.examples", 0, "--train.precision", self.precision

    def _data(self) -> tuple[object, ...]:
        files = [flag for split in ("", ".dev", ".test") for flag in (f"--data{split}", self.place / FILES[split])]
        pair = ("--data.pair-column", "pair") if "pair" in self.about.names else ()
        columns = ("--text-column", "text", "--label-column", "label", *pair, "--data.quoting", "none")
        return *files, *columns, *self.about.flags

    def write(self, rows: Sequence[Row], test: Sequence[Row]) -> None:
        """Labels and texts without labels are drawn from the same shuffled rows, from either end."""
        mine = random.Random(self.number).sample(rows, len(rows))
        few, rest = mine[: self.count], mine[self.count :]
        blank = [("", *texts) for _, *texts in rest]
        files = {"labelled": few[: self.train_rows], "dev": few[self.train_rows :], "test": test}
        for name, found in {**files, "unlabelled": blank[-self.about.unlabelled :], "rest": blank}.items():
            lines = ["\t".join(row) for row in (self.about.names, *found)]
            write_text(self.place / f"{name}.tsv", "".join(f"{line}\n" for line in lines))


FILES = {"": "labelled.tsv", ".dev": "dev.tsv", ".test": "test.tsv"}
ALL = "sst2/teacher-of-all"


def main() -> int:
    parser = argparse.ArgumentParser(description="What a teacher of few labels gives, with texts without labels.")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"among {', '.join(CORPORA)} (default all)")
    parser.add_argument("--labels", nargs="*", type=int, metavar="N", help="numbers of labels (default all it has)")
    parser.add_argument("--precision", choices=tuple(SPEED), default="fp32", help="arithmetic of every training")
    asked = parser.parse_args()
    if unknown := [name for name in asked.corpora if name not in CORPORA]:
        parser.error(f"there is no corpus {unknown[0]}; choose among {', '.join(CORPORA)}")
    for name in asked.corpora or CORPORA:
        for count in CORPORA[name].counts:
            if not asked.labels or count in asked.labels:
                run([Draw(name, count, number, asked.precision) for number in range(DRAWS)])
    return 0


def run(draws: Sequence[Draw]) -> None:
    first = draws[0]
    rows, test = first.about.drawable(), list(first.about.rows(first.about.test))
    for draw in draws:
        draw.write(rows, test)
    parts = [part for draw in draws for part in draw.parts()]
    if first.has_more:
        parts.insert(0, teacher_of_all(first.precision))
    with watching() as watcher:
        run_parts(parts, WORK / "few_labels", f"{first.corpus}, {first.count:,} labels", 2, watcher)
    name = f"few_labels_{first.corpus}_{first.count}"
    columns = (*COLUMNS, *(MORE if first.has_more else ()))
    publish(record_of([draw.place for draw in draws], [draw.number for draw in draws], columns), name)
    if first.has_more:
        publish(record_of([first.place], [first.number], SCHEDULE), f"{name}_schedule")


def teacher_of_all(precision: str) -> Part:
    files = [f"{DATA / 'sst2'}/{split}.tsv.gz" for split in ("train", "dev", "test")]
    named = ("--data", files[0], "--data.dev", files[1], "--data.test", files[2], "--data.max-length", 64)
    how = ("--epochs", 1, "--measure.no-speed", "--train.precision", precision)
    return Part(ALL, "train", ("--model", demo_model(), *named, *how), seconds=67_349 / 100)


if __name__ == "__main__":
    sys.exit(main())
