"""What all translators of a run share: who teaches them, and from which texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from limbeck.core.errors import KnobError
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard
from limbeck.core.task import TaskInfo
from limbeck.data.parallel import ParallelCorpus, read_parallel
from limbeck.data.subwords import train_subwords
from limbeck.measure.written import sacrebleu_metrics
from limbeck.recipes.job import ASKING, answers_place
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import Run
from limbeck.recipes.several import Guided, mixed, open_directions
from limbeck.recipes.written import translated
from limbeck.students.languages import languages_said
from limbeck.students.open_translator import new_translator, open_translator
from limbeck.students.seq2seq_config import Seq2SeqConfig
from limbeck.students.vocabulary import own_words
from limbeck.teachers.black_box import Command, Endpoint
from limbeck.teachers.ct2 import import_engine
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.teachers.translators import KEPT, Translator, check_widths, kept_settings
from limbeck.training.trainer import check_loggers


@dataclass(frozen=True)
class Ground:
    """A teacher in hand, or one that only translates, and the texts."""

    teacher: Model | None
    black_box: Translator | None
    begin: Model | None  # a translator that has learnt nothing, where there is no teacher to shrink
    corpus: ParallelCorpus
    fingerprints: dict[str, str]
    notes: list[str] = field(default_factory=list)
    metric: str = "bleu"
    directions: tuple[Guided, ...] = ()  # where there are several; the first one's teacher is the one above

    @property
    def ways(self) -> tuple[Guided, ...]:
        """The directions, or the only one; none of a black box."""
        return self.directions or ((Guided("", self.teacher, self.corpus),) if self.teacher else ())

    @property
    def owners(self) -> np.ndarray:
        """[training rows] the place of each one's direction among `ways`."""
        return np.repeat(np.arange(len(self.ways)), [way.repeat * len(way.corpus.train) for way in self.ways])

    def parts(self, split: str) -> dict[str, slice]:
        """Direction → its rows of dev or test."""
        ends = np.cumsum([0, *(len(way.corpus.splits[split]) for way in self.directions)]).tolist()
        return {way.name: slice(*ends[place : place + 2]) for place, way in enumerate(self.directions)}

    @property
    def tokenizer(self) -> Any:
        return (self.teacher or self.begin).tokenizer  # type: ignore[union-attr]

    @property
    def task(self) -> TaskInfo:
        owner = self.teacher or self.begin
        words = own_words(owner.network, owner.tokenizer)  # type: ignore[union-attr]
        return TaskInfo(kind="translate", vocab_size=words, metric=self.metric)

    @property
    def rows(self) -> int:
        """What asking the teacher costs, in rows: a text that is written takes about ten passes over it."""
        return 10 * len(self.corpus.train) + 60 * len(self.corpus.test)

    @property
    def card(self) -> DataCard:
        return self.corpus.card

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Of the test split, to time models on."""
        return [(source, "") for source in self.corpus.test.sources]


def gather_pairs(run: Run, watcher: Watcher, *, data: object = None, teacher: Model | None = None) -> Ground:
    check_loggers(run.train)
    _check_writing(run.translate)
    if run.directions:
        return _of_several(run, watcher, data, teacher)
    black_box = _black_box(run)
    if not (run.teacher or teacher or black_box):
        raise KnobError(
            "no teacher was given",
            "name one with --teacher, make one with `limbeck train --task translate`, or give one that is only a "
            "program with --translate.command",
        )
    if run.teacher:
        watcher.say(f"opening the teacher {run.teacher}")
        teacher = Model(*open_translator(run.teacher, trust_remote_code=run.trust_remote_code), where=run.teacher)
        for line in languages_said(teacher.tokenizer):
            watcher.say(line)
    corpus = read_parallel(run.data, run.parallel, data, watcher)
    prints = {"data": pairs_fingerprint(corpus)}
    begin, notes = (None, []) if teacher else begun(run.new, corpus, written=_foreign(run, black_box, corpus, watcher))
    if teacher is not None:
        prints |= {
            "teacher": fingerprint(teacher.network),
            "tokenizer": tokenizer_fingerprint(teacher.tokenizer),
            "writing": writing_fingerprint(teacher),
        }
    elif begin is not None:
        prints["tokenizer"] = tokenizer_fingerprint(begin.tokenizer)
    return Ground(teacher, black_box, begin, corpus, prints, notes, run.translate.metric)


def _of_several(run: Run, watcher: Watcher, data: object, teacher: Model | None) -> Ground:
    if data is not None or teacher is not None:
        raise KnobError(
            "a teacher or data in hand are given beside directions", "give every direction its folder and its files"
        )
    directions = open_directions(run, watcher)
    first, corpus = directions[0].teacher, mixed(directions)
    each = {
        f"teacher of {one.name}": f"{fingerprint(one.teacher.network)} {writing_fingerprint(one.teacher)}"
        for one in directions
    }
    prints = {
        "data": pairs_fingerprint(corpus),
        "teacher": hashlib.blake2b(str(each).encode(), digest_size=8).hexdigest(),
        "tokenizer": tokenizer_fingerprint(first.tokenizer),
    }
    marks = {**prints, **each}
    return Ground(first, None, None, corpus, marks, metric=run.translate.metric, directions=tuple(directions))


def _check_writing(settings: TranslateSettings) -> None:
    """Refuses what would only show after hours of translating."""
    sacrebleu_metrics()
    if settings.engine == "ctranslate2":
        import_engine()
    check_widths(settings.beam, settings.nbest or 1)


def _black_box(run: Run) -> Translator | None:
    asked = [bool(run.teacher), bool(run.translate.command), bool(run.translate.endpoint)]
    if sum(asked) > 1:
        raise KnobError(
            "several teachers were given", "give one of --teacher, --translate.command and --translate.endpoint"
        )
    if sum(asked[1:]) and run.translate.nbest > 1:
        raise KnobError(
            f"a black box gives one translation of each source, not its {run.translate.nbest} best",
            "leave out --translate.nbest",
        )
    if run.translate.command:
        return Command(run.translate.command)
    return Endpoint(run.translate.endpoint) if run.translate.endpoint else None


def _foreign(run: Run, black_box: Translator | None, corpus: ParallelCorpus, watcher: Watcher) -> list[str]:
    """What a black box makes of the sources where people gave no targets: else its language would have no letters."""
    if black_box is None or corpus.train.targeted.all():
        return []
    ground = Ground(None, black_box, None, corpus, {})
    share = lambda done: watcher.at(ASKING, done, "translating the training set")  # noqa: E731
    found, _ = translated(ground, run, 1, answers_place(run) / "translations", share)
    return found.best()


def begun(
    settings: Seq2SeqConfig,
    corpus: ParallelCorpus,
    tags: Sequence[str] = (),
    prefix: str = "",
    written: Sequence[str] = (),
) -> tuple[Model, list[str]]:
    """A translator of the settings' shape with a vocabulary of tags, of both sides of the training text but for
    a prefix of every source, and of what else is `written`."""
    train = corpus.train
    texts = [*(source.removeprefix(prefix) for source in train.sources), *filter(None, train.targets), *written]
    pieces = train_subwords(texts, settings.vocabulary, settings.pieces, tags)
    pieces.model_max_length = settings.positions
    notes = []
    if len(pieces) < settings.vocabulary:
        notes.append(f"The text gives {len(pieces):,} pieces of words, not {settings.vocabulary:,}.")
    with torch.random.fork_rng(devices=[]):  # its weights are drawn anew for every seed
        return Model(new_translator(settings, pieces), pieces), notes


def writing_fingerprint(teacher: Model) -> str:
    """What decides, beside the weights, what a translator writes: how it reads, the languages, forced and banned
    words."""
    settings, tokenizer = kept_settings(teacher.network), teacher.tokenizer
    parts = {name: getattr(settings, name) for name in KEPT}
    parts |= {name: getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang")}
    said = json.dumps([tokenizer_fingerprint(tokenizer), parts], sort_keys=True)
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def pairs_fingerprint(corpus: ParallelCorpus) -> str:
    """Names the texts of every split, in their order."""
    digest = hashlib.blake2b(digest_size=8)
    for split in corpus.splits.values():
        digest.update(np.ascontiguousarray(split.uids).tobytes())
        for target in split.targets:
            digest.update(f"{len(target)} {target}".encode())
    return digest.hexdigest()
