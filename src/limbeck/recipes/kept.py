"""Teachers' answers about words: made, checked against what is asked, and completed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Watcher
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import Want
from limbeck.data.batches import batches
from limbeck.recipes.run import CacheRun, Run
from limbeck.recipes.words import Words
from limbeck.teachers.keep import keep
from limbeck.teachers.store import About, Store

_HOW = "make it again with `limbeck cache`, or give another folder with --cache"


def about_run(
    run: Run | CacheRun, prints: dict[str, str], vocabulary: int, *, top: int, draws: int, temperature: float
) -> About:
    return About(
        kind="sampled" if draws else "top",
        k=draws or min(top, vocabulary),
        vocabulary=vocabulary,
        temperature=temperature,
        fingerprints={name: prints[name] for name in ("teacher", "tokenizer", "data", "mask")},
        notes={
            "teacher": run.teacher,
            "task": run.data.task,
            "data": run.data.train,
            "text": run.blocks.model_dump(),
            "mask": run.mask.model_dump(),
        },
    )


def new_store(place: Path, run: Run, prints: dict[str, str], vocabulary: int, want: Want, temperature: float) -> Store:
    draws = (run.teacher_cache.draws or 50) if want & Want.SAMPLED else 0
    about = about_run(run, prints, vocabulary, top=run.teacher_cache.top, draws=draws, temperature=temperature)
    return Store(place, about, write=True)


def check_kept(store: Store, prints: dict[str, str], vocabulary: int, want: Want) -> None:
    """Refuses answers of another teacher, to other questions, or of another kind."""
    about = store.about
    other = [
        what
        for what in ("teacher", "tokenizer", "mask")
        if what in prints and about.fingerprints.get(what) != prints[what]
    ]
    if other:
        raise MismatchError(f"the cache in {store.folder} was made with another {' and another '.join(other)}", _HOW)
    if about.vocabulary != vocabulary:
        raise MismatchError(
            f"the cache in {store.folder} is about {about.vocabulary:,} words, the student knows {vocabulary:,}", _HOW
        )
    kept = Want.TOP if about.kind == "top" else Want.SAMPLED
    if want & ~kept:
        objective = "truncated" if about.kind == "top" else "sampled"
        raise MismatchError(
            f"the cache in {store.folder} keeps {'the top' if about.kind == 'top' else 'draws'}, but the objective "
            f"wants {want & ~kept}",
            f"use the objective '{objective}', or make another cache",
        )


def kept_rounds(store: Store) -> int:
    """How many masks per block were asked about, as its maker wrote down."""
    return int(store.about.notes.get("mask", {}).get("rounds", 0))


def fill(
    store: Store,
    teacher: Teacher,
    words: Words,
    batch_size: int,
    on_share: Callable[[float], None],
    watcher: Watcher,
) -> None:
    """Asks about every question of the training split that has no answer yet. Without a teacher, refuses."""
    for path in store.damaged:
        watcher.say(f"{path} was damaged and is asked again")
    train = words.splits["train"]
    missing = np.flatnonzero(store.lacks(train.uids))  # indices: round · len + block
    lacking, everything = len(missing), len(train.uids)
    if lacking and isinstance(teacher, NoTeacher):
        raise MismatchError(
            f"the cache in {store.folder} has no answer for {lacking:,} of {everything:,} questions: it was made from "
            "other text, with blocks of another length, or with fewer masks",
            "give the text and the settings it was made with (limbeck cache --info shows them), or --teacher to ask",
        )
    if lacking and len(store):
        watcher.say(f"{store.folder} lacks {lacking:,} of {everything:,} questions; they are asked and added")
    asked = (
        batch
        for round in range(train.rounds or 1)
        for batch in batches(train, words.collator, batch_size, missing[missing // len(train) == round])
    )
    keep(store, teacher, asked, lambda done: on_share((everything - lacking + done) / everything))
    if lacking:
        store.close()
    on_share(1.0)
