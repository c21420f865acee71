"""Patient distillation on SST-2, as the paper sets it: students of three layers, cut from the pre-trained encoder.

The teacher is fine-tuned on 10,000 sentences; fine-tuning, plain distillation at T = 10 and PKD-Skip teach the student
the first 3,000. Without --model the encoder is MiniLM-L6, where the paper has BERT-base: six layers of width 384 for
twelve of 768, so that levels differ from the paper's and only the order is comparable.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from limbeck.core.files import atomic
from limbeck.core.record import Record
from limbeck.data.sources.demo import demo_model, demo_rows
from limbeck.experiments.experiment import Conditions, Experiment, Needs, Part, experiment
from limbeck.experiments.findings import Claim, compared, over_seeds, sentence
from limbeck.experiments.published import beside, packaged, scores
from limbeck.objectives.pkd import SUN_2019

SST2 = Needs(
    "SST-2",
    ("train.tsv", "dev.tsv", "test.tsv"),
    "GLUE (gluebenchmark.com); a column label and one of sentences, test with its labels",
    "240 sentences of Rotten Tomatoes",
)
TEACHER_ROWS, STUDENT_ROWS, QUICK_ROWS = 10_000, 3_000, 240


def data_flags(conditions: Conditions) -> tuple[object, ...]:
    """Sentences of SST-2; of a quick run without them, the embedded ones."""
    if conditions.data is None:
        return "--data", _embedded(conditions.out / "reviews.csv"), "--data.max-length", 48
    train, dev, test = SST2.find(conditions.data).values()
    return "--data", train, "--data.dev", dev, "--data.test", test, "--data.max-length", 64


def _embedded(file: Path) -> Path:
    if not file.exists():
        with atomic(file) as part, part.open("w", encoding="utf-8", newline="") as rows:
            writer = csv.DictWriter(rows, ("text", "label"))
            writer.writeheader()
            writer.writerows(demo_rows()[:: 8530 // QUICK_ROWS])
    return file


def parts(conditions: Conditions) -> Sequence[Part]:
    data, model = data_flags(conditions), conditions.model or demo_model()
    less = (
        ("--epochs", 1, "--batch-size", 16, "--train.evals-per-epoch", 1, "--measure.bootstrap", 500)
        if conditions.quick
        else ()
    )
    rows = [QUICK_ROWS if conditions.quick else rows for rows in (TEACHER_ROWS, STUDENT_ROWS)]
    learn = ("--model", model, *data, "--data.limit", rows[0], "--epochs", 3, "--measure.no-speed", *less)
    teacher = conditions.out / "teacher" / "model"
    students = ("--teacher", teacher, "--student-from", model, *data, "--data.limit", rows[1], *less)
    return (
        Part("teacher", "train", learn, seconds=30 if conditions.quick else 900),
        Part(
            "students",
            "compare",
            (packaged("pkd.toml"), *students, "--seeds", conditions.seeds),
            after=("teacher",),
            seconds=60 if conditions.quick else 1500,
        ),
    )


def conclude(conditions: Conditions) -> Record:
    record = conditions.record("students")
    found = scores(record)
    plain, soft, patient = (found.get(f"{name} {record.metric}", []) for name in ("finetune", "hinton", "pkd-skip"))
    claims = (
        Claim("distillation above fine-tuning", compared(record.comparisons, "hinton", "finetune")),
        Claim("PKD above fine-tuning", compared(record.comparisons, "pkd-skip", "finetune")),
        Claim("PKD above plain distillation", over_seeds(patient, soft)),
        Claim("the teacher above fine-tuning", over_seeds(found.get(f"teacher {record.metric}", []), plain[:1])),
    )
    return record.but(published=beside("pkd_published.toml", found), finding=sentence(claims))


PKD_SST2 = experiment(
    Experiment(
        "pkd-sst2",
        "Patient knowledge distillation on SST-2",
        SUN_2019,
        "a student that also learns the teacher's layers beats one that learns its answers, which beats fine-tuning",
        SST2,
        cost="about 45 minutes",
        quick_cost="about 2 minutes",
        parts=parts,
        conclude=conclude,
        options={"model": ""},
    )
)
