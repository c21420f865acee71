"""Distilling a language model: the main job on running text, from a live teacher or from its kept answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import KnobError, MismatchError
from limbeck.core.objective import Objective, misfits, wants
from limbeck.core.progress import Stage, Watcher
from limbeck.core.tap import install
from limbeck.core.task import LanguageKind, TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import ATTENTION_PARTS, Request, Want
from limbeck.data.language_corpus import load_language
from limbeck.objectives.next_sentence import NextSentence
from limbeck.objectives.sampled import SampledTargets
from limbeck.objectives.truncated import Truncated
from limbeck.recipes.cell import Cell, Outcome, train_cell
from limbeck.recipes.folder import agree
from limbeck.recipes.given import Given
from limbeck.recipes.job import (
    ASKING,
    MEASURING,
    Result,
    Start,
    answers_place,
    cells,
    finish,
    passed,
    start_shrunk,
    start_whole,
    timing_cost,
)
from limbeck.recipes.kept import check_kept, fill, kept_rounds, new_store
from limbeck.recipes.phases import Plan, plan
from limbeck.recipes.prepare import Model
from limbeck.recipes.recipe import from_table
from limbeck.recipes.run import Run, complete
from limbeck.recipes.tell import settle
from limbeck.recipes.tell_words import WordFindings, tell_words
from limbeck.recipes.word_exam import Remembered, TokenExam
from limbeck.recipes.words import Words, ask_words, check_length, mask_fingerprint, text_fingerprint
from limbeck.students.open import fingerprint, knows_pairs, open_language_model, shape_of, tokenizer_fingerprint
from limbeck.students.vocabulary import own_words, shared_words
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.settings import TeacherCacheSettings
from limbeck.teachers.store import Store, StoreTeacher, open_store
from limbeck.training.trainer import check_loggers

LIVE = Want.LOGITS | Want.TOP | Want.SAMPLED  # what a language model at hand can show without being asked for more


@dataclass(frozen=True)
class Ready:
    """All that a run on words needs, opened, read and found to fit together."""

    run: Run
    teacher: Model | None  # None: only its answers are there
    start: Start
    tokenizer: Any  # of both
    objective: Objective
    plan: Plan
    words: Words
    fingerprints: dict[str, str]
    live: bool
    store: Store | None
    notes: list[str]


def distill_words(
    asked_for: Given[Run], folder: Path, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Result:
    run = asked_for.run
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    ready = _prepare(run, asked_for.data, asked_for.teacher, asked_for.student, watcher)
    agree(folder, ready.run, ready.fingerprints)
    for note in ready.notes:
        watcher.say(note)
    watcher.plan(_stages(ready))
    teacher, beside = _teachers(ready, watcher)
    home = settle(ready.teacher, folder / "teacher") if ready.teacher else None
    exam = TokenExam(ready.words, beside)
    said = exam.test(ready.teacher.network) if ready.teacher else None
    if ready.teacher and ready.teacher.where and not ready.live and not beside.forgets:
        ready.teacher.network.base_model.to("meta")  # all is asked: its memory goes to the student
    outcomes: dict[str, list[Outcome]] = {}
    for cell in _cells(ready, teacher, exam):
        outcomes.setdefault(cell.arm, []).append(train_cell(cell, folder / "arms", watcher, callbacks))
    found = WordFindings(
        ready.run,
        ready.words,
        ready.objective,
        ready.tokenizer,
        ready.fingerprints,
        ready.notes,
        ready.store.info() if ready.store else None,
        home,
        said,
        outcomes,
        folder,
        command,
    )
    record = tell_words(found, watcher, MEASURING)
    result = finish(record, outcomes, folder, lambda place: open_language_model(place, _kind(run)))
    watcher.at(MEASURING, 1.0)
    return result


def _kind(run: Run) -> LanguageKind:
    return run.data.task  # type: ignore[return-value]


def _prepare(run: Run, data: object, taught: Model | None, started: Model | None, watcher: Watcher) -> Ready:
    check_loggers(run.train)
    run = complete(run, TaskInfo(kind=_kind(run)))
    objective = from_table(run.objective)
    _check_objective(objective, run)
    teacher = taught or _opened(run.teacher, run, watcher, fresh=False)
    given = started or _opened(run.student_from, run, watcher, fresh=True)
    if teacher is None and (given is None or (wants(objective) and not run.teacher_cache.cache)):
        raise KnobError(
            "no teacher was given",
            "name one with --teacher; or its answers with --cache, and a student to start from with --student-from",
        )
    start = _start(run, teacher, given)
    if run.blocks.pairs and not knows_pairs(start.network):
        raise KnobError(
            f"a {type(start.network).__name__} knows no sentence pairs",
            "leave out --blocks.pairs, or set --student.family same",
        )
    tokenizer = (given or teacher).tokenizer  # type: ignore[union-attr]
    vocabulary, reader = own_words(start.network, tokenizer, "student"), tokenizer
    notes = [start.origin]
    if teacher is not None:
        shared = shared_words(teacher.network, start.network, teacher.tokenizer, tokenizer)
        vocabulary, reader, notes = shared.size, shared.tokenizer, [*notes, *filter(None, [shared.note])]
    corpus = load_language(run.data, run.blocks, _kind(run), reader, data, watcher)
    check_length(corpus, start.network, *([teacher.network] if teacher else []))
    prints = {
        "tokenizer": tokenizer_fingerprint(reader),
        "data": text_fingerprint(corpus),
        "mask": mask_fingerprint(_kind(run), run.mask),
        **({"teacher": fingerprint(teacher.network)} if teacher else {}),
        **({"student": fingerprint(given.network)} if given and not given.where else {}),
    }
    live, said = _lives(objective, run)
    store = None if live or not wants(objective) else _store(run, objective, prints, vocabulary, bool(teacher))
    run = run.but(
        train=run.train.at_width(shape_of(start.network).hidden, TaskInfo(kind=_kind(run))),
        mask=run.mask.but(rounds=_rounds(run, store)),
    )
    words = ask_words(_kind(run), corpus, reader, run.mask, vocabulary)
    small = shape_of(start.network)
    stages = plan(run, objective, small, shape_of(teacher.network) if teacher else small)
    return Ready(run, teacher, start, tokenizer, objective, stages, words, prints, live, store, [*notes, *said])


def _opened(where: str, run: Run, watcher: Watcher, fresh: bool) -> Model | None:
    if not where:
        return None
    watcher.say(f"opening the {'student' if fresh else 'teacher'} {where}")
    return Model(*_open(where, run, fresh), where=where)


def _open(where: str, run: Run, fresh: bool) -> tuple[PreTrainedModel, Any]:
    return open_language_model(
        where, _kind(run), fresh=fresh, pairs=run.blocks.pairs, trust_remote_code=run.trust_remote_code
    )


def _start(run: Run, teacher: Model | None, given: Model | None) -> Start:
    if given is not None:
        return start_whole(run.student, given, lambda: _open(given.where, run, fresh=True)[0])
    assert teacher is not None
    return start_shrunk(run.student, teacher)


def _check_objective(objective: Objective, run: Run) -> None:
    task = TaskInfo(kind=_kind(run))
    for part in misfits(objective, task):
        remedy = part.remedy or "for words use 'language', 'truncated' or 'word-kd'"
        raise MismatchError(f"{part} does not serve --task {task.kind}", remedy)
    if any(isinstance(part, NextSentence) for _, part in objective.weighted) and not run.blocks.pairs:
        raise KnobError("'next-sentence' needs pairs of sentences", "add --blocks.pairs")


def _lives(objective: Objective, run: Run) -> tuple[bool, list[str]]:
    """Whether the teacher is asked at every step: because a person says so, or because no cache can keep it."""
    whole = wants(objective) & ~(Want.TOP | Want.SAMPLED)
    if not whole:
        return run.teacher_cache.live and bool(wants(objective)), []
    if run.teacher_cache.cache:
        raise MismatchError(
            f"the objective wants the teacher's {whole}, of which a cache keeps only the top",
            "leave out --cache, or use --recipe truncated",
        )
    if run.teacher_cache.live:
        return True, []
    return True, [f"The objective wants the teacher's {whole}, too large to keep: it is asked at every step."]


def _store(run: Run, objective: Objective, prints: dict[str, str], vocabulary: int, writable: bool) -> Store:
    """The answers kept so far, checked against what is asked; made anew where there are none."""
    place = answers_place(run)
    if (place / "index.json").exists() or not writable:
        store = open_store(place, write=writable)
        check_kept(store, prints, vocabulary, wants(objective))
        if run.teacher_cache.top not in (TeacherCacheSettings().top, store.about.k) and store.about.kind == "top":
            raise MismatchError(
                f"--top asks for {run.teacher_cache.top} words, but the cache in {place} holds {store.about.k}",
                "leave --top out (--objective.truncated.k takes fewer than are held), or give another folder",
            )
    else:
        heat = max((part.temperature for part in _cached_parts(objective)), default=1.0)
        store = new_store(place, run, prints, vocabulary, wants(objective), heat)
    for part in _cached_parts(objective):
        part.fits(store.about.k, store.about.temperature)
    return store


def _cached_parts(objective: Objective) -> list[Truncated | SampledTargets]:
    return [part for weight, part in objective.weighted if weight and isinstance(part, Truncated | SampledTargets)]


def _rounds(run: Run, store: Store | None) -> int:
    """A cache serves the masks it holds; a run that fills its own keeps one per epoch."""
    if run.mask.rounds or store is None:
        return run.mask.rounds
    return kept_rounds(store) if run.teacher_cache.cache and kept_rounds(store) else ceil(run.train.epochs)


def _teachers(ready: Ready, watcher: Watcher) -> tuple[Teacher, Remembered]:
    """Who is asked while training, and who the students are compared with on the test split."""
    taught: Teacher = NoTeacher()
    if ready.teacher is not None:
        ask = ready.plan.of_teacher | Request(LIVE)
        network = install(ready.teacher.network) if ask.want & ATTENTION_PARTS else ready.teacher.network
        taught = LiveTeacher(network, ask, ready.words.task.vocab_size)
    beside = Remembered(taught)
    if ready.store is None:
        watcher.at(ASKING, 1.0)
        return (taught if ready.live else NoTeacher()), beside
    fill(
        ready.store,
        taught,
        ready.words,
        ready.run.teacher_cache.batch_size,
        lambda done: watcher.at(ASKING, done),
        watcher,
    )
    return StoreTeacher(ready.store), beside


def _cells(ready: Ready, teacher: Teacher, exam: TokenExam) -> list[Cell]:
    words = ready.words
    return cells(
        ready.run,
        ready.start,
        ready.tokenizer,
        words.task,
        ready.plan.taught(lambda phase: teacher),
        words.splits["train"],
        exam,
        has_label=words.splits["train"],
    )


def _stages(ready: Ready) -> list[Stage]:
    """Costs in blocks × parameters through which they pass: a training step is three passes."""
    big = passed(ready.teacher.network) if ready.teacher else 0.0
    small = passed(ready.start.network)
    blocks = {name: len(split) for name, split in ready.words.splits.items()}
    train = ready.run.train
    seen = blocks["train"] * ready.plan.epochs
    each = small * (3 * seen + blocks["dev"] * train.epochs * train.evals_per_epoch + blocks["test"])
    asked = big * (blocks["train"] * (ready.run.mask.rounds or 1) if ready.store else 0) + big * blocks["test"]
    trained = _cells(ready, NoTeacher(), TokenExam(ready.words))
    return [
        Stage(ASKING, asked),
        *(Stage(c.title, each + (big * seen if ready.live and "distilled" in c.name else 0.0)) for c in trained),
        Stage(MEASURING, timing_cost(ready.run.measure, models=3)),
    ]
