"""From what was trained to a Record: quality, fidelity, size, speed, and the honest sentence."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from limbeck.core.card import METHODS, card_of
from limbeck.core.files import explained
from limbeck.core.objective import Objective, wants
from limbeck.core.progress import Watcher
from limbeck.core.record import Arm, Citation, Comparison, Disagreement, Record, SeedResult, Speed
from limbeck.data.corpus import Examples
from limbeck.measure.fidelity import disagreements, fidelity
from limbeck.measure.machine import machine
from limbeck.measure.quality import quality
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.measure.speed import interleaved
from limbeck.recipes.cell import Outcome
from limbeck.recipes.prepare import Model, Prepared
from limbeck.recipes.recipe import RECIPES
from limbeck.students.open import open_classifier, quiet, shape_of


@dataclass(frozen=True)
class Findings:
    ready: Prepared
    teacher_logits: np.ndarray  # on the test rows
    teacher_home: Path
    outcomes: dict[str, list[Outcome]]  # arm → one per seed
    folder: Path
    command: str


def tell(found: Findings, watcher: Watcher, stage: str) -> Record:
    ready, run = found.ready, found.ready.run
    speeds: dict[str, Speed] = {}
    if run.measure.speed:
        folders = {"teacher": found.teacher_home} | {name: done[0].model for name, done in found.outcomes.items()}
        speeds = measure_speed(folders, texts_of(ready.corpus.test), run.measure, run.data.max_length, watcher, stage)
    arms = [_teacher_arm(found, speeds.get("teacher"))]
    arms += [_student_arm(found, name, speeds.get(name)) for name in found.outcomes]
    return Record(
        kind="distill",
        name=found.folder.name,
        created=now(),
        command=found.command,
        machine=machine(),
        seeds=[outcome.result.seed for outcome in found.outcomes["distilled"]],
        knobs=run.model_dump(),
        fingerprints=ready.fingerprints,
        task=ready.task,
        metric=ready.task.metric,
        data=ready.corpus.card.but(truncated=sum(split.truncated for split in ready.for_student.values())),
        arms=arms,
        comparisons=_comparisons(found),
        disagreements=_partings(found),
        seconds={arm.name: sum(run.seconds for run in arm.runs) for arm in arms},
        citations=citations(run.recipe, ready.objective),
        notes=_notes(found),
    )


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def texts_of(examples: Examples) -> list[tuple[str, str]]:
    return list(zip(examples.texts, examples.pairs or [""] * len(examples), strict=True))


def measure_speed(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    stage: str,
) -> dict[str, Speed]:
    probes = len(folders) * settings.repeats
    note = "latency and memory, one process at a time"
    watcher.at(stage, 0.0, note)
    return interleaved(
        folders,
        texts[: max(settings.rounds, 256)],
        on_probe=lambda done: watcher.at(stage, 0.95 * done / probes, note),
        repeats=settings.repeats,
        threads=settings.threads,
        rounds=settings.rounds,
        batch=settings.batch_size,
        max_length=max_length,
    )


def settle(model: Model, home: Path) -> Path:
    """The folder of a model; one that is not in a folder of its own is written to `home`."""
    if model.where and Path(model.where).is_dir():
        return Path(model.where)
    if not home.exists():
        part = home.with_name(f".{home.name}.part")
        with explained(home), quiet():
            model.network.save_pretrained(part)
            model.tokenizer.save_pretrained(part)
            part.rename(home)
    return home


def _teacher_arm(found: Findings, speed: Speed | None) -> Arm:
    ready = found.ready
    test = ready.corpus.test
    scores, per_class = quality(ready.task, found.teacher_logits, test.labels, test.labelled)
    return Arm(
        name="teacher",
        title=f"teacher, {describe(ready.teacher.network)}",
        role="teacher",
        shape=shape_of(ready.teacher.network),
        runs=[SeedResult(seed=0, quality=scores, per_class=per_class)],
        size=size_of(ready.teacher.network, found.teacher_home),
        speed=speed,
    )


def _student_arm(found: Findings, name: str, speed: Speed | None) -> Arm:
    ready, outcomes = found.ready, found.outcomes[name]
    test = ready.corpus.test
    network, _ = open_classifier(outcomes[0].model)
    runs = [
        outcome.result.but(
            fidelity=fidelity(ready.task, outcome.logits, found.teacher_logits, test.labels, test.labelled)
        )
        for outcome in outcomes
    ]
    distilled = name == "distilled"
    return Arm(
        name=name,
        title=f"{describe(network)}, {'distilled' if distilled else 'labels only'}",
        role="student" if distilled else "baseline",
        objective=str(ready.objective) if distilled else "1 * Labels()",
        shape=shape_of(network),
        runs=runs,
        size=size_of(network, outcomes[0].model),
        speed=speed,
    )


def describe(network: PreTrainedModel) -> str:
    shape = shape_of(network)
    return f"{shape.layers} layer{'s' if shape.layers > 1 else ''} × {shape.hidden}"


def _comparisons(found: Findings) -> list[Comparison]:
    test = found.ready.corpus.test
    if "plain" not in found.outcomes or not test.labelled.any():
        return []
    a, b = ([outcome.logits for outcome in found.outcomes[name]] for name in ("distilled", "plain"))
    task, rounds = found.ready.task, found.ready.run.measure.bootstrap
    return [compare(task, task.metric, "distilled", "plain", a, b, test.labels, test.labelled, rounds=rounds)]


def _partings(found: Findings) -> list[Disagreement]:
    ready, test = found.ready, found.ready.corpus.test
    best = max(found.outcomes["distilled"], key=lambda outcome: outcome.dev_score)
    return disagreements(
        ready.task,
        test.texts,
        test.pairs,
        best.logits,
        found.teacher_logits,
        test.labels,
        test.labelled,
        most=ready.run.measure.examples,
    )


def citations(recipe: str, objective: Objective) -> list[Citation]:
    """Of the recipe and of every term with weight, each paper once."""
    papers = [RECIPES[recipe].paper] if recipe in RECIPES else []
    papers += [METHODS[card_of(part).name].paper for weight, part in objective.weighted if weight]
    unique = {paper.key: paper for paper in papers}
    return [Citation(text=str(paper), bibtex=paper.bibtex()) for paper in unique.values()]


def _notes(found: Findings) -> list[str]:
    ready, notes = found.ready, []
    unlabelled = int((~ready.corpus.train.labelled).sum())
    if unlabelled:
        notes.append(f"{unlabelled} training rows have no label; only the teacher's terms learn from them.")
    if not ready.corpus.dev.labelled.any():
        notes.append("The dev set has no labels: early stopping watched agreement with the teacher.")
    if not ready.corpus.test.labelled.any():
        notes.append("The test set has no labels: only agreement with the teacher could be measured.")
    if "plain" not in found.outcomes and wants(ready.objective):
        notes.append("No student was trained without the teacher, so what distillation gave is not known.")
    if ready.for_student is not ready.for_teacher and ready.student is not None:
        notes.append("Student and teacher use different tokenizers; the teacher's answers are per text.")
    return notes
