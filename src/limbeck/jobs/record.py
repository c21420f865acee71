"""From what was trained to a Record: the one place where Records and arms are built."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.card import METHODS, card_of
from limbeck.core.compress import PASSES
from limbeck.core.files import portable_command, portable_knobs, portable_texts
from limbeck.core.progress import Watcher
from limbeck.core.record import (
    Arm,
    Citation,
    Comparison,
    DataCard,
    Disagreement,
    Failure,
    Record,
    SeedResult,
    Size,
    Speed,
)
from limbeck.core.task import TaskInfo
from limbeck.jobs.plan import ArmPlan, Training
from limbeck.jobs.settings import Job
from limbeck.jobs.trial import TrialResult
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.machine import machine
from limbeck.measure.quality import compare
from limbeck.measure.size import size_of
from limbeck.measure.speed import speeds_of
from limbeck.recipes.recipe import RECIPES, Apply
from limbeck.report.facts import layers
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import Setup

TOGETHER = 0.95  # how sure all intervals are at once
TEACHER = "teacher"
TIMED_ONCE = "Models of one shape were timed once."


@dataclass(frozen=True)
class Finished:
    """What was run, and what came of it."""

    kind: str  # the verb
    run: Job
    setup: Setup
    arms: Sequence[ArmPlan]
    results: Mapping[str, Sequence[TrialResult]]  # arm → the seeds that were trained
    test: Evaluation | None  # the teacher on the test split
    teacher_folder: Path | None
    teacher_size: Size | None
    folder: Path
    command: str
    failed: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def done(self) -> list[ArmPlan]:
        return [arm for arm in self.arms if arm.name in self.results]

    @property
    def columns(self) -> list[ArmPlan]:
        """The arms that a person asked for."""
        return [arm for arm in self.done if arm.column]

    @property
    def single(self) -> bool:
        """One student, and at most its baseline: titles tell its shape, not its name."""
        return self.kind != "compare"

    def best(self) -> tuple[ArmPlan, TrialResult]:
        """The best by dev, of the arms with a teacher where there are any."""
        taught = [arm for arm in self.done if not arm.supervised] or self.done
        every = [(arm, one) for arm in taught for one in self.results[arm.name]]
        return max(every, key=lambda pair: pair[1].dev_score)


def build_record(finished: Finished, watcher: Watcher) -> Record:
    run, setup, data = finished.run, finished.setup, finished.setup.data
    speeds, troubles = _speeds(finished, watcher)
    arms = [
        *_teacher_arm(finished, speeds),
        *_in_order(finished, [_arm(finished, arm, speeds) for arm in finished.done]),
    ]
    card = finished.columns[0].data.card if finished.single and finished.columns else data.card
    record = Record(
        kind=finished.kind,
        name=finished.folder.name,
        created=now(),
        command=portable_command(finished.command),
        machine=machine(),
        seeds=run.seed_list,
        knobs=portable_knobs(run.model_dump()),
        fingerprints=_fingerprints(finished),
        task=setup.info,
        metric=setup.info.metric,
        data=portable_texts(card.model_dump()),
        arms=arms,
        comparisons=_comparisons(finished),
        failed=_together(finished.failed),
        disagreements=_disagreements(finished),
        figures=dict(finished.figures),
        seconds={arm.name: sum(one.seconds for one in arm.runs) for arm in arms if arm.role != TEACHER},
        citations=_citations(finished),
        notes=portable_texts([*finished.notes, *_notes(finished, card), *troubles]),
    )
    return setup.task.add_to_record(record, finished, watcher)


def measured_record(
    kind: str, name: str, command: str, info: TaskInfo, card: DataCard, arms: list[Arm], **more: Any
) -> Record:
    """Of models that are only measured."""
    return Record(
        kind=kind,
        name=name,
        created=now(),
        command=portable_command(command),
        machine=machine(),
        seeds=[],
        task=info,
        metric=info.metric,
        data=portable_texts(card.model_dump()),
        arms=arms,
        **{"fingerprints": {}, **more, "knobs": portable_knobs(more.get("knobs", {}))},
    )


def measured_arm(
    name: str,
    role: str,
    title: str,
    network: PreTrainedModel | None,
    size: Size | None,
    runs: Sequence[SeedResult] = (),
) -> Arm:
    """Of a saved model, or of an engine's, which has no network."""
    shape = shape_of(network) if network is not None else None
    return Arm(name=name, title=title, role=role, shape=shape, runs=list(runs), size=size)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def describe(network: PreTrainedModel) -> str:
    shape = shape_of(network)
    return f"{layers(shape)} × {shape.hidden}"


def _fingerprints(finished: Finished) -> dict[str, str]:
    own = finished.columns[0].data.fingerprints if finished.single and finished.columns else {}
    return {**finished.setup.fingerprints, **own}


