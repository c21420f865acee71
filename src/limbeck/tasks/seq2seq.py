"""Sequence to sequence: translation, summarisation, any text from a text."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from transformers import PreTrainedModel

from limbeck.core.card import Paper
from limbeck.core.errors import DataError, KnobError, MismatchError, TeacherMismatch
from limbeck.core.fingerprint import digest, fingerprint, tokenizer_fingerprint, tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import Record
from limbeck.core.task import SEQ2SEQ_KINDS, Kind
from limbeck.core.trace import Teacher, Want
from limbeck.data.batches import Dataset
from limbeck.data.seq2seq.directions import check_directions, concatenate, prefix_of, tag_of
from limbeck.data.seq2seq.pairs import Parallel, ParallelCorpus, read_parallel
from limbeck.data.seq2seq.sequences import Sequences
from limbeck.data.seq2seq.subwords import train_subwords
from limbeck.data.settings import DirectionSettings, ParallelSettings
from limbeck.data.sources.new_rows import read_new, text_column
from limbeck.data.sources.parallel import SOURCES
from limbeck.data.sources.tables import Table
from limbeck.engines.base import Engine, check_beam
from limbeck.engines.black_boxes import Command, Endpoint
from limbeck.engines.ctranslate2 import CTranslate2Engine, import_ctranslate2
from limbeck.engines.transformers import ARCHITECTURE_SETTINGS, TransformersEngine, generation_config
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.seq2seq_evaluator import Seq2SeqEvaluator, best_texts, generation
from limbeck.measure.size import is_ctranslate2
from limbeck.measure.translation import sacrebleu_metrics
from limbeck.objectives.language import LanguageModeling
from limbeck.students.load import load
from limbeck.students.model_folder import model_in
from limbeck.students.seq2seq import Seq2SeqConfig, decoder_start, languages_said, new_seq2seq
from limbeck.students.vocabulary import common_vocab, vocab_size_of
from limbeck.tasks.base import (
    ALL,
    GOLD,
    Answer,
    EncodedData,
    Evaluated,
    FinishedRun,
    Inputs,
    Model,
    Options,
    Setup,
    Task,
    evaluating,
    task,
)
from limbeck.tasks.seq2seq_record import evaluator_of, samples, with_directions
from limbeck.tasks.teacher_texts import (
    Direction,
    TaughtTexts,
    TeacherTexts,
    cached_texts,
    check_alone,
    check_switch,
    check_tag,
    gold_targets,
    open_directions,
    translate_training_set,
)
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


@task
@dataclass(frozen=True)
class Translation(Task[TaughtTexts]):
    """A text generated from a text."""

    kinds: ClassVar[tuple[Kind, ...]] = SEQ2SEQ_KINDS
    paper: ClassVar[Paper] = VASWANI_2017
    remedy: ClassVar[str] = "use 'language' and 'truncated'"
    labels_only: ClassVar[str] = "given targets only"
    unlabelled_remedy: ClassVar[str] = ""
    unlabelled_recipe: ClassVar[str] = "seq-kd"
    from_scratch: ClassVar[bool] = True

    @property
    def settings(self) -> TranslateSettings:
        return cast(TranslateSettings, self.knobs.table(TranslateSettings))

    @property
    def metric(self) -> str:
        return self.knobs.metric or self.settings.metric

    @property
    def beam(self) -> int:
        return self.settings.test_beam

    def check_settings(self) -> None:
        """Also refuses what would only show after hours of translating."""
        if named := self.knobs.tables(DirectionSettings):
            check_directions(named)
            check_alone(self.knobs)
        sacrebleu_metrics()
        if self.settings.engine == "ctranslate2":
            import_ctranslate2()
        check_beam(self.settings.beam, self.settings.nbest or 1)

    def load(self, source: str, *, new_head: bool = False) -> Model:
        if is_ctranslate2(source):
            engine = CTranslate2Engine(source, **generation(self.settings))
            return Model(engine, engine.tokenizer, source)
        loaded = load(source, "translate", trust_remote_code=self.knobs.trust_remote_code)
        return Model(*loaded, source=model_in(source))

    def new_rows(self, data: object) -> tuple[Table, list[Inputs]]:
        table = read_new(self.knobs.data, data, "source")
        flag = self.knobs.table(ParallelSettings).source_column
        return table, [(text.strip(),) for text in text_column(table, flag, SOURCES, "--parallel.source-column")]

    def predict(self, model: Model, rows: Sequence[Inputs]) -> list[Answer]:
        """What the test beam gives, as in `evaluate`."""
        engine: Engine = model.network
        if not isinstance(engine, CTranslate2Engine):
            engine = TransformersEngine(model.network, model.processor, **generation(self.settings))
        found = engine.translate([self.parallel.prefix + row[0] for row in rows], self.beam)
        return [{"translation": text} for text in best_texts(found)]

    @property
    def parallel(self) -> ParallelSettings:
        """With the language tag before what people put before every source."""
        parallel = cast(ParallelSettings, self.knobs.table(ParallelSettings))
        return parallel.but(prefix=(prefix_of(parallel.tag) if parallel.tag else "") + parallel.prefix)

    def read(self, data: object, model: Model | None, watcher: Watcher, *, only_test: bool = False) -> TaughtTexts:
        sacrebleu_metrics()  # or refuses, before anything is translated
        found = read_parallel(self.knobs.data, self.parallel, data, watcher, only_test)
        return TaughtTexts(**vars(found), task=self.info)

    def evaluator(
        self, model: Model, corpus: ParallelCorpus, parts: Mapping[str, slice] | None = None
    ) -> Seq2SeqEvaluator:
        if isinstance(model.network, CTranslate2Engine):
            vocab_size, start = len(model.processor), 0
        else:
            vocab_size = self.info.vocab_size or vocab_size_of(model.network, model.processor)
            start = decoder_start(model.network)
        return Seq2SeqEvaluator(
            replace(self.info, vocab_size=vocab_size, metric=self.metric),
            model.processor,
            start,
            corpus.dev,
            corpus.test,
            self.settings,
            self.knobs.data.max_length,
            self.knobs.measure.examples,
            parts=parts or {},
            train_uids=corpus.train.uids.tolist(),
            prefix=self.knobs.table(ParallelSettings).prefix,
        )

    def encode(self, splits: TaughtTexts, model: Model, watcher: Watcher, teacher: Model | None = None) -> EncodedData:
        if teacher is None or not tokenizers_equal(model.processor, teacher.processor):
            vocab_size = vocab_size_of(model.network, model.processor)
        else:
            vocab_size = common_vocab(teacher.network, model.network, teacher.processor, model.processor).size
        sized = replace(self, info=replace(self.info, vocab_size=vocab_size))
        evaluator = sized.evaluator(model, splits, splits.parts("dev"))
        rows: dict[str, Dataset] = {}  # what is learnt is known when the teacher has translated
        info, prints, gold = evaluator.info, {"data": pairs_fingerprint(splits)}, bool(splits.train.has_target.any())
        size = len(splits.train)
        return EncodedData(info, model.processor, rows, evaluator, splits.card, prints, size, has_gold=gold)

    def same_encoding(self, setup: Setup[TaughtTexts], student: Model) -> bool:
        return decoder_start(student.network) == evaluator_of(setup.data).start

    def encode_for_training(self, splits: TaughtTexts, model: Model, watcher: Watcher) -> EncodedData:
        if not splits.train.has_target.any():
            raise DataError(f"{splits.card.source} has no targets to learn from", "give texts with their translations")
        data = self.encode(splits, model, watcher)
        rows, targets, note = gold_targets(splits.train)
        if note:
            watcher.say(note)
        train = evaluator_of(data).encoded([splits.train.sources[row] for row in rows], targets)
        card = splits.card.but(truncated=train.truncated)
        return replace(data, rows={GOLD: train, ALL: train}, size=len(train), card=card)

    def texts(self, setup: Setup[TaughtTexts], split: str) -> list[tuple[str, str]]:
        """Sources, and but for test, which is only timed, their targets."""
        part = setup.splits.splits[split]
        targets = part.targets if split != "test" else [""] * len(part)
        return list(zip(part.sources, targets, strict=True))

    def prepare(
        self, data: object, teacher: Model | None, watcher: Watcher, student: Model | None = None
    ) -> Setup[TaughtTexts]:
        if self.knobs.tables(DirectionSettings):
            if data is not None or (teacher is not None and not teacher.source):
                raise KnobError(
                    "a teacher or data in hand are given beside directions", "give every direction its folder and files"
                )
            return self._several(watcher)
        engine = self._engine(teacher)
        if teacher is not None:
            for line in languages_said(teacher.processor):
                watcher.say(line)
            texts = self.read(data, teacher, watcher)
            prints = {
                "tokenizer": tokenizer_fingerprint(teacher.processor),
                "teacher": fingerprint(teacher.network),
                "writing": generation_fingerprint(teacher),
            }
            return self._setup(replace(texts, directions=(Direction("", teacher, texts),)), prints, watcher)
        if engine is None:
            raise KnobError(
                "no teacher was given",
                "name one with --teacher, make one with `limbeck train --task translate`, or give one that is only a "
                "program with --translate.command",
            )
        texts = replace(self.read(data, None, watcher), engine=engine)
        init, notes = self.new_model(texts, written=self._texts_for_vocabulary(engine, texts.train, watcher))
        prints = {"tokenizer": tokenizer_fingerprint(init.processor)}
        return replace(self._setup(texts, prints, watcher, init), notes=notes)

    def _several(self, watcher: Watcher) -> Setup[TaughtTexts]:
        directions = tuple(open_directions(self.knobs, self.load, watcher))
        corpus = concatenate({one.name: one.corpus for one in directions}, {one.name: one.repeat for one in directions})
        each = {
            f"teacher of {one.name}": f"{fingerprint(one.teacher.network)} {generation_fingerprint(one.teacher)}"
            for one in directions
        }
        tokenizer = tokenizer_fingerprint(directions[0].teacher.processor)
        prints = {"teacher": digest([str(each)]), "tokenizer": tokenizer, **each}
        return self._setup(TaughtTexts(**vars(corpus), task=self.info, directions=directions), prints, watcher)

    def _setup(
        self, texts: TaughtTexts, prints: dict[str, str], watcher: Watcher, init: Model | None = None
    ) -> Setup[TaughtTexts]:
        teacher, *others = (one.teacher for one in texts.directions) if texts.directions else (None,)
        owner = teacher or init
        assert owner is not None
        encoded = self.encode(texts, owner, watcher, teacher)
        prints = {**encoded.fingerprints, **prints}
        settled = replace(self, info=encoded.info)
        return Setup(settled, teacher, texts, encoded, prints, init=init, more_teachers=others)

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

    def _texts_for_vocabulary(self, engine: Engine, train: Parallel, watcher: Watcher) -> list[str]:
        """What an engine writes where people gave no targets: else its language would have no letters."""
        if train.has_target.all():
            return []
        place = Path(self.knobs.teacher_cache.cache or Path(self.knobs.out) / "teacher-cache") / "translations"
        return translate_training_set(self.knobs, train, engine, {}, 1, place, watcher)[0].best()

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

    def model_to_train(self, source: str, splits: TaughtTexts) -> tuple[Model, list[str]]:
        """The model that `limbeck train` starts from, or a new one with a vocabulary of its own or another's."""
        parallel, config = self.knobs.table(ParallelSettings), self.knobs.table(Seq2SeqConfig)
        named = [language.strip() for language in parallel.tags.split(",")]
        languages = sorted({language for language in (*named, parallel.tag) if language})
        if source and config.vocabulary_from:
            raise KnobError("--vocabulary-from is given beside --model, which has its own", "leave out one of the two")
        if not source and not config.vocabulary_from:
            prefix = prefix_of(parallel.tag) if parallel.tag else ""
            return self.new_model(splits, tags=[tag_of(language) for language in languages], prefix=prefix)
        found = self.load(source or config.vocabulary_from)
        for language in languages:
            check_tag(found.processor, language, found.source)
        if config.vocabulary_from:
            found.processor.model_max_length = config.positions
            return Model(self.new_network(found.processor), found.processor), []
        return found, []

    def baseline(self, objective: Objective) -> Objective:
        """The given targets alone, smoothed as in the objective."""
        own = [part for _, part in objective.weighted if isinstance(part, LanguageModeling)]
        return 1.0 * (own[0] if own else LanguageModeling())

    def supervised(self) -> Objective:
        return 1.0 * LanguageModeling(smoothing=self.knobs.table(Seq2SeqConfig).smoothing)

    def check(
        self, run: Options, setup: Setup[TaughtTexts], student: Model, objectives: Sequence[Objective], needed: Want
    ) -> None:
        teacher, targeted = setup.teacher, bool(setup.splits.train.has_target.any())
        targets = {run.table(TranslateSettings).targets, *(stage.targets for stage in run.stages.values())} - {""}
        check_switch(run, objectives, needed, targets, setup.splits.several)
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
        if needed and teacher and not tokenizers_equal(student.processor, teacher.processor):
            raise MismatchError(
                "student and teacher use different tokenizers, so their tokens cannot be compared",
                "use --recipe seq-kd or seq-inter, which only look at texts",
            )
        if needed and teacher and decoder_start(student.network) != decoder_start(teacher.network):
            raise MismatchError(
                "student and teacher have different decoder start tokens, so token positions do not line up",
                "start from a student with the teacher's decoder_start_token_id, or shrink the teacher",
            )
        if "closest" in targets and setup.splits.engine is not None:
            raise KnobError(
                "a command or an endpoint gives one translation, so none can be closest", "use --recipe seq-kd"
            )

    def with_targets(
        self,
        setup: Setup[TaughtTexts],
        wanted: Sequence[tuple[EncodedData, Collection[str]]],
        place: Path,
        watcher: Watcher,
    ) -> tuple[list[EncodedData], list[str]]:
        every = {targets for _, several in wanted for targets in several}
        train, notes, texts = setup.splits.train, list(setup.notes), None
        translator = setup.splits.engine or setup.teacher
        if every - {GOLD} and translator is not None:
            nbest = self.settings.nbest or (self.settings.beam if "closest" in every else 1)
            prints, folder = setup.fingerprints, place / "translations"
            texts, note = translate_training_set(self.knobs, train, translator, prints, nbest, folder, watcher)
            notes.append(note)
        made: dict[tuple[str, int, str], Sequences] = {}
        found = []
        for data, several in wanted:
            evaluator, rows = evaluator_of(data), {}
            for targets in sorted(several):
                key = tokenizer_fingerprint(data.processor), evaluator.start, targets
                if key not in made:
                    try:
                        made[key], more = _learnt(train, targets, texts, evaluator)
                    except DataError as error:
                        unfit = [number for number, (_, named) in enumerate(wanted) if targets in named]
                        raise TeacherMismatch(unfit, error) from None
                    notes += more
                rows[targets] = made[key]
            found.append(replace(data, rows=rows))
        return found, list(dict.fromkeys(notes))

    def evaluate_teacher(self, setup: Setup[TaughtTexts], teacher: Teacher, place: Path) -> Evaluation | None:
        """What a command or an endpoint writes is kept, for it may cost."""
        evaluator, engine, test = evaluator_of(setup.data), setup.splits.engine, setup.splits.test
        if engine is not None:
            cache = cached_texts(self.settings, setup.fingerprints, engine, 1, place / "tested")
            cache.fill(engine, test.sources, test.uids)
            return evaluator.test_engine(CachedTexts(engine.name, cache, test.sources, test.uids), single=True)
        tested = [
            self.evaluator(one.teacher, one.corpus).of_teacher(one.teacher.network) for one in setup.splits.directions
        ]
        rows = np.concatenate([one.statistics for one in tested])
        texts = [text for one in tested for text in one.texts]
        return evaluator.evaluation(rows, texts)

    def row_teachers(self, setup: Setup[TaughtTexts], rows: Dataset) -> list[tuple[Model, np.ndarray]]:
        owners = _owners(setup.splits, rows)
        directions = enumerate(setup.splits.directions)
        return [(one.teacher, np.flatnonzero(owners == number)) for number, one in directions]

    def switched(self, run: Options, setup: Setup[TaughtTexts], teacher: Teacher, rows: Dataset) -> Teacher:
        settings, texts = run.table(SwitchSettings), setup.splits
        if settings.strategy == "fixed" and not texts.several:
            return teacher
        for one in texts.directions if not texts.dev_scores else ():
            scores = self.evaluator(one.teacher, one.corpus).dev_metrics(one.teacher.network)
            texts.dev_scores[one.name] = scores["bleu"]
        names, uids = [one.name for one in texts.directions], cast(Sequences, rows).uids
        return Switch(teacher, DirectionIndex.of(names, uids, _owners(texts, rows)), texts.dev_scores, settings)

    def add_to_record(self, record: Record, finished: FinishedRun, watcher: Watcher) -> Record:
        if finished.kind in ("train", "compress"):
            return record
        return with_directions(record, finished).but(samples=samples(finished))

    def evaluate(self, model: Model, splits: TaughtTexts, watcher: Watcher, teacher: Model | None = None) -> Evaluated:
        theirs = self._evaluated(teacher, splits, None, watcher, teaches=True) if teacher else None
        ours = self._evaluated(model, splits, theirs, watcher)
        info, floor = replace(self.info, metric=self.metric), self.evaluator(model, splits).floor()
        return Evaluated(info, [ours, theirs] if theirs else [ours], floor)

    def _evaluated(
        self, model: Model, splits: TaughtTexts, teacher: Evaluation | None, watcher: Watcher, teaches: bool = False
    ) -> Evaluation:
        evaluator = replace(self.evaluator(model, splits), teacher=teacher)
        if isinstance(model.network, CTranslate2Engine):
            evaluator = replace(evaluator, examples=0)
            found = evaluator.beside_teacher(evaluator.test_engine(model.network))
        else:
            for line in languages_said(model.processor):
                watcher.say(f"{model.source}: {line}")
            found = evaluator.of_teacher(model.network) if teaches else evaluator.test(model.network)
        watcher.at(evaluating(model), 1.0)
        return found


