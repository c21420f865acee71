"""From trained language models to a Record: perplexity, closeness to the teacher, size, speed, the honest sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.objective import Objective, wants
from limbeck.core.progress import Watcher
from limbeck.core.record import Arm, Comparison, Record, SeedResult, Speed
from limbeck.core.task import LanguageKind
from limbeck.measure.machine import machine
from limbeck.measure.significance import compare
from limbeck.measure.size import size_of
from limbeck.recipes.cell import Answers, Outcome
from limbeck.recipes.finetune import without_teacher
from limbeck.recipes.run import Run
from limbeck.recipes.tell import citations, describe, now, speeds_of
from limbeck.recipes.words import Words, sample_of
from limbeck.students.open import open_language_model, shape_of
from limbeck.teachers.topk import Info


@dataclass(frozen=True)
class WordFindings:
    run: Run
    words: Words
    objective: Objective
    tokenizer: Any
    fingerprints: dict[str, str]
    notes: list[str]
    kept: Info | None  # the teacher's answers on disk
    teacher_home: Path | None
    teacher: Answers | None  # on the test split
    outcomes: dict[str, list[Outcome]]  # arm → one per seed
    folder: Path
    command: str


def tell_words(found: WordFindings, watcher: Watcher, stage: str) -> Record:
    run, words = found.run, found.words
    homes = {name: done[0].model for name, done in found.outcomes.items()}
    if found.teacher_home:
        homes = {"teacher": found.teacher_home, **homes}
    texts = sample_of(words.corpus.test, found.tokenizer)
    speeds, troubles = speeds_of(homes, texts, run.measure, words.corpus.length, watcher, stage)
    arms = [_arm(found, name, home, speeds.get(name)) for name, home in homes.items()]
    figures = (
        {"cache_bytes_per_token": found.kept.bytes_per_token, "cache_bytes": found.kept.bytes} if found.kept else {}
    )
    return Record(
        kind="distill",
        name=found.folder.name,
        created=now(),
        command=found.command,
        machine=machine(),
        seeds=[outcome.result.seed for outcome in found.outcomes["distilled"]],
        knobs=run.model_dump(),
        fingerprints=found.fingerprints,
        task=words.task,
        metric=words.task.metric,
        data=words.corpus.card,
        arms=arms,
        comparisons=_comparisons(found),
        figures=figures,
        seconds={arm.name: sum(one.seconds for one in arm.runs) for arm in arms},
        citations=citations(run.recipe, found.objective),
        notes=[*found.notes, *_remarks(found), *troubles],
    )


def _arm(found: WordFindings, name: str, home: Path, speed: Speed | None) -> Arm:
    kind: LanguageKind = found.run.data.task  # type: ignore[assignment]
    network, _ = open_language_model(home, kind)
    shape = describe(network)
    if name == "teacher":
        assert found.teacher is not None
        title, runs = f"teacher, {shape}", [SeedResult(seed=0, quality=found.teacher.quality)]
    else:
        title = f"{shape}, {'distilled' if name == 'distilled' else 'text only'}"
        runs = [outcome.result for outcome in found.outcomes[name]]
    objectives = {"distilled": str(found.objective), "plain": str(without_teacher(found.words.task))}
    return Arm(
        name=name,
        title=title,
        role={"teacher": "teacher", "distilled": "student"}.get(name, "baseline"),
        objective=objectives.get(name, ""),
        shape=shape_of(network),
        runs=runs,
        size=size_of(network, home),
        speed=speed,
    )


def _comparisons(found: WordFindings) -> list[Comparison]:
    if "plain" not in found.outcomes:
        return []
    a, b = ([outcome.logits for outcome in found.outcomes[name]] for name in ("distilled", "plain"))
    task, rows = found.words.task, np.ones(len(a[0]), dtype=bool)
    return [compare(task, task.metric, "distilled", "plain", a, b, rows, rows, rounds=found.run.measure.bootstrap)]


def _remarks(found: WordFindings) -> list[str]:
    remarks = []
    if found.teacher is None:
        remarks.append("The teacher was not there: only its kept answers, so it is not measured itself.")
    if found.kept:
        what = "draws" if found.kept.manifest.kind == "sampled" else "most probable words"
        remarks.append(
            f"The teacher's answers, {found.kept.manifest.k} {what} of each of {found.kept.tokens:,} tokens, took "
            f"{found.kept.bytes_per_token:.0f} bytes per token on disk."
        )
    if "plain" not in found.outcomes and wants(found.objective):
        remarks.append("No student was trained without the teacher, so what distillation gave is not known.")
    return remarks
