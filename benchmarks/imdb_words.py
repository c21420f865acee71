"""Words from a teacher's cache, from the live teacher and from none: IMDB text, masked words, three seeds.

    .venv/bin/python benchmarks/imdb_words.py

MiniLM-L6 gets a masked language-model head on IMDB reviews and becomes the teacher. A student of three of its layers
learns from the whole softmax, from the top 8 and 50 of it with a tail bucket, from the top 8 renormalised, and without;
then every student is fine-tuned on Rotten Tomatoes. All by the commands a person types; what is finished in .bench is
not done again. The Record is benchmarks/results/imdb_words.json; no sentence of the data is in it.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from limbeck.core.record import Arm, Comparison, Record
from limbeck.data.sources.demo import demo_model, demo_reviews, demo_rows
from limbeck.measure.quality import compare
from limbeck.teachers.topk import TopKCache
from story import HOME, WORK, limbeck

PLACE = WORK / "imdb_words"
REVIEWS = {"test": (0, 200), "dev": (200, 260), "train": (260, 6000)}
TEACHER_BLOCKS, STUDENT_BLOCKS, SEEDS = 6400, 1280, 3
WORDS = ["--task", "mask-fill", "--data", PLACE / "text", "--batch-size", "16", "--epochs", "1"]
STUDENT = ["--student.layers", "3", "--data.limit", STUDENT_BLOCKS, "--blocks.held-out", "250"]
SENTENCES = ["--data", PLACE / "sentences.csv", "--data.limit", "1500", "--data.max-length", "64", "--epochs", "2"]
ONCE = ["--train.evals-per-epoch", "1", "--measure.no-speed"]


def cached(form: str, k: int) -> list[object]:
    return ["--cache", PLACE / "cache", "--objective.truncated.form", form, "--objective.truncated.k", k]


ARMS: dict[str, list[object]] = {
    "none": ["--recipe", "finetune"],
    "full": ["--recipe", "word-kd"],
    "tail-8": cached("tail", 8),
    "tail-50": cached("tail", 50),
    "renorm-8": cached("renorm", 8),
}
TITLES = {
    "none": "3 layers, no teacher",
    "full": "3 layers, whole softmax, live",
    "tail-8": "3 layers, top 8 + tail",
    "tail-50": "3 layers, top 50 + tail",
    "renorm-8": "3 layers, top 8 renormalised",
}


def write_text() -> None:
    """Reviews in the order of a hash, cut into three files; and the sentences of the downstream task."""
    if (PLACE / "sentences.csv").exists():
        return
    (PLACE / "text").mkdir(parents=True, exist_ok=True)
    texts = sorted((row["text"] for row in demo_reviews()), key=lambda text: hashlib.blake2b(text.encode()).digest())
    for split, (start, stop) in REVIEWS.items():
        lines = [json.dumps({"text": text}) + "\n" for text in dict.fromkeys(texts[start:stop])]
        (PLACE / "text" / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    with (PLACE / "sentences.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(demo_rows())


def train_teacher() -> Path:
    flags = ["--model", demo_model(), *WORDS, "--data.limit", TEACHER_BLOCKS, "--measure.no-speed"]
    limbeck("train", PLACE / "teacher", *flags)
    return PLACE / "teacher" / "model"


def distil(arm: str, teacher: Path) -> Path:
    out = PLACE / "students" / arm
    flags = ["--teacher", teacher, *WORDS, *STUDENT, *ONCE, "--seeds", SEEDS, "--no-baseline", *ARMS[arm]]
    limbeck("distill", out, *flags)
    return out


def fine_tune(arm: str, seed: int) -> Path:
    out = PLACE / "downstream" / f"{arm}-{seed}"
    model = PLACE / "students" / arm / "arms" / f"distilled-seed{seed}" / "model"
    limbeck("train", out, "--model", model, *SENTENCES, *ONCE, "--seed", seed)
    return out


def told(arm: str) -> Arm:
    """An arm with the downstream accuracy of each seed beside its perplexity."""
    found = Record.load(PLACE / "students" / arm).arm("distilled")
    runs = []
    for run in found.runs:
        after = Record.load(PLACE / "downstream" / f"{arm}-{run.seed}").arm("model").runs[0]
        runs.append(run.but(quality={**run.quality, "accuracy": after.quality["accuracy"]}, curve=run.curve[-1:]))
    role = "baseline" if arm == "none" else "student"
    return found.but(name=arm, title=TITLES[arm], role=role, runs=runs)


def sums(arm: str) -> list[np.ndarray]:
    """What each seed's student made of the test blocks, in the order of their uids."""
    found = []
    for seed in range(SEEDS):
        kept = load_file(PLACE / "students" / arm / "arms" / f"distilled-seed{seed}" / "test.safetensors")
        found.append(kept["statistics"][np.argsort(kept["uids"])])
    return found


