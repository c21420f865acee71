"""Sequence to sequence: translation, summarisation, any text from a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from transformers import PreTrainedModel

from limbeck.core.card import Paper
from limbeck.core.errors import DataError, KnobError, MismatchError, TeacherMismatch
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import Record
from limbeck.core.task import SEQ2SEQ_KINDS, Kind
from limbeck.core.teacher import Teacher
from limbeck.core.want import Want
from limbeck.data.batches import Dataset
from limbeck.data.seq2seq.directions import check_directions, concatenate, prefix_of, tag_of
from limbeck.data.seq2seq.pairs import Parallel, ParallelCorpus, read_parallel
from limbeck.data.seq2seq.sequences import Sequences
from limbeck.data.seq2seq.subwords import train_subwords
from limbeck.data.settings import DirectionSettings, ParallelSettings
from limbeck.engines.base import Engine, check_beam
from limbeck.engines.command import Command
from limbeck.engines.ctranslate2 import CTranslate2Engine, import_ctranslate2
from limbeck.engines.endpoint import Endpoint
from limbeck.engines.transformers import ARCHITECTURE_SETTINGS, generation_config
from limbeck.measure.size import is_ctranslate2
from limbeck.measure.written import sacrebleu_metrics
from limbeck.objectives.language import LanguageModeling
from limbeck.students.languages import languages_said
from limbeck.students.load import load
from limbeck.students.seq2seq import decoder_start, new_seq2seq
from limbeck.students.seq2seq_config import Seq2SeqConfig
from limbeck.students.vocabulary import common_vocab, vocab_size_of
from limbeck.tasks.base import (
    COLLECTING,
    GOLD,
    TEXTS,
    EncodedData,
    Evaluated,
    Evaluation,
    Model,
    Setup,
    Task,
    evaluating,
    same_tokens,
    task,
)
from limbeck.tasks.directions import (
    Direction,
    check_alone,
    check_switch,
    check_tag,
    open_directions,
)
from limbeck.tasks.generated import with_generated
from limbeck.tasks.seq2seq_evaluator import Seq2SeqEvaluator, generation
from limbeck.tasks.teacher_texts import TeacherTexts, cached_texts, gold_targets, translate_training_set
from limbeck.teachers.settings import SwitchSettings, TranslateSettings
from limbeck.teachers.switch import DirectionIndex, Switch
from limbeck.teachers.texts import CachedTexts

VASWANI_2017 = Paper(
    "Attention Is All You Need",
    "Ashish Vaswani and Noam Shazeer and Niki Parmar and Jakob Uszkoreit and Llion Jones and Aidan N. Gomez and "
    "Łukasz Kaiser and Illia Polosukhin",
    2017,
    "NeurIPS 2017, arXiv:1706.03762",
    "vaswani2017attention",
    "https://arxiv.org/abs/1706.03762",
)


@dataclass(frozen=True)
class Seq2SeqSetup(Setup):
    """Also a teacher that only translates, or several teachers, each of one direction."""

    engine: Engine | None = None
    init: Model | None = None  # random weights and a vocabulary, where there is no teacher to shrink
    directions: tuple[Direction, ...] = ()  # the only one of a run has no name; none for an engine

    @property
    def several(self) -> bool:
        return bool(self.directions and self.directions[0].name)

    @property
    def teachers(self) -> list[Model]:
        return [direction.teacher for direction in self.directions]

    @property
    def owners(self) -> np.ndarray:
        """[training rows] the number of each one's direction."""
        counts = [one.repeat * len(one.corpus.train) for one in self.directions]
        return np.repeat(np.arange(len(self.directions)), counts)

    def parts(self, split: str) -> dict[str, slice]:
        """Direction → its rows of dev or test, where there are several."""
        named = self.directions if self.several else ()
        ends = np.cumsum([0, *(len(one.corpus.splits[split]) for one in named)]).tolist()
        return {one.name: slice(*ends[number : number + 2]) for number, one in enumerate(named)}

    @cached_property
    def dev_scores(self) -> dict[str, float]:
        """Dev BLEU of each direction's teacher."""
        task = self.task
        assert isinstance(task, Translation)
        return {
            one.name: task.evaluator(one.teacher, one.corpus).dev_metrics(one.teacher.network)["bleu"]
            for one in self.directions
        }