def _owners(texts: TaughtTexts, rows: Dataset) -> np.ndarray:
    """[rows] the number of each one's direction; with several, only given targets are learnt."""
    return texts.owners[gold_targets(texts.train)[0]] if texts.several else np.zeros(len(rows), np.int64)


def _learnt(
    train: Parallel, targets: str, texts: TeacherTexts | None, evaluator: Seq2SeqEvaluator
) -> tuple[Sequences, list[str]]:
    """The training rows with these targets, and what was left out or cut."""
    rows, written, note = gold_targets(train) if targets == GOLD or texts is None else texts.targets(targets)
    encoded = evaluator.encoded([train.sources[row] for row in rows], written)
    longest = min(evaluator.max_length, evaluator.processor.model_max_length)
    cut = f"{encoded.truncated:,} training rows are longer than {longest} tokens and were cut."
    return encoded, list(filter(None, (note, cut if encoded.truncated else "")))


def generation_fingerprint(teacher: Model) -> str:
    """What decides, beside the weights, what a model generates: tokenizer, languages, forced and banned tokens."""
    settings, tokenizer = generation_config(teacher.network), teacher.processor
    parts = {name: getattr(settings, name) for name in ARCHITECTURE_SETTINGS}
    parts |= {name: getattr(tokenizer, name, None) for name in ("src_lang", "tgt_lang")}
    return digest([json.dumps([tokenizer_fingerprint(tokenizer), parts], sort_keys=True)])


def pairs_fingerprint(corpus: ParallelCorpus) -> str:
    """Names the texts of every split, in their order."""
    parts: list[str | np.ndarray] = []
    for split in corpus.splits.values():
        parts += [split.uids, *(f"{len(target)} {target}" for target in split.targets)]
    return digest(parts)
