"""Parts of sample records: texts, curves, scores, sizes."""

from __future__ import annotations

import math
import random
from typing import Any

from limbeck.core.record import (
    Citation,
    ClassScore,
    CurvePoint,
    DataCard,
    Disagreement,
    Fidelity,
    Machine,
    SeedResult,
    Shape,
    Size,
    Speed,
    SplitCard,
)

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
        engine="torch fp32",
        threads=1,
        p50_ms=p50,
        p95_ms=p50 * 1.3,
        batch=32,
        sentences_per_second=2600 / p50,
        peak_bytes=int(4.1e8 + 2e7 * p50),
        rounds=200,
    )


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
            text=text,
            label=[a, b, third, ""][i % 4],
            teacher=a,
            teacher_confidence=0.51 + 0.07 * (i % 7),
            student=b,
            student_confidence=0.93 - 0.05 * (i % 8),
        )
        for i, text in enumerate(texts * 2)
    ]
    return [
        *rows,
        Disagreement(
            text="A man sleeps.",
            pair="A man is asleep.",
            label=a,
            teacher=a,
            teacher_confidence=0.9,
            student=b,
            student_confidence=0.5,
        ),
    ]
