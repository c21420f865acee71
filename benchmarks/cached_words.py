"""What learning words from a cache costs over plain language modelling of the same student: an epoch, time and memory.

All three see the same masked blocks in the same order. `cached` and `plain` are Limbeck's trainer, with and without the
teacher's answers; `trainer` is a transformers.Trainer on the model's own loss, which holds logits of every position.
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
from types import SimpleNamespace
from typing import Any

import numpy as np
from transformers import DataCollatorForTokenClassification, PreTrainedModel, Trainer, set_seed
from transformers.trainer_callback import PrinterCallback

from common import (
    SEED,
    Finding,
    Limit,
    each_turn,
    finish,
    flags,
    median_of,
    same_batches,
    settle,
    steps_only,
    turn_by_turn,
    watched,
)
from limbeck.core.fingerprint import fingerprint
from limbeck.core.objective import Objective
from limbeck.core.progress import Silent
from limbeck.core.task import TaskInfo
from limbeck.core.trace import NoTeacher, Teacher
from limbeck.data.language.examples import Tokens
from limbeck.data.settings import BlockSettings, DataSettings, MaskSettings
from limbeck.data.sources.demo import demo_model, demo_reviews
from limbeck.jobs.cache import cache
from limbeck.jobs.settings import CacheRun
from limbeck.measure.machine import peak_of
from limbeck.objectives import LanguageModeling, Truncated
from limbeck.students.load import load
from limbeck.students.shrink import Shrink
from limbeck.tasks.base import EncodedData, Model
from limbeck.tasks.language import LanguageTask
from limbeck.teachers.topk import TopKCache, TopKTeacher
from limbeck.training.schedule import Schedule
from limbeck.training.trainer import Distiller

LAYERS, LENGTH, TOP = 3, 128, 50
PLAIN: Objective = 1.0 * LanguageModeling()
CACHED: Objective = 0.5 * LanguageModeling() + 0.5 * Truncated()
SCHEDULE = Schedule(epochs=1, batch_size=16, patience=0)
BLOCKS, MASK = BlockSettings(length=LENGTH, held_out=8), MaskSettings(rounds=1).settled()
KINDS = ("cached", "plain", "trainer")
NOT_ASKED = -100  # the label that a model's own loss leaves out


class RowsOnly:
    """Tokens as a plain masked language model knows them: what it reads, and labels at the masks."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.tokens[index]
        labels = np.where(row["has_label"], row["labels"], NOT_ASKED).tolist()
        return {"input_ids": row["input_ids"], "attention_mask": row["attention_mask"], "labels": labels}


class Plain(Trainer):
    """transformers.Trainer with another order of rows."""

    order: Any = None

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.order


class Bench:
    """One student, one text, and a trainer of each kind for it."""

    def __init__(self, folder: Path, blocks: int, teacher: Teacher) -> None:
        self.folder, self.teacher = folder, teacher
        self.student, tokenizer = load(folder / "student", "mask-fill")
        self.tokenizer: Any = tokenizer
        task = LanguageTask(TaskInfo(kind="mask-fill"), settings(folder, blocks))
        text = task.read(None, None, Silent())
        self.data: EncodedData = task.encode(text, Model(self.student, tokenizer), Silent())

    def trainer(self, kind: str, student: PreTrainedModel) -> Trainer:
        if kind == "cached":
            return self._distiller(student, CACHED, self.teacher)
        twin = self._distiller(student, PLAIN, NoTeacher())
        if kind == "plain":
            return twin
        # A Distiller knows the arguments and the order; the plain Trainer takes both from it.
        rows = RowsOnly(self.data.train(""))
        plain = Plain(
            model=student,
            args=twin.args,
            train_dataset=rows,
            eval_dataset=rows,
            data_collator=DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=NOT_ASKED),
            callbacks=[steps_only()],
        )
        plain.order = twin._get_train_sampler()
        plain.remove_callback(PrinterCallback)
        return plain

    def _distiller(self, student: PreTrainedModel, objective: Objective, teacher: Teacher) -> Distiller:
        return Distiller(
            student,
            objective=objective,
            teacher=teacher,
            task=self.data.info,
            schedule=SCHEDULE,
            train=self.data.train(""),
            dev=self.data.evaluator.dev,
            collate=self.data.evaluator.collate,
            folder=self.folder / "trainer",
            seed=SEED,
            callbacks=[steps_only()],
        )

    def epoch(self, kind: str) -> dict[str, Any]:
        trainer = self.trainer(kind, copy.deepcopy(self.student))
        witness = watched(trainer)
        gc.collect()
        start = time.perf_counter()
        trainer.train()
        return {"seconds": time.perf_counter() - start, "digest": witness.digest}


def settings(folder: Path, blocks: int) -> CacheRun:
    data = DataSettings(train=str(folder / "reviews.jsonl"), task="mask-fill", limit=blocks)
    return CacheRun(out=str(folder / "cache"), top=TOP, data=data, blocks=BLOCKS, mask=MASK)


