"""Records such as runs write, made without running anything."""

from __future__ import annotations

import math
import random
from typing import Any

from limbeck.core.record import (
    Arm,
    Citation,
    ClassScore,
    Comparison,
    CurvePoint,
    DataCard,
    Disagreement,
    Fidelity,
    Machine,
    Record,
    SeedResult,
    Shape,
    Size,
    Speed,
    SplitCard,
)
from limbeck.core.task import Task

HOSTILE = '<script>alert(1)</script> & "quotes" <img src=x onerror=alert(2)> {{ 7*7 }} [bold]x[/bold]'
LONG = "An endless sentence about a film that would not stop. " * 60 + "u" * 400
ARABIC = "فيلم جميل ومؤثر، لكنه طويل بعض الشيء"
CHINESE = "这部电影的节奏很慢，但是演员的表演令人难忘。"

WOBBLE = (-0.0052, 0.0013, 0.0039, 0.0008, -0.0008)  # what chance does to a seed; the first three sum to zero

MACHINE = Machine(
    system="Linux 6.1",
    processor="Intel Xeon Gold 6248",
    cores=2,
    memory_bytes=24 * 10**9,
    python="3.11.2",
    versions={"limbeck": "0.1.0", "torch": "2.13.0", "transformers": "5.22.2"},
)
HINTON = Citation(
    text="Hinton, Vinyals, Dean (2015). Distilling the Knowledge in a Neural Network. NIPS workshop.",
    bibtex="@misc{hinton2015,\n  title = {Distilling the Knowledge in a Neural Network},\n"
    "  year = {2015},\n  url = {https://arxiv.org/abs/1503.02531}\n}",
)
KNOBS: dict[str, Any] = {
    "teacher": "runs/teacher",
    "student": {"layers": 3, "which": "every", "heads": None},
    "train": {"epochs": 4, "batch": 32, "rate": 5e-5, "warmup": 0.1, "bucket": True},
    "objective": [{"name": "labels", "weight": 0.5}, {"name": "hinton", "weight": 0.5, "temperature": 4.0}],
    "data": {"text_column": "text", "label_column": "label", "max_length": 128},
}


def curve(seed: int, best: float, terms: tuple[str, ...] = ("labels",), epochs: int = 4) -> list[CurvePoint]:
    rng, points = random.Random(seed), []
    for i in range(1, 4 * epochs + 1):
        epoch, fade = i / 4, math.exp(-i / 5)
        losses = {name: (0.35 + 0.4 * fade + rng.gauss(0, 0.012)) * (1 if name == "labels" else 3) for name in terms}
        dev = {"accuracy": best - 0.12 * fade + rng.gauss(0, 0.004), "loss": 0.5} if i % 2 == 0 else {}
        points.append(
            CurvePoint(step=40 * i, epoch=epoch, loss=sum(losses.values()) / len(terms), terms=losses, dev=dev)
        )
    return points


def seed_result(
    seed: int, accuracy: float, labels: tuple[str, ...], taught: bool, terms: tuple[str, ...] = ("labels",)
) -> SeedResult:
    rng = random.Random(f"{seed}{accuracy}")
    per_class = [
        ClassScore(label=label, precision=accuracy, recall=accuracy, f1=accuracy + rng.uniform(-0.04, 0.04), rows=533)
        for label in labels
    ]
    fidelity = Fidelity(
        agreement=0.915 + rng.uniform(-0.01, 0.01),
        divergence=0.06,
        teacher_right_rows=871,
        teacher_wrong_rows=195,
        accuracy_teacher_right=0.928 + rng.uniform(-0.006, 0.006),
        accuracy_teacher_wrong=0.283 + rng.uniform(-0.02, 0.02),
    )
    quality = {
        "accuracy": accuracy,
        "f1_macro": accuracy - 0.001,
        "matthews": 2 * accuracy - 1,
        "ece": 0.031 if taught else 0.058,
    }
    return SeedResult(
        seed=seed,
        quality=quality,
        per_class=per_class,
        fidelity=fidelity if terms != () else None,
        curve=curve(seed, accuracy, terms) if terms else [],
        seconds=104.0 + seed,
        best_step=480,
        sentences_per_second=155.0,
    )