def _teacher_arm(finished: Finished, speeds: Mapping[str, Speed]) -> list[Arm]:
    teacher, test = finished.setup.teacher, finished.test
    if test is None:
        return []
    if teacher is None:
        return [Arm(name=TEACHER, title="teacher, an engine", role=TEACHER, runs=[test.result()])]
    title = f"teacher, {describe(teacher.network)}" if finished.single else TEACHER
    return [
        Arm(
            name=TEACHER,
            title=title,
            role=TEACHER,
            shape=shape_of(teacher.network),
            runs=[test.result()],
            size=finished.teacher_size,
            speed=speeds.get(TEACHER),
        )
    ]


def _arm(finished: Finished, arm: ArmPlan, speeds: Mapping[str, Speed]) -> Arm:
    results, network = finished.results[arm.name], arm.start.network
    role = "model" if finished.kind == "train" else "baseline" if arm.supervised else "student"
    return Arm(
        name=arm.name,
        title=_title(finished, arm),
        role=role,
        objective="; then ".join(str(step.objective) for step in arm.trainings),
        shape=shape_of(network),
        runs=[one.result for one in results],
        size=size_of(network, results[0].model),
        speed=speeds.get(timed_as(arm)),
    )


def _title(finished: Finished, arm: ArmPlan) -> str:
    """A column's own name; a baseline that was added is known by whom it serves."""
    alone = finished.setup.task.labels_only
    if finished.kind == "train":
        return f"{describe(arm.start.network)}, trained on {alone.removesuffix(' only')}"
    if finished.single:
        return f"{describe(arm.start.network)}, {alone if arm.supervised else 'distilled'}"
    served = [other.name for other in finished.arms if other.baseline == arm.name]
    whose = " and ".join(served) if len(served) < 3 else f"{served[0]} and {len(served) - 1} more"
    return arm.name if arm.column else f"{alone}, beside {whose}"


def _in_order(finished: Finished, arms: Sequence[Arm]) -> list[Arm]:
    """The largest shape first, and of one shape the best first; a single student after its baseline."""
    info = finished.setup.info
    if finished.single:
        return list(arms)
    sign = -1 if info.higher_is_better else 1

    def worth(arm: Arm) -> tuple[float, str, float]:
        scored = [run.quality[info.metric] for run in arm.runs if info.metric in run.quality]
        mean = sign * sum(scored) / len(scored) if scored else math.inf
        return -(arm.size.parameters if arm.size else 0), str(arm.shape), mean

    return sorted(arms, key=worth)


def _speeds(finished: Finished, watcher: Watcher) -> tuple[dict[str, Speed], list[str]]:
    """Of the teacher and of one model of each build."""
    setup, run = finished.setup, finished.run
    folders = {timed_as(arm): finished.results[arm.name][0].model for arm in reversed(finished.done)}
    if finished.teacher_folder:
        folders = {TEACHER: finished.teacher_folder, **folders}
    if not run.measure.speed:
        return {}, []
    texts, longest = setup.task.timing_inputs(setup), setup.data.max_length or run.data.max_length
    return speeds_of(folders, texts, run.measure, longest, watcher, setup.task.beam)


def timed_as(arm: ArmPlan) -> str:
    """Models that share this take the same time: the same layers over the same tokens."""
    network: Any = arm.start.network
    return f"{shape_of(network).model_dump_json()} {network.num_parameters()} {getattr(arm.run, 'student_from', '')}"


def _comparisons(finished: Finished) -> list[Comparison]:
    """Each arm against the same student without a teacher, on the seeds that both have.

    Of many intervals at 95 % one in twenty misses, so that the best of them would be believed too easily. Each is
    taken wider instead (Bonferroni), and all of them hold together at 95 %."""
    pairs = [(arm, _paired(finished, arm)) for arm in finished.done if arm.baseline in finished.results]
    pairs = [(arm, both) for arm, both in pairs if both]
    labels, has_label = _test_labels(finished)
    if not pairs or not has_label.any():
        return []
    info = finished.setup.info
    sure = math.ceil(1e4 * (1 - (1 - TOGETHER) / len(pairs)) - 1e-6) / 1e4
    return [
        compare(
            info,
            info.metric,
            arm.name,
            arm.baseline,
            [mine.statistics for mine, _ in both],
            [theirs.statistics for _, theirs in both],
            labels,
            has_label,
            rounds=finished.run.measure.bootstrap,
            confidence=sure,
        )
        for arm, both in pairs
    ]


def _test_labels(finished: Finished) -> tuple[np.ndarray, np.ndarray]:
    """Beside the statistics; where these hold all there is, every row counts."""
    test = finished.test
    if test is not None and len(test.has_label):
        return test.labels, test.has_label
    rows = len(next(iter(finished.results.values()))[0].statistics)
    return np.ones(rows, dtype=bool), np.ones(rows, dtype=bool)


