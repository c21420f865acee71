"""What translators learn to write: the given targets, or what the teacher made of the sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limbeck.core.errors import DataError
from limbeck.data.seq2seq.filters import filter_pairs
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.measure.closest import choose
from limbeck.recipes.run import Run
from limbeck.teachers.ct2 import SAMPLE, fastest
from limbeck.teachers.translate_settings import TranslateSettings
from limbeck.teachers.translations import Translations
from limbeck.teachers.translators import Hypothesis, Translator

if TYPE_CHECKING:
    from limbeck.recipes.ground import Ground


@dataclass(frozen=True)
class Written:
    """The teacher's translations of the training sources, best first."""

    settings: TranslateSettings
    prefix: str  # of every source
    train: Parallel
    kept: Translations

    def targets(self, kind: str) -> tuple[list[int], list[str], str]:
        """Of beam or closest: rows to learn from, what to write there, and a sentence on those left out."""
        rows = list(range(len(self.train))) if kind == "beam" else np.flatnonzero(self.train.has_target).tolist()
        several = [self._of(row) for row in rows]
        if kind == "closest":
            gold = [self.train.targets[row] for row in rows]
            picked = choose([[one.text for one in best] for best in several], gold, self.settings.closeness)
            said = [best[place] for best, place in zip(several, picked, strict=True)]
        else:
            said = [best[0] for best in several]
        bare = [self.train.sources[row].removeprefix(self.prefix) for row in rows]  # else a copy would not be seen
        return _sound(bare, rows, said, kind, self.settings)

    def best(self) -> list[str]:
        """Of every source."""
        return [self._of(row)[0].text for row in range(len(self.train))]

    def _of(self, row: int) -> list[Hypothesis]:
        return self.kept.of(int(self.train.uids[row]), self.train.sources[row])


def gold_targets(train: Parallel) -> tuple[list[int], list[str], str]:
    """What people wrote."""
    rows = np.flatnonzero(train.has_target).tolist()
    left = len(train) - len(rows)
    note = f"{left:,} rows have no target: learning from given targets does without them." if left else ""
    return rows, [train.targets[row] for row in rows], note


def _sound(
    sources: Sequence[str], rows: list[int], said: list[Hypothesis], kind: str, settings: TranslateSettings
) -> tuple[list[int], list[str], str]:
    texts, cut = [one.text for one in said], [one.cut and not settings.cut for one in said]
    keeps, dropped = filter_pairs(sources, texts, settings.ratio, settings.copies, cut=cut)
    if not keeps.any():
        raise DataError(
            "none of the teacher's translations can be learnt from "
            f"({'; '.join(f'{reason}: {count:,}' for reason, count in dropped.items())})",
            "look at what it writes with `limbeck eval --task translate`; --translate.copies, --translate.ratio, "
            "--translate.cut and --translate.longest let more through",
        )
    chosen = np.flatnonzero(keeps).tolist()
    reasons = ", ".join(f"{count:,} ({reason})" for reason, count in dropped.items() if count)
    what = "best translations" if kind == "beam" else "translations closest to the given targets"
    left = f" Left out: {reasons}." if reasons else ""
    note = f"Of the teacher's {what}, {len(chosen):,} of {len(rows):,} are learnt from.{left}"
    return [rows[place] for place in chosen], [texts[place] for place in chosen], note


def translated(
    ground: Ground, run: Run, nbest: int, place: Path, on_share: Callable[[float], None]
) -> tuple[Written, str]:
    """Every training source translated, from what lies in `place` as far as it goes; and who did it."""
    settings, train = run.translate, ground.corpus.train
    translator, note = _translator(ground, settings, place)
    kept = kept_translations(ground, settings, translator, nbest, place)
    alone = ground.black_box is not None
    kept.complete(train.sources, train.uids, translator, 1 if alone else settings.beam, nbest, on_share)
    return Written(settings, run.parallel.prefix, train, kept), note


def kept_translations(
    ground: Ground, settings: TranslateSettings, translator: Translator, nbest: int, place: Path
) -> Translations:
    """Of this teacher, with these knobs; of another one they are refused."""
    about: dict[str, Any] = {
        "teacher": settings.command or settings.endpoint,
        **{name: ground.fingerprints[name] for name in ("teacher", "writing") if name in ground.fingerprints},
        "beam": settings.beam,
        "length_penalty": settings.length_penalty,
        "longest": settings.longest,
        "engine": translator.name,
        "nbest": nbest,
    }
    return Translations(place, about)


def _translator(ground: Ground, settings: TranslateSettings, place: Path) -> tuple[Translator, str]:
    if ground.black_box is not None:
        return ground.black_box, f"The teacher is a black box ({ground.black_box.name}): only what it writes is known."
    teacher = ground.teacher
    assert teacher is not None
    folder = Path(teacher.where) if teacher.where and Path(teacher.where).is_dir() else None
    sources = ground.corpus.train.sources
    sample = sources[:: max(len(sources) // SAMPLE, 1)][:SAMPLE]
    return fastest(teacher.network, teacher.tokenizer, folder, place, settings, sample)
