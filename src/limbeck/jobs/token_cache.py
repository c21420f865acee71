"""The cache of a teacher's distributions over a vocabulary: what it is of, whether it fits, and its filling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from limbeck.core.errors import MismatchError
from limbeck.core.progress import Watcher
from limbeck.core.trace import Request, Want
from limbeck.data.batches import batches
from limbeck.tasks.base import COLLECTING, Setup
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.topk import Manifest, TopKCache

TESTED = 0.75  # the share of the teacher's outputs that is there before the training tokens
TOKENS = Request(Want.LOGITS | Want.TOP | Want.SAMPLED)  # what a live model gives of tokens
_HOW = "make it again with `limbeck cache`, or give another folder with --cache"


class Collate:
    """The shared evaluator's collator, with the task that batches are of."""

    def __init__(self, setup: Setup) -> None:
        self.task, self._collate = setup.info, setup.data.evaluator.collate

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        return self._collate(rows)


def manifest(
    run: Any, mask_of: Any, prints: Any, vocab_size: int, top: int, draws: int, temperature: float
) -> Manifest:
    """What a cache of a language model is of; the notes are for people."""
    tables = {
        name: table.model_dump() for name, table in (mask_of.model_extra or {}).items() if name in ("blocks", "mask")
    }
    return Manifest(
        kind="sampled" if draws else "top",
        k=draws or min(top, vocab_size),
        vocabulary=vocab_size,
        temperature=temperature,
        fingerprints={name: prints[name] for name in ("teacher", "tokenizer", "data", "mask") if name in prints},
        notes={"teacher": run.teacher, "task": run.data.task, "data": run.data.train, **tables},
    )


def check_cache(store: TopKCache, prints: Any, vocab_size: int, want: Want) -> None:
    """Refuses outputs of another teacher, for other examples, or of another kind."""
    about = store.manifest
    other = [
        what
        for what in ("teacher", "tokenizer", "mask")
        if what in prints and about.fingerprints.get(what) != prints[what]
    ]
    if other:
        raise MismatchError(f"the cache in {store.folder} was made with another {' and another '.join(other)}", _HOW)
    if about.vocabulary != vocab_size:
        raise MismatchError(
            f"the cache in {store.folder} is over {about.vocabulary:,} tokens, the student knows {vocab_size:,}", _HOW
        )
    kept = Want.TOP if about.kind == "top" else Want.SAMPLED
    if want & ~kept:
        objective = "truncated" if about.kind == "top" else "sampled"
        raise MismatchError(
            f"the cache in {store.folder} holds {'the top' if about.kind == 'top' else 'samples'}, but the objective "
            f"wants {want & ~kept}",
            f"use the objective '{objective}', or make another cache",
        )


def fill_cache(store: TopKCache, setup: Setup, rows: Any, data: Any, batch_size: int, watcher: Watcher) -> None:
    uids = rows.uids
    lacking = np.flatnonzero(store.lacks(uids))
    if len(lacking) and setup.teacher is None:
        raise MismatchError(
            f"the cache in {store.folder} has no output for {len(lacking):,} of {len(uids):,} examples: it was made "
            "from other text, with blocks of another length, or with fewer masks",
            "give the text and the settings it was made with (limbeck cache --info shows them), or --teacher",
        )
    if len(lacking) and len(store):
        watcher.say(f"{store.folder} lacks {len(lacking):,} of {len(uids):,} examples; they are added")
    once = lacking[np.sort(np.unique(uids[lacking], return_index=True)[1])]  # of rows that are the same example, one
    done = len(uids) - len(lacking)

    collate = Collate(replace(setup, data=data))
    for model, owned in setup.task.row_teachers(setup, rows):
        mine = once[np.isin(once % len(rows), owned)]
        teacher = LiveTeacher(model.network, TOKENS, data.info.vocab_size)

        for number in np.unique(mine // len(rows)):  # one round of masks after another
            some = mine[mine // len(rows) == number]
            for count in store.fill_by_batch(teacher, batches(rows, collate, batch_size, some)):
                share = TESTED + (1 - TESTED) * ((done + count) / len(uids))
                watcher.at(COLLECTING, share, "distributions of the training tokens")
            done += len(some)
    if len(lacking):
        store.close()
