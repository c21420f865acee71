"""Ask a language model once: about every block of a text, keeping the top of what it says."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass

import torch

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.topk import Sampled, Top
from limbeck.data.batches import to_batch
from limbeck.data.language.corpus import load_language
from limbeck.recipes.kept import about_run, fill
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import CacheRun
from limbeck.recipes.words import Words, ask_words, check_length, language_kind, mask_fingerprint, text_fingerprint
from limbeck.students.folder import find_folder
from limbeck.students.open import fingerprint, open_language_model, tokenizer_fingerprint
from limbeck.students.vocabulary import own_words
from limbeck.teachers.about import Info
from limbeck.teachers.codec import SampledCodec, TopCodec
from limbeck.teachers.keep import kept_of
from limbeck.teachers.live import LiveTeacher
from limbeck.teachers.store import Store

ASKING = "asking"
_PER_BLOCK = 12  # bytes of uid and count
_MARGIN = 1.1  # of free space, for the index and for merging


@dataclass(frozen=True)
class Estimate:
    """What is to come, said before it starts."""

    tokens: int
    seconds: float
    bytes: int
    free: int

    def sentence(self) -> str:
        return (
            f"{self.tokens:,} tokens to ask about: about {_minutes(self.seconds)} and {self.bytes / 1e6:,.1f} MB "
            f"({self.bytes / max(self.tokens, 1):.0f} bytes per token; {self.free / 1e9:,.1f} GB are free)"
        )


def cache(run: CacheRun, *, data: object = None, teacher: Model | None = None, watcher: Watcher | None = None) -> Info:
    """Fills the store in `run.out`, or completes it. Several processes may do so at once; each asks what is missing."""
    watcher = watcher or Silent()
    if not run.out:
        raise KnobError("no place for the answers was given", "name a folder with --out")
    if not run.teacher and teacher is None:
        raise KnobError("no teacher was given", "name one with --teacher: a folder or a hub id")
    if run.threads:
        torch.set_num_threads(run.threads)
    run = run.but(mask=run.mask.settled().but(rounds=run.mask.rounds or 1))
    kind = language_kind(run.data.task, _architecture(run, teacher))
    run = run.but(data=run.data.but(task=kind))
    watcher.say(f"opening the teacher {run.teacher or type(teacher.network).__name__}")  # type: ignore[union-attr]
    taught = teacher or Model(*open_language_model(run.teacher, kind, trust_remote_code=run.trust_remote_code))
    corpus = load_language(run.data, run.blocks, kind, taught.tokenizer, data, watcher)
    check_length(corpus, taught.network)
    vocabulary = own_words(taught.network, taught.tokenizer, "teacher")
    words = ask_words(kind, corpus, taught.tokenizer, run.mask, vocabulary)
    prints = {
        "teacher": fingerprint(taught.network),
        "tokenizer": tokenizer_fingerprint(taught.tokenizer),
        "data": text_fingerprint(corpus),
        "mask": mask_fingerprint(kind, run.mask),
    }
    about = about_run(run, prints, vocabulary, top=run.top, draws=run.draws, temperature=run.temperature)
    watcher.plan([Stage(ASKING, 1.0)])
    with Store(run.out, about, write=True) as store:
        asker = LiveTeacher(taught.network, vocabulary=vocabulary)
        estimate = _estimate(store, asker, words, run.batch_size)
        if estimate.tokens:
            watcher.say(estimate.sentence())
            if estimate.bytes * _MARGIN > estimate.free:
                raise LimbeckError(
                    f"the answers need {estimate.bytes / 1e6:,.0f} MB, but {run.out} has room for "
                    f"{estimate.free / 1e6:,.0f}",
                    "choose another folder with --out, keep fewer words with --top, or less text with --data.limit",
                )
        fill(store, asker, words, run.batch_size, lambda done: watcher.at(ASKING, done), watcher)
        return store.info()


def _architecture(run: CacheRun, teacher: Model | None) -> str:
    if teacher is not None:
        return type(teacher.network).__name__
    from transformers import AutoConfig

    names = AutoConfig.from_pretrained(find_folder(run.teacher), trust_remote_code=run.trust_remote_code).architectures
    return (names or [""])[0]


def _estimate(store: Store, teacher: LiveTeacher, words: Words, batch_size: int) -> Estimate:
    """From a timed question, the second of two: the first one warms up."""
    train = words.splits["train"]
    left = int(train.predicted_counts[store.lacks(train.uids)].sum())
    if not left:
        return Estimate(0, 0.0, 0, 0)
    batch = to_batch(words.collator([train[row] for row in range(min(batch_size, len(train)))]), words.task)
    for _ in range(2):
        begun = time.perf_counter()
        answers = kept_of(teacher.answer(batch).tokens, store.about, batch)
        seconds = time.perf_counter() - begun
    asked = max(len(answers), 1)
    size = _bytes(answers, store) + _PER_BLOCK * len(batch.uids) / asked
    free = shutil.disk_usage(store.folder).free
    return Estimate(left, left * seconds / asked, round(left * size), free)


def _bytes(answers: Top | Sampled, store: Store) -> float:
    """Of one token on disk."""
    about = store.about
    if isinstance(answers, Top):
        return TopCodec(about.k, about.vocabulary, about.temperature).width
    distinct = float((answers.weights > 0).sum()) / max(len(answers), 1)
    return distinct * SampledCodec(about.k, about.vocabulary).width + 1


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
