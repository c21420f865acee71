"""From the lanes of a comparison to its Record: every arm, each against its baseline, and what to know of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.progress import Watcher
from limbeck.core.record import Arm, Citation, Comparison, Failure, Record, SeedResult, Speed
from limbeck.measure.machine import machine
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.recipes.cell import Answers, Outcome
from limbeck.recipes.compare_lanes import Lane
from limbeck.recipes.ground import Ground
from limbeck.recipes.prepare import Material
from limbeck.recipes.run import Run
from limbeck.recipes.tell import citations, label_notes, now, speeds_of
from limbeck.students.sizes import shape_of

TOGETHER = 0.95  # how sure all intervals are at once
TIMED_ONCE = "Models of one shape were timed once."


@dataclass(frozen=True)
class Contest:
    """What was compared and what came of it."""

    run: Run
    columns: Collection[str]  # lanes that a person asked for
    budget: float  # minutes that were shared out; 0 for none
    material: Material | Ground
    lanes: Sequence[Lane]
    outcomes: dict[str, list[Outcome]]  # lane → the seeds that were trained
    teacher: Answers  # on the test split
    teacher_home: Path | None  # None for one that only translates
    failed: list[Failure]
    folder: Path
    command: str

    @property
    def done(self) -> list[Lane]:
        return [lane for lane in self.lanes if lane.name in self.outcomes]


def tell_compare(found: Contest, watcher: Watcher, stage: str, notes: Sequence[str] = ()) -> Record:
    run, material = found.run, found.material
    speeds, troubles = _speeds(found, watcher, stage)
    arms = [_teacher_arm(found, speeds), *_in_order(found, [_arm(found, lane, speeds) for lane in found.done])]
    return Record(
        kind="compare",
        name=found.folder.name,
        created=now(),
        command=found.command,
        machine=machine(),
        seeds=list(range(run.seed, run.seed + run.seeds)),
        knobs=run.model_dump(),
        fingerprints=material.fingerprints,
        task=material.task,
        metric=material.task.metric,
        data=material.card,
        arms=arms,
        comparisons=_comparisons(found),
        failed=_together(found.failed),
        seconds={arm.name: sum(one.seconds for one in arm.runs) for arm in arms if arm.role != "teacher"},
        citations=_citations(found),
        notes=[*notes, *_notes(found), *troubles],
    )


def _teacher_arm(found: Contest, speeds: dict[str, Speed]) -> Arm:
    said, teacher = found.teacher, found.material.teacher
    result = SeedResult(seed=0, quality=said.quality, per_class=list(said.per_class))
    if teacher is None:
        return Arm(name="teacher", title="teacher, a black box", role="teacher", runs=[result])
    return Arm(
        name="teacher",
        title="teacher",
        role="teacher",
        shape=shape_of(teacher.network),
        runs=[result],
        size=size_of(teacher.network, found.teacher_home),
        speed=speeds.get("teacher"),
    )


def _arm(found: Contest, lane: Lane, speeds: dict[str, Speed]) -> Arm:
    outcomes = found.outcomes[lane.name]
    network = lane.student.start.network
    phases = lane.cells[0].plan.phases
    return Arm(
        name=lane.name,
        title=_title(found, lane),
        role="baseline" if lane.plain else "student",
        objective="; then ".join(str(phase.objective) for phase in phases),
        shape=shape_of(network),
        runs=[one.result for one in outcomes],
        size=size_of(network, outcomes[0].model),
        speed=speeds.get(timed_as(lane)),
    )


def _title(found: Contest, lane: Lane) -> str:
    """A column's own name; a baseline that was added is known by whom it serves."""
    served = [other.name for other in found.lanes if other.than == lane.name]
    added = lane.plain and lane.name not in found.columns
    whose = " and ".join(served) if len(served) < 3 else f"{served[0]} and {len(served) - 1} more"
    alone = "given targets only" if found.material.task.is_seq2seq else "labels only"
    return f"{alone}, beside {whose}" if added else lane.name


def _in_order(found: Contest, arms: Sequence[Arm]) -> list[Arm]:
    """The largest shape first, and of one shape the best first."""
    task = found.material.task
    sign = -1 if task.higher_is_better else 1

    def worth(arm: Arm) -> tuple[float, str, float]:
        scored = [run.quality[task.metric] for run in arm.runs if task.metric in run.quality]
        return (
            -(arm.size.parameters if arm.size else 0),
            str(arm.shape),
            sign * sum(scored) / len(scored) if scored else math.inf,
        )

    return sorted(arms, key=worth)


def _speeds(found: Contest, watcher: Watcher, stage: str) -> tuple[dict[str, Speed], list[str]]:
    """Of the teacher and of one model of each build; and what hindered."""
    homes = {timed_as(lane): found.outcomes[lane.name][0].model for lane in reversed(found.done)}
    folders = {"teacher": found.teacher_home, **homes} if found.teacher_home else homes
    run, texts = found.run, found.material.texts
    beam = run.translate.test_beam if found.material.task.is_seq2seq else 0
    return speeds_of(folders, texts, run.measure, run.data.max_length, watcher, stage, beam)


