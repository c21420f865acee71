"""Parallel texts, who translates them (an engine, a teacher, one for each direction), and what is learnt of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.fingerprint import tokenizers_equal
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.task import TaskInfo
from limbeck.core.trace import Want
from limbeck.data.seq2seq.directions import read_directions, tag_of, target_language
from limbeck.data.seq2seq.filters import filter_pairs
from limbeck.data.seq2seq.pairs import Parallel, ParallelCorpus
from limbeck.data.settings import DirectionSettings, ParallelSettings
from limbeck.data.sources.unlabelled import refuse_unlabelled
from limbeck.data.splits import Splits
from limbeck.engines.base import Engine, Hypothesis
from limbeck.exporters.parity import SAMPLE, choose_engine
from limbeck.measure.translation import choose
from limbeck.objectives.truncated import Truncated
from limbeck.students.seq2seq import decoder_start, languages_said
from limbeck.tasks.base import Model, Options, translating
from limbeck.teachers.settings import SwitchSettings, TranslateSettings
from limbeck.teachers.texts import TextCache

FEWEST = 0.1  # share of a teacher's translations that must pass the filters
Learnt = tuple[list[int], list[str], str]  # rows, their targets, and a sentence on those left out


@dataclass(frozen=True)
class Direction:
    """A direction with its teacher and its texts. The only one of a run has no name."""

    name: str
    teacher: Model
    corpus: ParallelCorpus
    repeat: int = 1


@dataclass(frozen=True)
class TaughtTexts(Splits[Parallel]):
    """Parallel texts, and who translates them."""

    task: TaskInfo
    engine: Engine | None = None  # a teacher that only translates
    directions: tuple[Direction, ...] = ()  # the only one of a run has no name; none for an engine
    dev_scores: dict[str, float] = field(default_factory=dict)  # dev BLEU of each direction's teacher, once measured

    @property
    def several(self) -> bool:
        return bool(self.directions and self.directions[0].name)

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


def open_directions(knobs: Options, load: Callable[[str], Model], watcher: Watcher) -> list[Direction]:
    named: dict[str, DirectionSettings] = knobs.tables(DirectionSettings)
    models: dict[str, Model] = {}
    for name, direction in named.items():
        watcher.say(f"loading the teacher of {name}, {direction.teacher}")
        models[name] = load(direction.teacher)
        for line in languages_said(models[name].processor):
            watcher.say(line)
        check_tag(models[name].processor, target_language(name), direction.teacher)
    _check_vocabularies(models)
    corpora = read_directions(knobs.data, knobs.table(ParallelSettings), named, watcher)
    return [Direction(name, models[name], corpora[name], named[name].repeat) for name in named]


def check_alone(knobs: Options) -> None:
    """Nothing else names a teacher or texts."""
    refuse_unlabelled(
        knobs.data,
        "with [directions.…] the given targets are learnt, and these texts have none",
        "distil one direction by itself, with its --teacher and --recipe seq-kd",
    )
    translate = knobs.table(TranslateSettings)
    named = {
        "--teacher": knobs.teacher,
        "--data": knobs.data.train,
        "--data.dev": knobs.data.dev,
        "--data.test": knobs.data.test,
        "--target": knobs.table(ParallelSettings).target,
        "--translate.command": translate.command,
        "--translate.endpoint": translate.endpoint,
    }
    for flag in (flag for flag, value in named.items() if value):
        raise KnobError(
            f"{flag} is given beside [directions.…]", "leave it out: every direction has its teacher and its files"
        )


def check_tag(tokenizer: Any, language: str, where: str) -> None:
    """Refuses a vocabulary that splits the tag, or does not know it."""
    ids = tokenizer(tag_of(language), add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        raise MismatchError(
            f"the vocabulary of {where} has no token {tag_of(language)}",
            f"train it with all target languages, as in --tags {language},…",
        )


def _check_vocabularies(models: dict[str, Model]) -> None:
    (first, one), *others = models.items()
    for name, other in others:
        alike = tokenizers_equal(one.processor, other.processor)
        if not alike or decoder_start(one.network) != decoder_start(other.network):
            raise MismatchError(
                f"the teachers of {first} and {name} have different vocabularies: no student can learn from both",
                f"train the one of {name} with --vocabulary-from {one.source}",
            )


def check_switch(
    run: Options, objectives: Sequence[Objective], needed: Want, targets: Collection[str], several: bool
) -> None:
    """Refuses what several teachers, or one that steps back, cannot give."""
    switched = run.table(SwitchSettings).strategy != "fixed"
    if several and {"beam", "closest"}.intersection(targets):
        raise KnobError("with [directions.…] the given targets are learnt", "use --recipe multilingual or word-kd")
    if not needed or not (switched or several):
        return
    live = run.teacher_cache.live
    if live or needed & ~Want.TOP:
        raise MismatchError(
            f"{'several teachers' if several else 'a teacher that is switched off'} can only be cached, by the most "
            f"probable tokens, but the objective wants {'a live teacher' if live else needed}",
            "use --recipe multilingual, or the objective 'truncated', without --teacher-cache.live",
        )
    for weight, part in (pair for objective in objectives for pair in objective.weighted):
        if switched and weight and isinstance(part, Truncated) and part.form == "renorm-both":
            raise MismatchError(
                "the form 'renorm-both' compares cached tokens with each other, so its teacher cannot be switched off",
                "use the form 'tail' or 'renorm', or --switch.strategy fixed",
            )


@dataclass(frozen=True)
class TeacherTexts:
    """The teacher's translations of the training sources, best first."""

    settings: TranslateSettings
    prefix: str  # of every source
    train: Parallel
    cache: TextCache

    def targets(self, kind: str) -> Learnt:
        """Of the beam, or of the n best those closest to the given targets."""
        rows = list(range(len(self.train))) if kind == "beam" else np.flatnonzero(self.train.has_target).tolist()
        several = [self._of(row) for row in rows]
        picked = [0] * len(rows)
        if kind == "closest":
            gold = [self.train.targets[row] for row in rows]
            picked = choose([[one.text for one in best] for best in several], gold, self.settings.closeness)
        written = [best[place] for best, place in zip(several, picked, strict=True)]
        sources = [self.train.sources[row].removeprefix(self.prefix) for row in rows]  # else a copy would not be seen
        return _filtered(sources, rows, written, kind, self.settings)

    def best(self) -> list[str]:
        """Of every source."""
        return [self._of(row)[0].text for row in range(len(self.train))]

    def _of(self, row: int) -> list[Hypothesis]:
        return self.cache.get(int(self.train.uids[row]), self.train.sources[row])


