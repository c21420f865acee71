"""Records of one plan, a seed each, as one Record: runs of an arm side by side, arms compared over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.record import Arm, Comparison, Record

if TYPE_CHECKING:
    from limbeck.measure.evaluator import TextEvaluator
    from limbeck.tasks.base import Task


def merged(records: Sequence[Record], seeds: Sequence[int]) -> Record:
    """The first Record with the runs of all, each under its seed; comparisons of single seeds are left out."""
    first = records[0]
    names = dict.fromkeys(arm.name for record in records for arm in record.arms)
    arms = [_joined(name, records, seeds) for name in names]
    notes = dict.fromkeys(note for record in records for note in record.notes)
    seconds = {arm.name: sum(run.seconds for run in arm.runs) for arm in arms if arm.role != "teacher"}
    return first.but(
        arms=arms,
        seeds=list(seeds),
        comparisons=[],
        disagreements=[],
        notes=list(notes),
        failed=[failure for record in records for failure in record.failed],
        seconds=seconds,
    )


def _joined(name: str, records: Sequence[Record], seeds: Sequence[int]) -> Arm:
    found = [
        (arm, seed) for record, seed in zip(records, seeds, strict=True) for arm in record.arms if arm.name == name
    ]
    return found[0][0].but(runs=[run.but(seed=seed) for arm, seed in found for run in arm.runs])


def open_task(part: Path) -> tuple[Task, TextEvaluator]:
    """The task of a finished part, and the evaluator of its rows."""
    from limbeck.core.progress import Silent
    from limbeck.jobs.compare_settings import CompareRun
    from limbeck.jobs.folder import RUN_FILE
    from limbeck.jobs.settings import read_run
    from limbeck.tasks.base import task_of

    run = CompareRun(**read_run(part / RUN_FILE))
    task = task_of(run, run.teacher)
    model = task.load(run.teacher)
    splits = task.read(None, model, Silent())
    return task, task.encode(splits, model, Silent()).evaluator  # type: ignore[return-value]


def logits_of_test(part: Path, arm: str, seed: int) -> np.ndarray:
    """What a finished trial answered on the test split."""
    from limbeck.jobs.trial import ARMS, TrialResult

    return TrialResult.load(part / ARMS / f"{arm}-seed{seed}").statistics


def compared_over(
    record: Record, evaluator: TextEvaluator, logits: Mapping[str, Sequence[np.ndarray]], baseline: str, rounds: int
) -> list[Comparison]:
    """Every arm against the baseline, on the same test rows and over all seeds."""
    from limbeck.measure.quality import compare

    test = evaluator.splits["test"]
    others = [name for name in logits if name != baseline]
    sure = 1 - 0.05 / max(len(others), 1)  # all intervals hold together (Bonferroni)
    return [
        compare(
            record.task,
            record.metric,
            name,
            baseline,
            logits[name],
            logits[baseline],
            test.labels,
            test.has_label,
            rounds=rounds,
            confidence=sure,
        )
        for name in others
    ]