def timed_as(lane: Lane) -> str:
    """Models that share this take the same time: the same layers over the same tokens."""
    network: Any = lane.student.start.network
    return f"{shape_of(network).model_dump_json()} {network.num_parameters()} {lane.student.run.student_from}"


def _comparisons(found: Contest) -> list[Comparison]:
    """Each column against the same student without a teacher, on the seeds that both have.

    Of many intervals at 95 % one in twenty misses, so that the best of them would be believed too easily. Each is
    taken wider instead (Bonferroni), and all of them hold together at 95 %."""
    task, test = found.material.task, found.teacher
    pairs = [(lane, _paired(found, lane)) for lane in found.done if lane.than in found.outcomes]
    pairs = [(lane, both) for lane, both in pairs if both]
    labels, has_label = (test.labels, test.has_label) if len(test.has_label) else (_every(test), _every(test))
    if not has_label.any():
        return []
    sure = math.ceil(1e4 * (1 - (1 - TOGETHER) / max(len(pairs), 1)) - 1e-6) / 1e4
    return [
        compare(
            task,
            task.metric,
            lane.name,
            lane.than,
            [mine.logits for mine, _ in both],
            [theirs.logits for _, theirs in both],
            labels,
            has_label,
            rounds=found.run.measure.bootstrap,
            confidence=sure,
        )
        for lane, both in pairs
    ]


def _every(test: Answers) -> np.ndarray:
    """Of translations every row has its target, which is in its sums already."""
    return np.ones(len(test.uids), dtype=bool)


def _paired(found: Contest, lane: Lane) -> list[tuple[Outcome, Outcome]]:
    plain = {one.result.seed: one for one in found.outcomes[lane.than]}
    return [(one, plain[one.result.seed]) for one in found.outcomes[lane.name] if one.result.seed in plain]


def _together(failed: Sequence[Failure]) -> list[Failure]:
    """One entry for all seeds of an arm that failed alike."""

    def alike(one: Failure) -> tuple[str, str]:
        return one.arm, one.reason

    return [
        Failure(arm=arm, reason=reason, seeds=[seed for one in group for seed in one.seeds])
        for (arm, reason), group in groupby(sorted(failed, key=alike), key=alike)
    ]


def _citations(found: Contest) -> list[Citation]:
    every = [
        cited
        for lane in found.done
        for phase in lane.cells[0].plan.phases
        for cited in citations("" if lane.plain else lane.student.run.recipe, phase.objective)
    ]
    return list({cited.bibtex: cited for cited in every}.values())


def _notes(found: Contest) -> list[str]:
    run, notes = found.run, []
    if len(found.columns) > 1:
        notes.append(
            "Nothing was tuned: every column ran with the knobs of its recipe and of this run, once for each seed."
        )
    notes += _origins(found)
    if run.measure.speed and len({timed_as(lane) for lane in found.done}) < len(found.done):
        notes.append(TIMED_ONCE)
    if found.budget:
        got = "; ".join(f"{_title(found, lane)} {lane.epochs:.3g} of {_asked_epochs(lane):.3g}" for lane in found.done)
        notes.append(f"A budget of {found.budget:g} min was shared out. Epochs trained: {got}.")
    notes += [note for lane in found.done if (note := _dearer(found, lane))]
    labels = [] if found.material.task.is_seq2seq else label_notes(found.material.card)
    return [*notes, *labels]


def _asked_epochs(lane: Lane) -> float:
    return lane.student.run.train.epochs if lane.plain else lane.student.plan.epochs


def _origins(found: Contest) -> list[str]:
    """Where students start, each way once, with the columns that it is true of."""
    ways: dict[str, list[str]] = {}
    for lane in found.done:
        if lane.name in found.columns:  # added baselines start as the column beside them
            ways.setdefault(lane.student.start.origin, []).append(lane.name)
    return [f"{', '.join(names)}: {origin}" for origin, names in ways.items()]


def _dearer(found: Contest, lane: Lane) -> str:
    """Where a column learns from more rows, or for longer, than the student it is compared with."""
    plain = next((other for other in found.lanes if other.name == lane.than), None)
    if plain is None or (lane.rows, round(lane.epochs, 6)) == (plain.rows, round(plain.epochs, 6)):
        return ""
    stages = [phase.name for phase in lane.cells[0].plan.phases]
    over = f" in the stages {', '.join(stages)}" if len(stages) > 1 else ""
    return (
        f"{lane.name} learned for {lane.epochs:.3g} epochs of {lane.rows:,} rows{over}; the same student without a "
        f"teacher for {plain.epochs:.3g} of {plain.rows:,}."
    )