def fill(folder: Path, blocks: int) -> dict[str, str]:
    """A MiniLM with a fresh head answers every block and leaves a shrunk student beside its answers."""
    reviews = demo_reviews()[: max(blocks, 64)]  # a review fills two blocks or more, and a fifth is held out
    lines = [json.dumps({"text": row["text"]}) + "\n" for row in reviews]
    (folder / "reviews.jsonl").write_text("".join(lines), encoding="utf-8")
    set_seed(SEED)
    teacher, tokenizer = load(demo_model(), "mask-fill", new_head=True)
    student, _ = Shrink(layers=LAYERS).build(teacher)
    student.save_pretrained(folder / "student")
    tokenizer.save_pretrained(folder / "student")
    return dict(cache(settings(folder, blocks), teacher=Model(teacher, tokenizer)).manifest.fingerprints)


def kept(folder: Path) -> TopKTeacher:
    return TopKTeacher(TopKCache.open(folder / "cache"))


def remember(job: dict[str, Any]) -> None:
    """The child whose memory is measured: one epoch of one kind, nothing else in the process."""
    settle(job["threads"])
    folder = Path(job["folder"])
    bench = Bench(folder, job["blocks"], kept(folder) if job["kind"] == "cached" else NoTeacher())
    bench.trainer(job["kind"], bench.student).train()


def peak(kind: str, folder: Path, blocks: int, threads: int) -> dict[str, float]:
    job = folder / f"{kind}.json"
    job.write_text(json.dumps({"kind": kind, "folder": str(folder), "blocks": blocks, "threads": threads}))
    return {"megabytes": peak_of([sys.executable, __file__, "--job", str(job)]) / 1e6}


def run(args: argparse.Namespace, folder: Path) -> Finding:
    blocks, turns, launches = (32, 1, 1) if args.quick else (160, 5, 1)
    settle(args.threads)
    prints = fill(folder, blocks)
    bench = Bench(folder, blocks, kept(folder))
    for kind in KINDS:  # the first epoch of a process is slower; it does not count
        bench.epoch(kind)
    epochs = turn_by_turn(KINDS, turns, bench.epoch)
    same_batches(epochs)
    peaks = turn_by_turn(KINDS, launches, lambda kind: peak(kind, folder, blocks, args.threads))
    knobs = {
        "blocks": len(bench.data.train("")),
        "turns": turns,
        "launches": launches,
        "threads": args.threads,
        "layers": LAYERS,
        "top": TOP,
        "objective": str(CACHED),
        "text": BLOCKS.model_dump(),
        "mask": MASK.model_dump(),
        "train": SCHEDULE.model_dump(),
    }
    return tell(epochs, peaks, bench.data, {**prints, "student": fingerprint(bench.student)}, knobs)


def tell(
    epochs: dict[str, list[Any]],
    peaks: dict[str, list[Any]],
    data: EncodedData,
    prints: dict[str, str],
    knobs: dict[str, Any],
) -> Finding:
    seconds = {kind: median_of(epochs[kind], "seconds") for kind in KINDS}
    memory = {kind: median_of(peaks[kind], "megabytes") for kind in KINDS}
    source: Any = SimpleNamespace(task=data.info, card=data.card)
    return Finding(
        figures={
            "time_of_cached_over_plain_words": seconds["cached"] / seconds["plain"],
            "time_of_cached_over_trainer_words": seconds["cached"] / seconds["trainer"],
            "peak_memory_of_cached_over_plain_words": memory["cached"] / memory["plain"],
            "peak_memory_of_cached_over_trainer_words": memory["cached"] / memory["trainer"],
            **{f"{kind}_epoch_seconds": value for kind, value in seconds.items()},
            **{f"{kind}_blocks_per_second": knobs["blocks"] / value for kind, value in seconds.items()},
            **{f"{kind}_peak_megabytes": value for kind, value in memory.items()},
            **{
                f"{kind}_peak_megabytes_turn_{number}": turn["megabytes"]
                for kind in KINDS
                for number, turn in enumerate(peaks[kind], start=1)
            },
        },
        limits=(Limit("time_of_cached_over_plain_words", at_most=1.10),),
        knobs=knobs,
        notes=(
            f"student: MiniLM-L6 with a fresh masked language-model head, shrunk to {LAYERS} layers, on packed IMDB "
            f"reviews in blocks of {LENGTH} tokens; the same batches, arguments and threads for all",
            f"cached: {CACHED} from a store of the top {TOP}; plain: {PLAIN} by the same trainer; trainer: "
            f"transformers.Trainer on the model's own loss with labels {NOT_ASKED} outside the masks, which multiplies "
            "every position with the vocabulary",
            "time: ratio of median epochs, in turns in one process; none measures on dev nor saves",
            "memory: highest resident memory of a child process that trains one epoch; the teacher's answers are read "
            "from disk, the teacher itself is not opened",
        ),
        seconds=each_turn(epochs),
        corpus=source,
        fingerprints=prints,
    )


def main() -> int:
    args = flags(__doc__ or "").parse_args()
    if args.job:
        remember(json.loads(args.job.read_text()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("cached_words", finding, args)


if __name__ == "__main__":
    sys.exit(main())
