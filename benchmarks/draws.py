"""Students of several draws or seeds, trained in parts of their own, side by side in one Record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from limbeck.core.record import Arm, Record
from limbeck.experiments.seeds import compared_over, logits_of_test, merged, open_task

ROUNDS = 10_000  # of the bootstrap


@dataclass(frozen=True)
class Column:
    """An arm of the comparison: in which part of a draw it was trained, and how a reader calls it."""

    name: str
    part: str
    arm: str
    title: str
    than: str = "labels"  # which column it is compared with

    @property
    def role(self) -> str:
        return "baseline" if self.arm in ("plain", "finetune") else "student"


def record_of(draws: Sequence[Path], numbers: Sequence[int], columns: Sequence[Column]) -> Record:
    """A run of each column for every draw, each column compared with its baseline on the same test rows.

    `draws` are folders with a folder for each part, `numbers` the seeds of the arms in them. The first column's part
    gives the Record its data, teacher and notes."""

    def of_draws(part: str) -> Record:
        return merged([Record.load(draw / part) for draw in draws], numbers)

    found = {part: of_draws(part) for part in dict.fromkeys(column.part for column in columns)}
    whole = found[columns[0].part]
    arms = [whole.arm("teacher"), *(_arm(found[column.part], column) for column in columns)]
    logits = {
        column.name: [
            logits_of_test(draw / column.part, column.arm, at) for draw, at in zip(draws, numbers, strict=True)
        ]
        for column in columns
    }
    _, evaluator = open_task(draws[0] / columns[0].part)
    comparisons = []
    for baseline in dict.fromkeys(column.than for column in columns):
        of_it = {column.name: logits[column.name] for column in columns if column.than == baseline}
        comparisons += compared_over(whole, evaluator, of_it, baseline, ROUNDS)
    seconds = {arm.name: sum(run.seconds for run in arm.runs) for arm in arms}
    return whole.but(kind="compare", arms=arms, comparisons=comparisons, seconds=seconds)


def _arm(record: Record, column: Column) -> Arm:
    return record.arm(column.arm).but(name=column.name, title=column.title, role=column.role)