def comparisons(record: Record) -> list[Comparison]:
    pairs = [(arm, "none") for arm in ARMS if arm != "none"]
    pairs += [("tail-8", "renorm-8"), ("tail-50", "tail-8"), ("tail-50", "full")]
    rows = np.ones(len(sums("none")[0]), dtype=bool)
    return [
        compare(record.task, metric, better, than, sums(better), sums(than), rows, rows)
        for better, than in pairs
        for metric in ("perplexity", "token_ece")
    ]


def bytes_per_token() -> dict[str, float]:
    """On disk: of the cache the students learnt from, and of one that keeps 8 of the same answers."""
    kept = TopKCache.open(PLACE / "cache").info()
    eight = TopKCache.open(PLACE / "cache-8").info()
    return {"bytes_per_token_50": kept.bytes_per_token, "bytes_per_token_8": eight.bytes_per_token}


def keep(teacher: Path, top: int, name: str) -> None:
    if not (PLACE / name / "index.json").exists():
        flags = ["--teacher", teacher, *WORDS[:4], "--data.limit", STUDENT_BLOCKS, "--top", top]
        limbeck("cache", PLACE / name, *flags)


def tell(arms: Sequence[str]) -> Record:
    base = Record.load(PLACE / "students" / "tail-50")
    made = [told(arm) for arm in arms]
    record = base.but(
        kind="benchmark",
        name="imdb_words",
        command="python benchmarks/imdb_words.py",
        arms=[base.arm("teacher"), *made],
        figures={
            **bytes_per_token(),
            **{f"seconds_per_epoch_{arm.name}": float(np.median([run.seconds for run in arm.runs])) for arm in made},
        },
        seconds={arm.name: sum(run.seconds for run in arm.runs) for arm in made},
        comparisons=[],
        notes=[
            f"The teacher, MiniLM-L6, got its head on {TEACHER_BLOCKS:,} blocks of IMDB text; students learn from "
            f"{STUDENT_BLOCKS:,} blocks of it, one epoch, and are measured on words of reviews neither has seen.",
            "accuracy: of the student fine-tuned for two epochs on 1,500 Rotten Tomatoes sentences.",
            "The student of the whole softmax asks the teacher at every step; its seconds hold the teacher's.",
            "Seconds are medians over the seeds on a machine that did other things too; cached_words.py measures time.",
        ],
    )
    record = record.but(comparisons=[one.model_dump() for one in comparisons(record)])
    record.save(HOME / "results" / "imdb_words.json")
    return record


def main() -> int:
    write_text()
    teacher = train_teacher()
    keep(teacher, 50, "cache")
    keep(teacher, 8, "cache-8")
    for arm in ARMS:
        distil(arm, teacher)
        for seed in range(SEEDS):
            fine_tune(arm, seed)
    record = tell(list(ARMS))
    for arm in record.arms:
        print(arm.name, {name: round(arm.mean(name), 4) for name in arm.runs[0].quality})
    return 0


if __name__ == "__main__":
    sys.exit(main())