@task
@dataclass(frozen=True)
class Translation(Task):
    """A text generated from a text."""

    kinds: ClassVar[tuple[Kind, ...]] = SEQ2SEQ_KINDS
    recipes: ClassVar[Mapping[str, str]] = {"translate": "seq-kd"}
    paper: ClassVar[Paper] = VASWANI_2017
    remedy: ClassVar[str] = "use 'language' and 'truncated'"

    @property
    def settings(self) -> TranslateSettings:
        return self.knobs.table(TranslateSettings)

    def load(self, source: str, *, new_head: bool = False) -> Model:
        if is_ctranslate2(source):
            engine: Any = CTranslate2Engine(source, **self.generation())
            return Model(engine, engine.tokenizer, source)
        return Model(*load(source, "translate", trust_remote_code=self.knobs.trust_remote_code), source=source)

    def generation(self) -> dict[str, Any]:
        return generation(self.settings)

    def add_to_record(self, record: Record, finished: Any, watcher: Watcher) -> Record:
        return record if finished.kind == "train" else with_generated(record, finished, self, watcher)

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> ParallelCorpus:
        sacrebleu_metrics()  # or refuses, before anything is translated
        parallel = self.knobs.table(ParallelSettings)
        tagged = parallel.but(prefix=(prefix_of(parallel.tag) if parallel.tag else "") + parallel.prefix)
        return read_parallel(self.knobs.data, tagged, data, watcher, only_test)

    def settled(self, splits: ParallelCorpus) -> Self:
        return self

    def evaluator(
        self, model: Model, corpus: ParallelCorpus, parts: Mapping[str, slice] | None = None
    ) -> Seq2SeqEvaluator:
        info = self.info.but(
            vocab_size=self.info.vocab_size or vocab_size_of(model.network, model.processor),
            metric=self.settings.metric,
        )
        start = decoder_start(model.network)
        return Seq2SeqEvaluator(
            info,
            model.processor,
            start,
            corpus.dev,
            corpus.test,
            self.settings,
            self.max_length,
            self.knobs.measure.examples,
            parts=parts or {},
        )

    def encode(
        self, splits: ParallelCorpus, model: Model, watcher: Watcher, teacher: Model | None = None
    ) -> EncodedData:
        if teacher is None or not same_tokens(model.processor, teacher.processor):
            vocab_size = vocab_size_of(model.network, model.processor)
        else:
            vocab_size = common_vocab(teacher.network, model.network, teacher.processor, model.processor).size
        evaluator = replace(self, info=self.info.but(vocab_size=vocab_size)).evaluator(model, splits)
        return EncodedData(
            info=evaluator.info,
            processor=model.processor,
            rows={},  # what is learnt is known when the teacher has translated
            evaluator=evaluator,
            card=splits.card,
            fingerprints={"data": pairs_fingerprint(splits)},
            size=len(splits.train),
            has_gold=bool(splits.train.has_target.any()),
        )

    def same_encoding(self, setup: Setup, student: Model) -> bool:
        evaluator = setup.data.evaluator
        assert isinstance(evaluator, Seq2SeqEvaluator)
        return decoder_start(student.network) == evaluator.start

    def encode_for_training(self, splits: ParallelCorpus, model: Model, watcher: Watcher) -> EncodedData:
        if not splits.train.has_target.any():
            raise DataError(f"{splits.card.source} has no targets to learn from", "give texts with their translations")
        data = self.encode(splits, model, watcher)
        evaluator = data.evaluator
        assert isinstance(evaluator, Seq2SeqEvaluator)
        rows, targets, note = gold_targets(splits.train)
        if note:
            watcher.say(note)
        train = evaluator.encoded([splits.train.sources[row] for row in rows], targets)
        return replace(
            data, rows={GOLD: train, "": train}, size=len(train), card=splits.card.but(truncated=train.truncated)
        )

    def prepare(self, data: object, teacher: Model | None, watcher: Watcher, student: Model | None = None) -> Setup:
        if self.knobs.tables(DirectionSettings):
            if data is not None or (teacher is not None and not teacher.source):
                raise KnobError(
                    "a teacher or data in hand are given beside directions", "give every direction its folder and files"
                )
            return self._several(watcher)
        engine = self._engine(teacher)
        if teacher is None and engine is None:
            raise KnobError(
                "no teacher was given",
                "name one with --teacher, make one with `limbeck train --task translate`, or give one that is only a "
                "program with --translate.command",
            )
        if teacher:
            for line in languages_said(teacher.processor):
                watcher.say(line)
        corpus = self.read(data, teacher, watcher)
        init: Model | None = None
        notes: list[str] = []
        if teacher is None:
            assert engine is not None
            init, notes = self.new_model(corpus, written=self._texts_for_vocabulary(engine, corpus, watcher))
        owner = teacher or init
        assert owner is not None
        encoded = self.encode(corpus, owner, watcher, teacher)
        prints = {**encoded.fingerprints, "tokenizer": tokenizer_fingerprint(owner.processor)}
        if teacher:
            prints |= {"teacher": fingerprint(teacher.network), "writing": generation_fingerprint(teacher)}
        directions = (Direction("", teacher, corpus),) if teacher else ()
        task = replace(self, info=encoded.info)
        return Seq2SeqSetup(task, teacher, corpus, encoded, prints, notes, engine, init, directions)

    def _several(self, watcher: Watcher) -> Seq2SeqSetup:
        directions = tuple(open_directions(self.knobs, self.load, watcher))
        first = directions[0].teacher
        corpus = concatenate({one.name: one.corpus for one in directions}, {one.name: one.repeat for one in directions})
        each = {
            f"teacher of {one.name}": f"{fingerprint(one.teacher.network)} {generation_fingerprint(one.teacher)}"
            for one in directions
        }
        encoded = self.encode(corpus, first, watcher, first)
        prints = {
            **encoded.fingerprints,
            "teacher": hashlib.blake2b(str(each).encode(), digest_size=8).hexdigest(),
            "tokenizer": tokenizer_fingerprint(first.processor),
            **each,
        }
        task = replace(self, info=encoded.info)
        setup = Seq2SeqSetup(task, first, corpus, encoded, prints, directions=directions)
        return replace(setup, data=self.with_parts(encoded, setup))

    def with_parts(self, data: EncodedData, setup: Setup) -> EncodedData:
        """With the dev rows of each direction told apart."""
        assert isinstance(setup, Seq2SeqSetup)
        assert isinstance(data.evaluator, Seq2SeqEvaluator)
        return replace(data, evaluator=replace(data.evaluator, parts=setup.parts("dev")))

    def check_settings(self) -> None:
        """Also refuses what would only show after hours of translating."""
        if named := self.knobs.tables(DirectionSettings):
            check_directions(named)
            check_alone(self.knobs)
        sacrebleu_metrics()
        if self.settings.engine == "ctranslate2":
            import_ctranslate2()
        check_beam(self.settings.beam, self.settings.nbest or 1)

    def _engine(self, teacher: Model | None) -> Engine | None:
        settings = self.settings
        if sum(map(bool, (teacher, settings.command, settings.endpoint))) > 1:
            raise KnobError(
                "several teachers were given", "give one of --teacher, --translate.command and --translate.endpoint"
            )
        if (settings.command or settings.endpoint) and settings.nbest > 1:
            raise KnobError(
                f"a command or an endpoint gives one translation of each source, not its {settings.nbest} best",
                "leave out --translate.nbest",
            )
        if settings.command:
            return Command(settings.command)
        return Endpoint(settings.endpoint) if settings.endpoint else None

    def _texts_for_vocabulary(self, engine: Engine, corpus: ParallelCorpus, watcher: Watcher) -> list[str]:
        """What an engine writes where people gave no targets: else its language would have no letters."""
        if corpus.train.has_target.all():
            return []
        place = Path(self.knobs.teacher_cache.cache or Path(self.knobs.out) / "teacher-cache") / "translations"
        texts, _ = self._translated(engine, None, {}, corpus, 1, place, watcher)
        return texts.best()

    def new_model(
        self, corpus: ParallelCorpus, written: Sequence[str] = (), tags: Sequence[str] = (), prefix: str = ""
    ) -> tuple[Model, list[str]]:
        """Random weights, and a vocabulary of tags, of both sides of the training text and of `written` texts."""
        config = self.knobs.table(Seq2SeqConfig)
        train = corpus.train
        texts = [*(source.removeprefix(prefix) for source in train.sources), *filter(None, train.targets), *written]
        tokenizer = train_subwords(texts, config.vocabulary, config.pieces, tags)
        tokenizer.model_max_length = config.positions
        notes = []
        if len(tokenizer) < config.vocabulary:
            notes.append(f"The text gives {len(tokenizer):,} subwords, not {config.vocabulary:,}.")
        with torch.random.fork_rng(devices=[]):  # the weights are drawn anew for every seed
            return Model(new_seq2seq(config, tokenizer), tokenizer), notes

    def new_network(self, processor: Any) -> PreTrainedModel:
        return new_seq2seq(self.knobs.table(Seq2SeqConfig), processor)

    def model_to_train(self, source: str, corpus: ParallelCorpus) -> tuple[Model, list[str]]:
        """The model that `limbeck train` starts from, or a new one with a vocabulary of its own or another's."""
        parallel, config = self.knobs.table(ParallelSettings), self.knobs.table(Seq2SeqConfig)
        named = [language.strip() for language in parallel.tags.split(",")]
        languages = sorted({language for language in (*named, parallel.tag) if language})
        if source and config.vocabulary_from:
            raise KnobError("--vocabulary-from is given beside --model, which has its own", "leave out one of the two")
        if not source and not config.vocabulary_from:
            prefix = prefix_of(parallel.tag) if parallel.tag else ""
            return self.new_model(corpus, tags=[tag_of(language) for language in languages], prefix=prefix)
        found = self.load(source or config.vocabulary_from)
        for language in languages:
            check_tag(found.processor, language, found.source)
        if config.vocabulary_from:
            found.processor.model_max_length = config.positions
            return Model(self.new_network(found.processor), found.processor), []
        return found, []

    def timing_inputs(self, setup: Setup) -> list[tuple[str, str]]:
        return [(source, "") for source in setup.splits.test.sources]

    @property
    def beam(self) -> int:
        return self.settings.test_beam

    def labels_only(self) -> str:
        return "given targets only"

    def baseline(self, objective: Objective) -> Objective:
        """The given targets alone, smoothed as in the objective."""
        own = [part for _, part in objective.weighted if isinstance(part, LanguageModeling)]
        return 1.0 * (own[0] if own else LanguageModeling())

    def supervised(self) -> Objective:
        return 1.0 * LanguageModeling(smoothing=self.knobs.table(Seq2SeqConfig).smoothing)

    def check(self, run: Any, setup: Setup, student: Model, objectives: Sequence[Objective], needed: Want) -> None:
        super().check(run, setup, student, objectives, needed)
        assert isinstance(setup, Seq2SeqSetup)
        teacher, targeted = setup.teacher, bool(setup.splits.train.has_target.any())
        targets = {run.table(TranslateSettings).targets, *(stage.targets for stage in run.stages.values())} - {""}
        check_switch(run, objectives, needed, targets, setup.several)
        if targets & {GOLD, "closest"} and not targeted:
            raise DataError(
                f"no training row has a target, and recipe {run.recipe!r} learns from given ones",
                "use --recipe seq-kd, which learns what the teacher writes, or give targets with --target",
            )
        if needed and teacher is None:
            raise MismatchError(
                f"the objective wants the teacher's {needed}, but a command or an endpoint gives only translations",
                "use --recipe seq-kd",
            )
        if needed and teacher and not same_tokens(student.processor, teacher.processor):
            raise MismatchError(
                "student and teacher use different tokenizers, so their tokens cannot be compared",
                "use --recipe seq-kd or seq-inter, which only look at texts",
            )
        if needed and teacher and decoder_start(student.network) != decoder_start(teacher.network):
            raise MismatchError(
                "student and teacher have different decoder start tokens, so token positions do not line up",
                "start from a student with the teacher's decoder_start_token_id, or shrink the teacher",
            )
        if "closest" in targets and setup.engine is not None:
            raise KnobError(
                "a command or an endpoint gives one translation, so none can be closest", "use --recipe seq-kd"
            )

    def with_targets(
        self, setup: Setup, wanted: Sequence[tuple[EncodedData, Collection[str]]], place: Path, watcher: Watcher
    ) -> tuple[list[EncodedData], list[str]]:
        assert isinstance(setup, Seq2SeqSetup)
        every = {targets for _, several in wanted for targets in several}
        texts, notes = None, list(setup.notes)
        if every - {GOLD}:
            nbest = self.settings.nbest or (self.settings.beam if "closest" in every else 1)
            teacher, prints = setup.teacher, setup.fingerprints
            texts, note = self._translated(
                setup.engine, teacher, prints, setup.splits, nbest, place / "translations", watcher
            )
            notes.append(note)
        made: dict[tuple[str, int, str], Sequences] = {}
        found = []
        for data, several in wanted:
            evaluator = data.evaluator
            assert isinstance(evaluator, Seq2SeqEvaluator)
            rows = {}
            for targets in sorted(several):
                key = tokenizer_fingerprint(data.processor), evaluator.start, targets
                if key not in made:
                    try:
                        made[key], said = _learnt(setup.splits.train, targets, texts, evaluator)
                    except DataError as error:
                        unfit = [number for number, (_, named) in enumerate(wanted) if targets in named]
                        raise TeacherMismatch(unfit, error) from None
                    notes += said
                rows[targets] = made[key]
            found.append(replace(data, rows=rows))
        return found, list(dict.fromkeys(notes))

    def _translated(
        self,
        engine: Engine | None,
        teacher: Model | None,
        prints: Mapping[str, str],
        corpus: ParallelCorpus,
        nbest: int,
        place: Path,
        watcher: Watcher,
    ) -> tuple[TeacherTexts, str]:
        prefix = self.knobs.table(ParallelSettings).prefix
        on_share = partial(_translating, watcher)
        return translate_training_set(
            self.settings, prefix, corpus.train, engine, teacher, prints, nbest, place, on_share
        )

    def evaluate_teacher(self, setup: Setup, teacher: Teacher, place: Path) -> Evaluation | None:
        """What a command or an endpoint writes is kept, for it may cost."""
        assert isinstance(setup, Seq2SeqSetup)
        if setup.engine is not None:
            assert setup.init is not None
            test, kept = (
                setup.splits.test,
                cached_texts(self.settings, setup.fingerprints, setup.engine, 1, place / "tested"),
            )
            kept.fill(setup.engine, test.sources, test.uids)
            recalled = CachedTexts(setup.engine.name, kept, test.sources, test.uids)
            return self.evaluator(setup.init, setup.splits).test_engine(recalled, single=True)
        tested = [self.evaluator(one.teacher, one.corpus).test_teacher(one.teacher.network) for one in setup.directions]
        rows = np.concatenate([one.statistics for one in tested])
        evaluator = setup.data.evaluator
        assert isinstance(evaluator, Seq2SeqEvaluator)
        texts = [text for one in tested for text in one.texts]
        return Evaluation(np.concatenate([one.uids for one in tested]), rows, evaluator.scores(rows), texts=texts)

    def row_teachers(self, setup: Setup, rows: Dataset) -> list[tuple[Model, np.ndarray]]:
        assert isinstance(setup, Seq2SeqSetup)
        owners = self._owners(setup, rows)
        return [(one.teacher, np.flatnonzero(owners == number)) for number, one in enumerate(setup.directions)]

    def _owners(self, setup: Seq2SeqSetup, rows: Dataset) -> np.ndarray:
        """[rows] the number of each one's direction; with several, only given targets are learnt."""
        if not setup.several:
            return np.zeros(len(rows), np.int64)
        return setup.owners[gold_targets(setup.splits.train)[0]]

    def switched(self, run: Any, setup: Setup, teacher: Teacher, rows: Dataset) -> Teacher:
        assert isinstance(setup, Seq2SeqSetup)
        assert isinstance(rows, Sequences)
        settings = run.table(SwitchSettings)
        if settings.strategy == "fixed" and not setup.several:
            return teacher
        names = [one.name for one in setup.directions]
        owners = DirectionIndex.of(names, rows.uids, self._owners(setup, rows))
        return Switch(teacher, owners, setup.dev_scores, settings)

    def evaluate(self, model: Any, splits: ParallelCorpus, watcher: Watcher, teacher: Any = None) -> Evaluated:
        theirs = self._evaluated(teacher, splits, None, watcher, teaches=True) if teacher else None
        ours = self._evaluated(model, splits, theirs, watcher)
        info = self.info.but(metric=self.settings.metric)
        return info, [ours, theirs] if theirs else [ours]

    def _evaluated(
        self, model: Any, splits: ParallelCorpus, teacher: Evaluation | None, watcher: Watcher, teaches: bool = False
    ) -> Evaluation:
        if isinstance(model.network, CTranslate2Engine):
            size = len(model.processor)
            evaluator = Seq2SeqEvaluator(
                self.info.but(vocab_size=size),
                model.processor,
                0,
                splits.dev,
                splits.test,
                self.settings,
                self.max_length,
            )
            found = evaluator.test_engine(model.network)
            found = evaluator.beside(found, teacher) if teacher else found
        else:
            for line in languages_said(model.processor):
                watcher.say(f"{model.source}: {line}")
            evaluator = replace(self.evaluator(model, splits), teacher=teacher)
            found = evaluator.test_teacher(model.network) if teaches else evaluator.test(model.network)
        watcher.at(evaluating(model), 1.0)
        return found


def _translating(watcher: Watcher, share: float) -> None:
    watcher.at(COLLECTING, TEXTS * share, "translating the training set")


def _learnt(
    train: Parallel, targets: str, texts: TeacherTexts | None, evaluator: Seq2SeqEvaluator
) -> tuple[Sequences, list[str]]:
    """The training rows with these targets, and what was left out or cut."""
    rows, written, note = gold_targets(train) if targets == GOLD or texts is None else texts.targets(targets)
    encoded = evaluator.encoded([train.sources[row] for row in rows], written)
    longest = min(evaluator.max_length, evaluator.processor.model_max_length)
    cut = f"{encoded.truncated:,} training rows are longer than {longest} tokens and were cut."
    return encoded, [said for said in (note, cut if encoded.truncated else "") if said]


def generation_fingerprint(teacher: Model) -> str:
    """What decides, beside the weights, what a model generates: tokenizer, languages, forced and banned tokens."""
    settings, tokenizer = generation_config(teacher.network), teacher.processor
    parts = {name: getattr(settings, name) for name in ARCHITECTURE_SETTINGS}
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
