"""Sentences per second of distillation: Limbeck with a cached teacher, beside TextBrewer's GeneralDistiller.

The teacher has BERT-base's shape (12 layers of 768, random weights: they do not change the time), the student is
MiniLM-L6. TextBrewer lives in an environment of its own, which the first run installs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from transformers import BertConfig, BertForSequenceClassification, set_seed

from common import (
    HERE,
    MAX_LENGTH,
    SEED,
    Finding,
    Limit,
    child,
    each_turn,
    environment,
    finish,
    flags,
    make_distiller,
    median_of,
    same_batches,
    sentences,
    settle,
    turn_by_turn,
    watched,
)
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.data.batches import Buckets, Collator, batches
from limbeck.data.sources.demo import demo_model
from limbeck.data.text.examples import Corpus, Encoded, encode
from limbeck.objectives import Labels, SoftTargets
from limbeck.students.load import load
from limbeck.tasks.whole import data_fingerprint
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.logits import LogitsCache
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.training.schedule import Schedule

PEER = "textbrewer==0.2.1.post1"
EPOCHS = 3
SCHEDULE = Schedule(epochs=EPOCHS)
LABEL_WEIGHT, SOFT_WEIGHT, TEMPERATURE = 0.5, 0.5, 4.0
OBJECTIVE = LABEL_WEIGHT * Labels() + SOFT_WEIGHT * SoftTargets(temperature=TEMPERATURE)


def prepare(folder: Path, corpus: Corpus) -> tuple[dict[str, str], Encoded]:
    """Teacher, student and rows as files that both sides read."""
    set_seed(SEED)
    student, tokenizer = load(demo_model(), corpus.task.kind, corpus.task, new_head=True)
    names = student.config.id2label, student.config.label2id
    config = BertConfig(id2label=names[0], label2id=names[1], problem_type=student.config.problem_type)
    teacher = BertForSequenceClassification(config)
    for name, model in (("student", student), ("teacher", teacher)):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    encoded = encode(corpus.train, tokenizer, MAX_LENGTH)
    named = ("input_ids", "token_type_ids", "attention_mask", "labels")
    rows = [{name: encoded[index][name] for name in named} for index in range(len(encoded))]
    (folder / "rows.json").write_text(json.dumps(rows))
    return {"teacher": fingerprint(teacher), "tokenizer": tokenizer_fingerprint(tokenizer)}, encoded


def orders(encoded: Encoded) -> list[list[int]]:
    """The order of rows in every epoch, as a Distiller draws it."""
    sampler = Buckets(encoded.lengths, SCHEDULE.batch_size, seed=SEED)
    drawn = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        drawn.append(sampler.order().tolist())
    return drawn


def ours(job: dict[str, Any]) -> dict[str, Any]:
    """Limbeck's turn: the teacher answers every row once, to disk; then three epochs from there."""
    settle(job["threads"])
    folder, corpus = Path(job["folder"]), sentences(job["row_count"])
    teacher, tokenizer = load(job["teacher"], "")
    student, _ = load(job["student"], "")
    train = encode(corpus.train, tokenizer, MAX_LENGTH)
    with tempfile.TemporaryDirectory(dir=folder) as cache_folder:
        start = time.perf_counter()
        prints = {"teacher": fingerprint(teacher), "data": data_fingerprint(corpus, str(MAX_LENGTH))}
        cache = LogitsCache(cache_folder, prints)
        asked = batches(train, Collator.of(tokenizer, corpus.task), TeacherCacheSettings().batch_size)
        cache.fill(LiveTeacher(teacher), asked)
        filled = time.perf_counter() - start
        trainer = make_distiller(
            student,
            tokenizer,
            corpus,
            train,
            objective=OBJECTIVE,
            teacher=cache.teacher(),
            schedule=SCHEDULE,
            folder=folder / "trainer",
        )
        witness = watched(trainer)
        start = time.perf_counter()
        trainer.train()
        return {"epochs_seconds": time.perf_counter() - start, "fill_seconds": filled, "digest": witness.digest}


