"""From what was trained to a Record: quality, fidelity, size, speed, and the honest sentence."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from limbeck.core.card import METHODS, card_of
from limbeck.core.errors import LimbeckError
from limbeck.core.files import explained
from limbeck.core.objective import Objective, wants
from limbeck.core.progress import Watcher
from limbeck.core.record import Arm, Citation, Comparison, DataCard, Disagreement, Record, SeedResult, Speed
from limbeck.data.corpus import Corpus
from limbeck.measure.disagreements import text_disagreements
from limbeck.measure.machine import machine
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.measure.speed import interleaved
from limbeck.recipes.cell import Answers, Outcome
from limbeck.recipes.prepare import Model, Prepared
from limbeck.recipes.recipe import RECIPES
from limbeck.report.units import layers
from limbeck.students.open import quiet, shape_of
from limbeck.students.saved import open_saved


@dataclass(frozen=True)
class Findings:
    ready: Prepared
    teacher: Answers  # on the test split
    teacher_home: Path
    outcomes: dict[str, list[Outcome]]  # arm → one per seed
    folder: Path
    command: str


def tell(found: Findings, watcher: Watcher, stage: str) -> Record:
    ready, run = found.ready, found.ready.run
    folders = {"teacher": found.teacher_home} | {name: done[0].model for name, done in found.outcomes.items()}
    texts = ready.material.matter.texts
    speeds, troubles = speeds_of(folders, texts, run.measure, run.data.max_length, watcher, stage)
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
        disagreements=_disagreements(found),
        seconds={arm.name: sum(run.seconds for run in arm.runs) for arm in arms},
        citations=citations(run.recipe, ready.objective),
        notes=[*_notes(found), *troubles],
    )


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def measure_speed(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    stage: str,
    beam: int = 0,
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
        beam=beam,
    )


def speeds_of(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    stage: str,
    beam: int = 0,
) -> tuple[dict[str, Speed], list[str]]:
    """If asked for, of every model that can be timed; and what hindered. Trained models outlive a clock that fails."""
    how = (texts, settings, max_length, watcher, stage, beam)
    if not settings.speed:
        return {}, []
    try:
        return measure_speed(folders, *how), []
    except LimbeckError:
        speeds: dict[str, Speed] = {}
        notes = []
        for name, home in folders.items():
            try:
                speeds |= measure_speed({name: home}, *how)
            except LimbeckError as error:
                notes.append(f"Not timed: {error.problem.strip().splitlines()[0].rstrip(':')}.")
        if len(speeds) > 1:
            notes.insert(
                0, "Models were timed one after another, not in rotation, since one of them could not be timed."
            )
        return speeds, notes


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
    ready, said = found.ready, found.teacher
    return Arm(
        name="teacher",
        title=f"teacher, {describe(ready.teacher.network)}",
        role="teacher",
        shape=shape_of(ready.teacher.network),
        runs=[SeedResult(seed=0, quality=said.quality, per_class=list(said.per_class))],
        size=size_of(ready.teacher.network, found.teacher_home),
        speed=speed,
    )


def _student_arm(found: Findings, name: str, speed: Speed | None) -> Arm:
    ready, outcomes = found.ready, found.outcomes[name]
    network, _ = open_saved(outcomes[0].model)
    distilled = name == "distilled"
    return Arm(
        name=name,
        title=f"{describe(network)}, {'distilled' if distilled else 'labels only'}",
        role="student" if distilled else "baseline",
        objective=str(ready.objective) if distilled else "1 * Labels()",
        shape=shape_of(network),
        runs=[outcome.result for outcome in outcomes],
        size=size_of(network, outcomes[0].model),
        speed=speed,
    )


def describe(network: PreTrainedModel) -> str:
    shape = shape_of(network)
    return f"{layers(shape)} × {shape.hidden}"


def _comparisons(found: Findings) -> list[Comparison]:
    test = found.teacher
    if "plain" not in found.outcomes or not test.has_label.any():
        return []
    a, b = ([outcome.logits for outcome in found.outcomes[name]] for name in ("distilled", "plain"))
    task, rounds = found.ready.task, found.ready.run.measure.bootstrap
    return [compare(task, task.metric, "distilled", "plain", a, b, test.labels, test.has_label, rounds=rounds)]


def _disagreements(found: Findings) -> list[Disagreement]:
    """Where student and teacher say different things of a text; of places in texts none are shown."""
    ready, corpus = found.ready, found.ready.corpus
    if not isinstance(corpus, Corpus):
        return []
    best = max(found.outcomes["distilled"], key=lambda outcome: outcome.dev_score)
    return text_disagreements(
        ready.task,
        corpus.test.texts,
        corpus.test.pairs,
        best.logits,
        found.teacher.logits,
        corpus.test.labels,
        corpus.test.has_label,
        most=ready.run.measure.examples,
    )


def citations(recipe: str, objective: Objective) -> list[Citation]:
    """Of the recipe and of every term with weight, each paper once."""
    papers = [RECIPES[recipe].paper] if recipe in RECIPES else []
    papers += [METHODS[card_of(part).name].paper for weight, part in objective.weighted if weight]
    unique = {paper.key: paper for paper in papers}
    return [Citation(text=str(paper), bibtex=paper.bibtex()) for paper in unique.values()]


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


def _notes(found: Findings) -> list[str]:
    ready, notes = found.ready, label_notes(found.ready.corpus.card)
    if len(ready.extra):
        notes.append(f"{len(ready.extra):,} texts were made up for the teacher to answer (--augment.kind).")
    if "plain" not in found.outcomes and wants(ready.objective):
        notes.append("No student was trained without the teacher, so what distillation gave is not known.")
    if ready.for_student is not ready.for_teacher and ready.student is not None:
        notes.append("Student and teacher use different tokenizers; the teacher's answers are per text.")
    return notes