def gold_targets(train: Parallel) -> Learnt:
    """What people wrote."""
    rows = np.flatnonzero(train.has_target).tolist()
    left = len(train) - len(rows)
    note = f"{left:,} rows have no target: learning from given targets does without them." if left else ""
    return rows, [train.targets[row] for row in rows], note


def _filtered(
    sources: Sequence[str], rows: list[int], written: list[Hypothesis], kind: str, settings: TranslateSettings
) -> Learnt:
    texts, cut = [one.text for one in written], [one.cut and not settings.cut for one in written]
    keeps, dropped = filter_pairs(sources, texts, settings.ratio, settings.copies, cut=cut)
    reasons = ", ".join(f"{count:,} ({reason})" for reason, count in dropped.items() if count)
    if keeps.mean() < FEWEST:
        few = [place for place in np.flatnonzero(~keeps).tolist() if texts[place].strip()][:2]
        shown = "; ".join(f"{sources[place][:60]!r} → {texts[place][:60]!r}" for place in few) or "nothing but blanks"
        raise DataError(
            f"{keeps.sum():,} of the teacher's {len(rows):,} translations pass the filters; left out: {reasons}. It "
            f"writes: {shown}",
            "look at what it writes with `limbeck eval --task translate`, and train it longer or take another teacher; "
            "--translate.copies, --translate.ratio, --translate.cut and --translate.longest let more through",
        )
    chosen = np.flatnonzero(keeps).tolist()
    what = "best translations" if kind == "beam" else "translations closest to the given targets"
    left = f" Left out: {reasons}." if reasons else ""
    note = f"{len(chosen):,} of the teacher's {len(rows):,} {what} are learnt from.{left}"
    return [rows[place] for place in chosen], [texts[place] for place in chosen], note


def translate_training_set(
    knobs: Options,
    train: Parallel,
    translator: Engine | Model,
    fingerprints: Mapping[str, str],
    nbest: int,
    place: Path,
    watcher: Watcher,
) -> tuple[TeacherTexts, str]:
    """Every training source, from the cache in `place` as far as it goes; and which engine did it."""
    settings: TranslateSettings = knobs.table(TranslateSettings)
    if isinstance(translator, Engine):
        engine, beam, note = translator, 1, f"The teacher is {translator.name}: only its translations are known."
    else:
        folder = Path(translator.source) if translator.source and Path(translator.source).is_dir() else None
        sample = train.sources[:: max(len(train.sources) // SAMPLE, 1)][:SAMPLE]
        engine, note = choose_engine(translator.network, translator.processor, folder, place, settings, sample)
        beam = settings.beam
    cache = cached_texts(settings, fingerprints, engine, nbest, place)
    cache.fill(engine, train.sources, train.uids, beam, nbest, partial(translating, watcher))
    return TeacherTexts(settings, knobs.table(ParallelSettings).prefix, train, cache), note


def cached_texts(
    settings: TranslateSettings, fingerprints: Mapping[str, str], engine: Engine, nbest: int, place: Path
) -> TextCache:
    """Of this teacher, with these knobs; those of another are refused."""
    about = {
        "teacher": settings.command or settings.endpoint,
        **{name: fingerprints[name] for name in ("teacher", "writing") if name in fingerprints},
        **settings.model_dump(include={"beam", "length_penalty", "longest"}),
        "engine": engine.name,
        "nbest": nbest,
    }
    return TextCache(place, about)