def run(args: argparse.Namespace, folder: Path) -> Finding:
    rows, turns = (64, 1) if args.quick else (512, 3)
    settle(args.threads)
    python = environment(args.venv, [PEER, "torch", "transformers", "numpy"], ["textbrewer", "torch", "transformers"])
    corpus = sentences(rows)
    prints, encoded = prepare(folder, corpus)
    job = {
        "teacher": str(folder / "teacher"),
        "student": str(folder / "student"),
        "folder": str(folder),
        "rows": str(folder / "rows.json"),
        "row_count": rows,
        "orders": orders(encoded),
        "threads": args.threads,
        "seed": SEED,
        "temperature": TEMPERATURE,
        "label_weight": LABEL_WEIGHT,
        "soft_weight": SOFT_WEIGHT,
        **SCHEDULE.model_dump(include={"batch_size", "learning_rate", "weight_decay", "warmup", "max_grad_norm"}),
    }
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    commands: dict[str, list[str | Path]] = {
        "limbeck": [sys.executable, __file__, "--job", file],
        "textbrewer": [python, HERE / "peers" / "general_distiller.py", file],
    }
    found = turn_by_turn(list(commands), turns, lambda name: child(commands[name], args.threads))
    same_batches(found)
    knobs = {
        "rows": rows,
        "epochs": EPOCHS,
        "turns": turns,
        "threads": args.threads,
        "max_length": MAX_LENGTH,
        "objective": str(OBJECTIVE),
        "train": SCHEDULE.but(patience=0).model_dump(),
        "peer": PEER,
    }
    return tell(found, rows, corpus, prints, knobs)


def tell(
    found: dict[str, list[Any]], rows: int, corpus: Corpus, prints: dict[str, str], knobs: dict[str, Any]
) -> Finding:
    epochs, fill = (median_of(found["limbeck"], key) for key in ("epochs_seconds", "fill_seconds"))
    peer = median_of(found["textbrewer"], "epochs_seconds")
    seen = rows * EPOCHS
    return Finding(
        figures={
            "limbeck_sentences_per_second": seen / epochs,
            "textbrewer_sentences_per_second": seen / peer,
            "speed_over_textbrewer_per_epoch": peer / epochs,
            "limbeck_fill_seconds": fill,
            "limbeck_three_epochs_seconds": epochs,
            "textbrewer_three_epochs_seconds": peer,
            "speed_over_textbrewer_in_3_epochs_with_cache_filling": peer / (fill + epochs),
        },
        limits=(
            Limit("speed_over_textbrewer_per_epoch", at_least=2.3),
            Limit("speed_over_textbrewer_in_3_epochs_with_cache_filling", at_least=1.5),
        ),
        knobs=knobs,
        notes=(
            "teacher: BERT-base's shape with random weights; student: MiniLM-L6; the same rows in the same batches, "
            "padded to the longest row of each, checked by a digest of every batch that was trained on",
            "medians of whole three-epoch trainings, each alone in a process, in turns; opening the models is not "
            "counted on either side; neither measures on dev nor saves",
            "filling the cache counts the fingerprints, the teacher's answers to the training rows, and writing and "
            "reading them; a whole `limbeck distill` also asks about the dev and test rows",
            "GeneralDistiller asks the teacher at every step; TextBrewer's BasicDistiller can keep answers in memory, "
            "but then repeats the batches of the first epoch and matches logits only",
        ),
        seconds=each_turn(found),
        corpus=corpus,
        fingerprints={**prints, "data": data_fingerprint(corpus, str(MAX_LENGTH))},
    )


def main() -> int:
    parser = flags(__doc__ or "")
    home = HERE.parent / ".bench" / "textbrewer"
    parser.add_argument("--venv", type=Path, default=home, help="TextBrewer's environment (default: .bench/textbrewer)")
    args = parser.parse_args()
    if args.job:
        print("\n" + json.dumps(ours(json.loads(args.job.read_text()))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        finding = run(args, Path(folder))
    return finish("textbrewer", finding, args)


if __name__ == "__main__":
    sys.exit(main())
