"""Records with a floor, a confusion matrix, a reliability curve, starts and every cause of a warning."""

from __future__ import annotations

import random

from limbeck.core.record import Arm, Floor, Record, ReliabilityBin, SeedResult

TOPICS = ("abbreviation", "description", "entity", "human", "location", "number")


def confusion(labels: int, accuracy: float, seed: int = 0, rows: int = 60) -> list[list[int]]:
    rng = random.Random(seed)
    table = [[0] * labels for _ in range(labels)]
    for label in range(labels):
        for _ in range(rows):
            beside = (label + rng.choice((1, 1, 1, 2))) % labels
            table[label][label if rng.random() < accuracy else beside] += 1
    return table


def reliability(over: float, lowest: float = 0.5, rows: int = 1066) -> list[ReliabilityBin]:
    """Ten bins, of which the last ones hold most rows; `over` is how much too sure the model is."""
    width = (1 - lowest) / 10
    bins = []
    for i in range(10):
        sure = lowest + width * (i + 0.5)
        part = rows * (i + 1) ** 2 // 385
        bins.append(
            ReliabilityBin(
                low=lowest + width * i, high=lowest + width * (i + 1), rows=part, confidence=sure, accuracy=sure - over
            )
        )
    return bins


def _checked(run: SeedResult, labels: int, over: float) -> SeedResult:
    lowest = 0.5 if labels == 2 else 0.0
    table = confusion(labels, run.quality["accuracy"], run.seed)
    return run.but(confusion=table, reliability=reliability(over, lowest))


def checked(record: Record, floor: float = 0.512) -> Record:
    """The record as a run writes it that measures all there is."""
    labels = record.task.labels
    arms = [
        arm.but(
            runs=[_checked(run, len(labels), 0.02 if arm.role == "teacher" else 0.08) for run in arm.runs],
            start="" if arm.role == "teacher" else _start(arm),
        )
        for arm in record.arms
    ]
    quality = {"accuracy": floor, "f1_macro": floor / len(labels), "matthews": 0.0}
    return record.but(arms=arms, floor=Floor(title=f"most frequent class ({labels[-1]})", quality=quality))


def _start(arm: Arm) -> str:
    deep = arm.shape.layers if arm.shape else 0
    return "random weights" if deep == 1 else f"layers {', '.join(str(2 * i) for i in range(deep))} of the teacher"


def untaught(record: Record) -> Record:
    """A student that learned nothing, on rows that it has seen, timed on a busy machine."""
    record = checked(record)
    arms = []
    for arm in record.arms:
        runs, speed = arm.runs, arm.speed.but(busy=True) if arm.speed else None
        if arm.role == "student":
            runs = [run.but(quality=record.floor.quality | {"ece": 0.2}, constant="positive") for run in runs]
        arms.append(arm.but(runs=runs, speed=speed))
    return record.but(arms=arms, data=record.data.but(overlap=83))
