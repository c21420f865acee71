"""What a translation student learns to write: the given targets, or the teacher's translations of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Watcher
from limbeck.data.seq2seq.filters import filter_pairs
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.data.seq2seq.settings import ParallelSettings
from limbeck.engines.base import Engine, Hypothesis
from limbeck.exporters.parity import SAMPLE, choose_engine
from limbeck.measure.closest import choose
from limbeck.tasks.base import COLLECTING, TEXTS, Model, Options
from limbeck.teachers.settings import TranslateSettings
from limbeck.teachers.texts import TextCache

FEWEST = 0.1  # share of a teacher's translations that must pass the filters
Learnt = tuple[list[int], list[str], str]  # rows, their targets, and a sentence on those left out


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

    def on_share(share: float) -> None:
        watcher.at(COLLECTING, TEXTS * share, "translating the training set")

    cache = cached_texts(settings, fingerprints, engine, nbest, place)
    cache.fill(engine, train.sources, train.uids, beam, nbest, on_share)
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
