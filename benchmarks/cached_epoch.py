"""What distillation from a cache costs over plain fine-tuning of the same student: time and memory of one epoch.

Plain fine-tuning is a transformers.Trainer that is given the order of rows and nothing else. Both see the same batches.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from transformers import DataCollatorWithPadding, PreTrainedModel, Trainer, set_seed
from transformers.trainer_callback import PrinterCallback

from common import (
    MAX_LENGTH,
    SEED,
    Finding,
    Limit,
    each_turn,
    finish,
    flags,
    make_distiller,
    median_of,
    same_batches,
    sentences,
    settle,
    steps_only,
    turn_by_turn,
    watched,
)
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.objective import Objective
from limbeck.core.trace import NoTeacher, Teacher
from limbeck.data.batches import Collator, batches
from limbeck.data.sources.demo import demo_model
from limbeck.data.text.examples import Corpus, Encoded, encode
from limbeck.measure.machine import peak_of
from limbeck.objectives import Labels, SoftTargets
from limbeck.students.load import load
from limbeck.students.shrink import Shrink
from limbeck.tasks.whole import data_fingerprint
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache
from limbeck.training.schedule import Schedule

LAYERS = 3
OBJECTIVE = 0.5 * Labels() + 0.5 * SoftTargets(temperature=4)
SCHEDULE = Schedule(epochs=1)
KINDS = ("cached", "plain")


class RowsOnly:
    """An Encoded as plain fine-tuning knows it: tokens and labels."""

    def __init__(self, encoded: Encoded) -> None:
        self.encoded = encoded

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.encoded[index]
        return {name: value for name, value in row.items() if name not in ("uids", "has_label")}


class Plain(Trainer):
    """transformers.Trainer with another order of rows."""

    order: Any = None

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.order


class Bench:
    """One student, one corpus, and a trainer of either kind for it."""

    def __init__(self, folder: Path, corpus: Corpus, teacher: Teacher) -> None:
        self.folder, self.corpus, self.teacher = folder, corpus, teacher
        self.student, tokenizer = load(folder / "student", "")
        self.tokenizer: Any = tokenizer
        self.train = encode(corpus.train, tokenizer, MAX_LENGTH)

    def trainer(self, kind: str, student: PreTrainedModel) -> Trainer:
        if kind == "cached":
            return self._distiller(student, OBJECTIVE, self.teacher)
        # A Distiller knows the arguments and the order; the plain Trainer takes both from it.
        twin = self._distiller(student, Labels(), NoTeacher())
        plain = Plain(
            model=student,
            args=twin.args,
            train_dataset=RowsOnly(self.train),
            eval_dataset=RowsOnly(self.train),
            data_collator=DataCollatorWithPadding(self.tokenizer),
            callbacks=[steps_only()],
        )
        plain.order = twin._get_train_sampler()
        plain.remove_callback(PrinterCallback)
        return plain

    def _distiller(self, student: PreTrainedModel, objective: Objective, teacher: Teacher) -> Trainer:
        return make_distiller(
            student,
            self.tokenizer,
            self.corpus,
            self.train,
            objective=objective,
            teacher=teacher,
            schedule=SCHEDULE,
            folder=self.folder / "trainer",
        )

    def epoch(self, kind: str) -> dict[str, Any]:
        trainer = self.trainer(kind, copy.deepcopy(self.student))
        witness = watched(trainer)
        gc.collect()
        start = time.perf_counter()
        trainer.train()
        return {"seconds": time.perf_counter() - start, "digest": witness.digest}


def fill(corpus: Corpus, folder: Path) -> LogitsCache:
    """A MiniLM with a fresh head answers every row and leaves a shrunk student beside its answers."""
    set_seed(SEED)
    teacher, tokenizer = load(demo_model(), corpus.task.kind, corpus.task, new_head=True)
    student, _ = Shrink(layers=LAYERS).build(teacher)
    student.save_pretrained(folder / "student")
    tokenizer.save_pretrained(folder / "student")
    prints = {
        "teacher": fingerprint(teacher),
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "data": data_fingerprint(corpus, str(MAX_LENGTH)),
    }
    cache = LogitsCache(folder / "cache", prints)
    asked = batches(encode(corpus.train, tokenizer, MAX_LENGTH), Collator.of(tokenizer, corpus.task), 64)
    cache.fill(LiveTeacher(teacher), asked)
    return cache


def remember(job: dict[str, Any]) -> None:
    """The child whose memory is measured: one epoch of one kind, nothing else in the process."""
    settle(job["threads"])
    folder = Path(job["folder"])
    corpus = sentences(job["rows"])
    cached = job["kind"] == "cached"
    teacher = LogitsCache(folder / "cache", job["fingerprints"]).teacher() if cached else NoTeacher()
    bench = Bench(folder, corpus, teacher)
    bench.trainer(job["kind"], bench.student).train()


def peak(kind: str, folder: Path, rows: int, threads: int, fingerprints: dict[str, str]) -> dict[str, float]:
    job = folder / f"{kind}.json"
    fields = {"kind": kind, "folder": str(folder), "rows": rows, "threads": threads, "fingerprints": fingerprints}
    job.write_text(json.dumps(fields))
    return {"megabytes": peak_of([sys.executable, __file__, "--job", str(job)]) / 1e6}


def run(args: argparse.Namespace, folder: Path) -> Finding:
    rows, turns, launches = (96, 2, 1) if args.quick else (1024, 9, 3)
    settle(args.threads)
    corpus = sentences(rows)
    cache = fill(corpus, folder)
    bench = Bench(folder, corpus, cache.teacher())
    for kind in KINDS:  # the first epoch of a process is slower; it does not count
        bench.epoch(kind)
    epochs = turn_by_turn(KINDS, turns, bench.epoch)
    same_batches(epochs)
    peaks = turn_by_turn(KINDS, launches, lambda kind: peak(kind, folder, rows, args.threads, cache.fingerprints))
    knobs = {
        "rows": rows,
        "turns": turns,
        "launches": launches,
        "threads": args.threads,
        "max_length": MAX_LENGTH,
        "layers": LAYERS,
        "objective": str(OBJECTIVE),
        "train": SCHEDULE.but(patience=0).model_dump(),
    }
    return tell(epochs, peaks, corpus, {**cache.fingerprints, "student": fingerprint(bench.student)}, knobs)


def tell(
    epochs: dict[str, list[Any]],
    peaks: dict[str, list[Any]],
    corpus: Corpus,
    prints: dict[str, str],
    knobs: dict[str, Any],
) -> Finding:
    rows = knobs["rows"]
    cached, plain = (median_of(epochs[kind], "seconds") for kind in KINDS)
    cached_peak, plain_peak = (median_of(peaks[kind], "megabytes") for kind in KINDS)
    return Finding(
        figures={
            "cached_epoch_seconds": cached,
            "plain_epoch_seconds": plain,
            "time_of_cached_over_plain_epoch": cached / plain,
            "cached_peak_megabytes": cached_peak,
            "plain_peak_megabytes": plain_peak,
            "peak_memory_of_cached_over_plain": cached_peak / plain_peak,
            "sentences_per_second_cached": rows / cached,
            "sentences_per_second_plain": rows / plain,
            **{
                f"{kind}_peak_megabytes_turn_{i + 1}": t["megabytes"]
                for kind in KINDS
                for i, t in enumerate(peaks[kind])
            },
        },
        limits=(
            Limit("time_of_cached_over_plain_epoch", at_most=1.05),
            Limit("peak_memory_of_cached_over_plain", at_most=1.05),
        ),
        knobs=knobs,
        notes=(
            f"student: MiniLM-L6 shrunk to {LAYERS} layers; the same batches, arguments and threads for both",
            "time: ratio of median epochs, in turns in one process; neither measures on dev nor saves",
            "memory: highest resident memory of a child process that trains one epoch; the teacher's answers are read "
            "from disk, the teacher itself is not opened",
        ),
        seconds=each_turn(epochs),
        corpus=corpus,
        fingerprints=prints,
    )


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    if args.job:
        remember(json.loads(args.job.read_text()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("cached_epoch", finding, args)


if __name__ == "__main__":
    sys.exit(main())
