"""What a transfer set takes in memory: the peak of `limbeck distill` on 500 labelled rows, and with the rest of SST-2.

    python benchmarks/transfer_memory.py

Reads ../shared/data/sst2 (GLUE's files; --sst2 names another folder): of its 67,349 training rows 750 are given with
their labels, and the texts of all others without. The teacher has random weights in the shape of
BERT-tiny (2 layers of width 128) and MiniLM's tokens: what it answers does not matter here, and the smaller the models,
the more the texts weigh beside them. Each run is a process of its own; children that it starts are not added.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, set_seed

from common import HERE, MAX_LENGTH, SEED, Finding, Limit, finish, flags
from limbeck.core.progress import Silent
from limbeck.core.record import Record
from limbeck.data.settings import DataSettings
from limbeck.data.sources.demo import demo_model
from limbeck.data.text.examples import Corpus, read_texts
from limbeck.measure.machine import peak_of
from limbeck.students.model_folder import save_folder

LABELLED, TEXTS = 500, 67_000
TEACHER = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
HELD_OUT = 250  # more labelled rows, of which dev and test are cut


def write(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def files(corpus: Corpus, texts: int, folder: Path) -> tuple[Path, Path]:
    """The labelled rows, and the other texts. Among the labelled ones are the longest, which make the largest batches:
    what is compared is how many texts there are."""
    order = sorted(range(len(corpus.train)), key=lambda row: -len(corpus.train.texts[row]))
    step = max(len(order) // (LABELLED + HELD_OUT), 1)
    chosen = sorted({*order[:50], *order[::step]})[: LABELLED + HELD_OUT]
    others = sorted({*order} - {*chosen})[:texts]
    labels = corpus.task.labels
    gold = [[corpus.train.texts[row], labels[corpus.train.labels[row]]] for row in chosen]
    bare = [[corpus.train.texts[row]] for row in others]
    return write(folder / "labelled.csv", [["text", "label"], *gold]), write(folder / "texts.csv", [["text"], *bare])


def run(args: argparse.Namespace, folder: Path) -> Finding:
    texts = 2_000 if args.quick else TEXTS
    settings = DataSettings(train=str(args.sst2 / "train.tsv.gz"), test=str(args.sst2 / "dev.tsv.gz"), dev_share=0.001)
    corpus = read_texts(settings, watcher=Silent())
    labelled, others = files(corpus, texts, folder)
    tokenizer = AutoTokenizer.from_pretrained(demo_model())
    names = dict(enumerate(corpus.task.labels))
    set_seed(SEED)
    shape = BertConfig(vocab_size=len(tokenizer), id2label=names, label2id={v: k for k, v in names.items()}, **TEACHER)
    save_folder(BertForSequenceClassification(shape), tokenizer, folder / "teacher")
    shared = [sys.executable, "-m", "limbeck", "distill", "--teacher", folder / "teacher", "--data", labelled]
    shared += ["--data.max-length", MAX_LENGTH, "--student.layers", 1, "--epochs", 1, "--no-baseline"]
    shared += ["--measure.no-speed", "--train.threads", args.threads, "--seed", SEED, "--data.limit", LABELLED]
    peaks, seconds = {}, {}
    for name, more in {"labelled": [], "transfer": ["--unlabelled", others]}.items():
        began = time.monotonic()
        peaks[name] = peak_of([*map(str, [*shared, *more, "--out", folder / name])])
        seconds[name] = time.monotonic() - began
        print(f"{name}: {peaks[name] / 1e6:,.1f} MB, {seconds[name]:,.0f} s", flush=True)
    rows = {name: Record.load(folder / name).data.splits["train"].rows for name in peaks}
    stored = sum(path.stat().st_size for path in (folder / "transfer" / "transfer").rglob("*.*"))
    return Finding(
        figures={
            "peak_over_labelled": peaks["transfer"] / peaks["labelled"],
            "labelled_megabytes": peaks["labelled"] / 1e6,
            "transfer_megabytes": peaks["transfer"] / 1e6,
            "megabytes_on_disk": stored / 1e6,
            **{f"rows_{name}": float(count) for name, count in rows.items()},
        },
        limits=(Limit("peak_over_labelled", at_most=1.1),),
        knobs={
            "texts": texts,
            "teacher": TEACHER,
            "layers": 1,
            "max_length": MAX_LENGTH,
            "epochs": 1,
            "threads": args.threads,
        },
        notes=(
            "peak: resident memory of the whole process, from reading the files to the report, mapped files included",
            "the teacher answers every row once; the student learns one epoch of all rows",
            "among the labelled rows are the 50 longest texts, so that the largest batches of both runs are alike",
        ),
        seconds=seconds,
        corpus=corpus,
    )


def main() -> int:
    parser = flags(__doc__ or "")
    home = HERE.parents[1] / "shared" / "data" / "sst2"
    parser.add_argument("--sst2", type=Path, default=home, help="GLUE's folder (default: ../shared/data/sst2)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("transfer_memory", finding, args)


if __name__ == "__main__":
    sys.exit(main())