def _paired(finished: Finished, arm: ArmPlan) -> list[tuple[TrialResult, TrialResult]]:
    plain = {one.result.seed: one for one in finished.results[arm.baseline]}
    return [(one, plain[one.result.seed]) for one in finished.results[arm.name] if one.result.seed in plain]


def _disagreements(finished: Finished) -> list[Disagreement]:
    """Of the best student with its teacher."""
    return finished.best()[1].disagreements if finished.test is not None else []


def _together(failed: Sequence[Failure]) -> list[Failure]:
    """One entry for all seeds of an arm that failed alike."""

    def alike(one: Failure) -> tuple[str, str]:
        return one.arm, one.reason

    return [
        Failure(arm=arm, reason=reason, seeds=[seed for one in group for seed in one.seeds])
        for (arm, reason), group in groupby(sorted(failed, key=alike), key=alike)
    ]


def _citations(finished: Finished) -> list[Citation]:
    """Of every recipe, term with weight and pass, each paper once."""
    papers = [finished.setup.task.paper] if finished.kind == "train" else []
    for arm in sorted(finished.done if not papers else [], key=lambda arm: not arm.column):
        papers += [RECIPES[arm.recipe].paper] if arm.recipe in RECIPES else []
        for step in arm.steps:
            if isinstance(step, Training):
                papers += [METHODS[card_of(part).name].paper for weight, part in step.objective.weighted if weight]
            elif isinstance(step, Apply):
                papers += [card.paper for card in PASSES.values() if card.cls is type(step.compress)]
    unique = {paper.key: paper for paper in papers}
    return [Citation(text=str(paper), bibtex=paper.bibtex()) for paper in unique.values()]


def _notes(finished: Finished, card: DataCard) -> list[str]:
    run, notes = finished.run, [] if finished.single else _comparison_notes(finished)
    for arm in finished.columns if finished.single else ():
        notes += arm.data.notes
        if arm.data.augmented:
            notes.append(f"{arm.data.augmented:,} augmented texts were labelled by the teacher (--augment.kind).")
        if arm.uses_teacher and not arm.baseline:
            notes.append("No student was trained without the teacher, so what distillation gave is not known.")
        if arm.data.processor is not finished.setup.data.processor and finished.setup.teacher:
            notes.append("Student and teacher use different tokenizers; the teacher's outputs are per text.")
    notes += [f"{arm.name}: {note}" for arm in finished.done for note in finished.results[arm.name][0].notes]
    if finished.kind == "train":
        return notes
    dearer = [note for arm in finished.done if (note := _cost_note(finished, arm))]
    return [*notes, *dearer, *([] if finished.setup.info.over_vocabulary else label_notes(card))] if run else notes


def _comparison_notes(finished: Finished) -> list[str]:
    notes = []
    if len(finished.columns) > 1:
        notes.append(
            "Nothing was tuned: every column ran with the knobs of its recipe and of this run, once for each seed."
        )
    origins: dict[str, list[str]] = {}
    for arm in finished.columns:
        origins.setdefault(arm.start.origin, []).append(arm.name)
    notes += [f"{', '.join(names)}: {origin}" for origin, names in origins.items()]
    if finished.run.measure.speed and len({timed_as(arm) for arm in finished.done}) < len(finished.done):
        notes.append(TIMED_ONCE)
    return notes


def _cost_note(finished: Finished, arm: ArmPlan) -> str:
    """Where an arm learns from more rows, or for longer, than the student it is compared with."""
    plain = next((other for other in finished.arms if other.name == arm.baseline), None)
    if finished.single or plain is None or (arm.rows, round(arm.epochs, 6)) == (plain.rows, round(plain.epochs, 6)):
        return ""
    steps = [step.name for step in arm.trainings]
    over = f" in the steps {', '.join(steps)}" if len(steps) > 1 else ""
    return (
        f"{arm.name} learned for {arm.epochs:.3g} epochs of {arm.rows:,} rows{over}; the same student without a "
        f"teacher for {plain.epochs:.3g} of {plain.rows:,}."
    )


def label_notes(card: DataCard) -> list[str]:
    """What labels were missing for."""
    train, dev, test = (card.splits[name] for name in ("train", "dev", "test"))
    notes = []
    if train.labelled < train.rows:
        unlabelled = train.rows - train.labelled
        notes.append(f"{unlabelled} training rows have no label; only the teacher's terms learn from them.")
    if not dev.labelled:
        notes.append("The dev set has no labels: early stopping watched agreement with the teacher.")
    if not test.labelled:
        notes.append("The test set has no labels: only agreement with the teacher could be measured.")
    return notes
