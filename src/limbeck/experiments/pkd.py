"""Patient distillation on SST-2, as the paper sets it: students of three layers, cut from the pre-trained encoder.

The teacher is fine-tuned on 10,000 sentences; fine-tuning, plain distillation at T = 10 and PKD-Skip teach the student
the first 3,000. Without --model the encoder is MiniLM-L6, where the paper has BERT-base: six layers of width 384 for
twelve of 768, so that levels differ from the paper's and only the order is comparable. With deep_seeds there are
students of six layers too, with an unlabelled file students who learn from the teacher's answers to it besides.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from limbeck.core.files import atomic
from limbeck.core.knob import Settings, knob
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
QUICK_ROWS = 240
QUICK: dict[str, object] = {"teacher_rows": QUICK_ROWS, "teacher_epochs": 1, "rows": QUICK_ROWS, "epochs": 1}
DEEP = 6  # layers, of the paper's larger students


class Extent(Settings):
    """How much is learnt, and of which students."""

    teacher_rows: int = knob(10_000, "sentences that the teacher learns from; 0: all", at_least=0)
    teacher_epochs: float = knob(3.0, "the teacher's epochs", above=0)
    rows: int = knob(3_000, "of these the first, that the students learn from; 0: all", at_least=0)
    epochs: float = knob(4.0, "the students' epochs", above=0, source="Sun 2019")
    precision: Literal["fp32", "bf16"] = knob("fp32", "arithmetic of every training, as --train.precision has it")
    deep_seeds: int = knob(0, "seeds of students of six layers; 0: none", at_least=0, free=True)
    unlabelled: str = knob(
        "", "a file of further sentences, which the teacher answers for two more students", free=True
    )


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
    extent = _extent(conditions)
    data, model = data_flags(conditions), conditions.model or demo_model()
    how: tuple[object, ...] = ("--train.precision", extent.precision)
    if conditions.quick:
        how = (*how, "--batch-size", 16, "--train.evals-per-epoch", 1, "--measure.bootstrap", 500)
    learn = ("--model", model, *data, "--data.limit", extent.teacher_rows, "--epochs", extent.teacher_epochs, *how)
    teacher, rows = conditions.out / "teacher" / "model", ("--data.limit", extent.rows, "--epochs", extent.epochs)
    students = (packaged("pkd.toml"), "--teacher", teacher, "--student-from", model, *data, *rows, *how)

    def part(name: str, seeds: int, *flags: object, cost: float = 1.0) -> Part:
        seconds = 60 if conditions.quick else 1500 * cost
        return Part(name, "compare", (*students, "--seeds", seeds, *flags), after=("teacher",), seconds=seconds)

    found = [Part("teacher", "train", (*learn, "--measure.no-speed"), seconds=30 if conditions.quick else 900)]
    found.append(part("students", conditions.seeds))
    if extent.deep_seeds:
        found.append(part("deep", extent.deep_seeds, "--student.layers", DEEP, cost=2 * extent.deep_seeds / 3))
    if extent.unlabelled:
        more = ("--unlabelled", extent.unlabelled, "--recipes", "hinton,pkd-skip", "--no-baseline")
        found.append(part("transfer", conditions.seeds, *more))
    return found


def conclude(conditions: Conditions) -> Record:
    record = conditions.record("students")
    for part, title in _more(conditions):
        record = _joined(record, conditions.record(part), part, title)
    found = scores(record)
    plain, soft, patient = (found.get(f"{name} {record.metric}", []) for name in ("finetune", "hinton", "pkd-skip"))
    claims = (
        Claim("distillation above fine-tuning", compared(record.comparisons, "hinton", "finetune")),
        Claim("PKD above fine-tuning", compared(record.comparisons, "pkd-skip", "finetune")),
        Claim("PKD above plain distillation", over_seeds(patient, soft)),
        Claim("the teacher above fine-tuning", over_seeds(found.get(f"teacher {record.metric}", []), plain[:1])),
    )
    return record.but(published=beside("pkd_published.toml", found), finding=sentence(claims))


def _extent(conditions: Conditions) -> Extent:
    assert isinstance(conditions.knobs, Extent)
    return conditions.knobs


def _more(conditions: Conditions) -> Iterator[tuple[str, str]]:
    """Parts with further students, and what their titles begin with."""
    extent = _extent(conditions)
    if extent.deep_seeds:
        yield "deep", f"{DEEP} layers"
    if extent.unlabelled:
        yield "transfer", "with further sentences"


def _joined(record: Record, more: Record, part: str, title: str) -> Record:
    """With the students of another part, which has the same teacher and the same test rows."""
    arms = [arm for arm in more.arms if arm.role != "teacher"]
    named = [arm.but(name=f"{part} {arm.name}", title=f"{title}: {arm.title}") for arm in arms]
    own = {arm.name: f"{part} {arm.name}" for arm in arms}
    pairs = [one.but(better=own[one.better], than=own[one.than]) for one in more.comparisons if one.than in own]
    seconds = {own[name]: spent for name, spent in more.seconds.items() if name in own}
    return record.but(
        arms=[*record.arms, *named],
        comparisons=[*record.comparisons, *pairs],
        seconds={**record.seconds, **seconds},
        notes=list(dict.fromkeys([*record.notes, *more.notes])),
    )


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
        knobs=Extent,
        quick_knobs=QUICK,
    )
)