def speed(p50: float) -> Speed:
    return Speed(
        engine="torch fp32", threads=1, p50_ms=p50, p95_ms=p50 * 1.3, batch=32, sentences_per_second=2600 / p50,
        peak_bytes=int(4.1e8 + 2e7 * p50), rounds=200,
    )  # fmt: skip


def shape(layers: int) -> Shape:
    return Shape(architecture="BertForSequenceClassification", layers=layers, hidden=384, heads=12, feed_forward=1536)


def size(layers: int) -> Size:
    inner = layers * 1_774_464
    return Size(
        parameters=11_920_000 + inner, parameters_without_embeddings=inner, bytes_on_disk=4 * (11_920_000 + inner)
    )


def data(rows: int = 1066) -> DataCard:
    half = {"negative": rows // 2, "positive": rows - rows // 2}
    return DataCard(
        source="reviews.csv",
        columns={"text": "text", "label": "label"},
        read=8530,
        dropped={"empty text": 3, "label missing": 11},
        duplicates=27,
        conflicts=2,
        truncated=5,
        splits={
            "train": SplitCard(source="80 % by a hash of the text", rows=6814, labelled=6814),
            "dev": SplitCard(source="by a hash of the text", rows=636, labelled=636),
            "test": SplitCard(source="by a hash of the text", rows=rows, labelled=rows, per_class=half),
        },
        notes=["Columns were found by name: text, label."],
    )


def disagreements(labels: tuple[str, ...]) -> list[Disagreement]:
    a, b = labels[0], labels[1]
    third = labels[2] if len(labels) > 2 else a
    texts = [
        HOSTILE,
        LONG,
        ARABIC,
        CHINESE,
        "a film of quiet power that stays with you",
        "neither warm nor funny, and too long by half",
    ]
    rows = [
        Disagreement(
            text=text, label=[a, b, third, ""][i % 4], teacher=a, teacher_confidence=0.51 + 0.07 * (i % 7),
            student=b, student_confidence=0.93 - 0.05 * (i % 8),
        )
        for i, text in enumerate(texts * 2)
    ]  # fmt: skip
    return [*rows, Disagreement(text="A man sleeps.", pair="A man is asleep.", label=a, teacher=a, teacher_confidence=0.9, student=b, student_confidence=0.5)]  # fmt: skip


def distill(
    name: str = "small", seeds: int = 3, labels: tuple[str, ...] = ("negative", "positive"), student: float = 0.8155,
    plain: float = 0.801, p50: float = 6.4, layers: int = 3, rows: int = 1066,
) -> Record:  # fmt: skip
    """Teacher, plain student and distilled student, as `limbeck distill` leaves them."""
    teacher = Arm(
        name="teacher", title="Teacher, 6 layers", role="teacher", shape=shape(6), size=size(6), speed=speed(12.3),
        runs=[seed_result(0, 0.817, labels, True, ())],
    )  # fmt: skip
    arms = [teacher]
    for arm, role, base, terms, goal in (
        ("plain", "baseline", plain, ("labels",), "1 * labels"),
        ("distilled", "student", student, ("labels", "soft"), "0.5 * labels + 0.5 * hinton(temperature=4)"),
    ):
        runs = [
            seed_result(s, base + (WOBBLE[s] if seeds > 1 else 0), labels, arm == "distilled", terms)
            for s in range(seeds)
        ]
        arms.append(
            Arm(
                name=arm, title=f"{layers} layers, {arm}", role=role, objective=goal, shape=shape(layers), runs=runs,
                size=size(layers), speed=speed(p50 if arm == "distilled" else p50 + 0.1),
            )
        )  # fmt: skip
    gain = student - plain
    helped = f"Distillation helped by {100 * gain:.1f} points of accuracy (95 % interval 0.3 to 2.6, {seeds} seeds)."
    honest = helped if gain > 0 else "Distillation did not help: the interval of the difference holds zero."
    comparison = Comparison(
        better="distilled", than="plain", metric="accuracy", difference=gain, low=gain - 0.0115, high=gain + 0.0115,
        seeds=seeds, rows=rows, sentence=honest,
    )  # fmt: skip
    return Record(
        kind="distill", name=name, created="2025-11-15T20:55:00Z", machine=MACHINE, seeds=list(range(seeds)), knobs=KNOBS,
        command=f"limbeck distill --teacher runs/teacher --data reviews.csv --student.layers {layers} --seeds {seeds} --out runs/{name}",
        fingerprints={"teacher": "9f2c41d0aa7e5b1c9f2c41d0aa7e5b1c", "tokenizer": "1b7a", "data": "c0ffee00c0ffee00c0ffee00"},
        task=Task(kind="classify", labels=labels), metric="accuracy", data=data(rows), arms=arms, comparisons=[comparison],
        disagreements=disagreements(labels), figures={"teacher answers cached, bytes": 109_024.0},
        seconds={"teacher answers": 31.2, "plain": 318.0, "distilled": 327.5, "measuring": 48.9}, citations=[HINTON],
    )  # fmt: skip


def without_labels() -> Record:
    """A distilled student on unlabelled text: fidelity is known, quality is not, speed was not taken."""
    record = distill("unlabelled", seeds=1)
    arms = []
    for arm in record.arms:
        runs = [run.but(quality={}, per_class=[], curve=[]) for run in arm.runs]
        arms.append(arm.but(runs=runs, speed=None))
    return record.but(arms=arms, comparisons=[])


def evaluated() -> Record:
    record = distill("scored")
    arm = Arm(name="model", title="bert-tiny", role="model", runs=[SeedResult(seed=0, quality={"accuracy": 0.734})])
    return record.but(
        kind="eval",
        arms=[arm],
        comparisons=[],
        disagreements=[],
        seeds=[0],
        citations=[],
        knobs={},
        seconds={},
        figures={},
    )


def benched() -> Record:
    arm = Arm(name="model", title="bert-tiny", role="model", runs=[], size=size(2), speed=speed(3.21))
    return evaluated().but(kind="bench", name="timed", arms=[arm], data=DataCard(source="", columns={}, read=0))


def trained() -> Record:
    record = distill("teacher")
    plain = record.arm("plain")
    runs = [run.but(fidelity=None) for run in plain.runs]
    arm = plain.but(name="teacher", title="MiniLM-L6", role="teacher", runs=runs)
    return record.but(kind="train", arms=[arm], comparisons=[], disagreements=[])


def regression() -> Record:
    record = distill("similarity", seeds=2)
    arms = []
    for arm, base in zip(record.arms, (0.861, 0.812, 0.842), strict=True):
        runs = [
            SeedResult(
                seed=run.seed,
                quality={"pearson": base + 0.003 * run.seed, "spearman": base - 0.01, "mse": 0.52},
                fidelity=Fidelity(agreement=0.951, divergence=0.11) if arm.role != "teacher" else None,
            )
            for run in arm.runs
        ]
        arms.append(arm.but(runs=runs))
    rows = [Disagreement(text="A man sleeps.", pair="A cat runs.", label="0.2", teacher="0.4", teacher_confidence=1, student="2.9", student_confidence=1)]  # fmt: skip
    comparison = record.comparisons[0].but(metric="pearson", difference=0.03, low=0.012, high=0.049)
    columns = {"text": "sentence1", "pair": "sentence2", "label": "score"}
    return record.but(
        task=Task(kind="regress"), metric="pearson", arms=arms, disagreements=rows, comparisons=[comparison],
        data=record.data.but(columns=columns),
    )  # fmt: skip


def multilabel() -> Record:
    record = distill("moods", seeds=1, labels=("joy", "fear", "calm"))
    arms = [
        arm.but(runs=[run.but(quality={"f1_micro": 0.61, "f1_macro": 0.55}, curve=[]) for run in arm.runs])
        for arm in record.arms
    ]
    comparison = record.comparisons[0].but(metric="f1_micro")
    return record.but(
        task=Task(kind="multilabel", labels=("joy", "fear", "calm")),
        metric="f1_micro",
        arms=arms,
        comparisons=[comparison],
    )


def many_classes() -> Record:
    return distill("topics", labels=tuple(f"topic {i} of the long list" for i in range(14)))


def every() -> dict[str, Record]:
    return {
        "distill": distill(),
        "one seed": distill("once", seeds=1, rows=180),
        "worse and slower": distill("worse", student=0.72, plain=0.74, p50=15.0),
        "without labels": without_labels(),
        "eval": evaluated(),
        "bench": benched(),
        "train": trained(),
        "regress": regression(),
        "multilabel": multilabel(),
        "many classes": many_classes(),
    }
