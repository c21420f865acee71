"""Run a language model once over a text, and cache the top of its distributions."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import torch

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.progress import ProgressItem, Silent, Watcher
from limbeck.core.task import LANGUAGE_KINDS
from limbeck.data.batches import to_batch
from limbeck.data.language.examples import Tokens
from limbeck.data.settings import MaskSettings
from limbeck.data.sources.unlabelled import refuse_unlabelled
from limbeck.jobs.settings import CacheRun
from limbeck.jobs.teaching import fill_cache, manifest
from limbeck.tasks.base import COLLECTING, Model, Setup, kind_of_model, task_of
from limbeck.tasks.language import LanguageTask
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.topk import Info, TopKCache, compress

_MARGIN = 1.1  # of free space, for the index and for merging


def cache(run: CacheRun, *, data: object = None, teacher: Model | None = None, watcher: Watcher | None = None) -> Info:
    """Fills the cache in `run.out`, or completes it. Several processes may do so at once; each adds what is missing."""
    watcher = watcher or Silent()
    refuse_unlabelled(run.data)
    if not run.out:
        raise KnobError("no folder for the cache was given", "name one with --out")
    if not run.teacher and teacher is None:
        raise KnobError("no teacher was given", "name one with --teacher: a folder or a hub id")
    if run.threads:
        torch.set_num_threads(run.threads)
    mask = run.table(MaskSettings).settled()
    run = run.but(mask=mask.but(rounds=mask.rounds or 1))
    if run.data.task == "auto" and kind_of_model(teacher or run.teacher, run.trust_remote_code) not in LANGUAGE_KINDS:
        run = run.but(data=run.data.but(task="mask-fill"))  # opening it tells what it lacks
    task = task_of(run, teacher or run.teacher)
    if not isinstance(task, LanguageTask):
        raise KnobError(
            f"--task {task.info.kind} is not a language model's; a cache is made for --task mask-fill and generate",
            "a run caches other teachers' outputs by itself, or in --cache",
        )
    run = run.but(data=run.data.but(task=task.info.kind)).spelled_out(task.info.kind)
    task = replace(task, knobs=run)
    watcher.say(f"loading the teacher {run.teacher or type(teacher.network).__name__}")  # type: ignore[union-attr]
    setup = task.prepare(data, teacher or task.load(run.teacher), watcher)
    about = manifest(run, run, setup.fingerprints, setup.info.vocab_size, run.top, run.draws, run.temperature)
    watcher.plan([ProgressItem(COLLECTING, 1.0)])
    with TopKCache(run.out, about, write=True) as store:
        _announce(store, setup, run.batch_size, watcher)
        fill_cache(store, setup, setup.data.train(""), setup.data, run.batch_size, watcher)
        watcher.at(COLLECTING, 1.0)
        return store.info()


def _announce(store: TopKCache, setup: Setup, batch_size: int, watcher: Watcher) -> None:
    """Says what is to come, and refuses what the disk cannot take; by a timed batch, the second of two."""
    data, train = setup.data, setup.data.train("")
    assert isinstance(train, Tokens)
    assert setup.teacher is not None
    left = int(train.predicted_counts[store.lacks(train.uids)].sum())
    if not left:
        return
    teacher = LiveTeacher(setup.teacher.network, vocabulary=data.info.vocab_size)
    rows = [train[row] for row in range(min(batch_size, len(train)))]
    batch = to_batch(data.evaluator.collate(rows), data.info)
    for _ in range(2):  # the first one warms up
        begun = time.perf_counter()
        outputs = compress(teacher.answer(batch).tokens, store.manifest, batch)
        seconds = time.perf_counter() - begun
    tokens = max(len(outputs), 1)
    size, free = store.estimate(left * len(batch.uids) / tokens, left, outputs), shutil.disk_usage(store.folder).free
    watcher.say(
        f"{left:,} tokens to cache: about {_minutes(left * seconds / tokens)} and {size / 1e6:,.1f} MB "
        f"({size / left:.0f} bytes per token; {free / 1e9:,.1f} GB are free)"
    )
    if size * _MARGIN > free:
        raise LimbeckError(
            f"the cache needs {size / 1e6:,.0f} MB, but {store.folder} has room for {free / 1e6:,.0f}",
            "choose another folder with --out, cache fewer tokens with --top, or less text with --data.limit",
        )


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
