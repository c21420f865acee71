"""Several directions of translation: the tags by which one student tells them apart, and their texts, read, kept from
giving each other away, and put together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.core.progress import Watcher
from limbeck.core.record import SplitCard
from limbeck.data.seq2seq.pairs import Parallel, ParallelCorpus, read_parallel
from limbeck.data.settings import DataSettings, DirectionSettings, ParallelSettings
from limbeck.data.splits import SPLITS, Splits

_LANGUAGE = r"[A-Za-z0-9_]+"
REVERSED = "reversed in dev or test of another direction"


def tag_of(language: str) -> str:
    """The token before a source that names the target language: <2de>."""
    if not re.fullmatch(_LANGUAGE, language):
        raise KnobError(f"a language cannot be called '{language}'", "use letters and digits, as in de or zh_Hant")
    return f"<2{language}>"


def prefix_of(language: str) -> str:
    return f"{tag_of(language)} "


def without_prefix(source: str, prefix: str) -> str:
    """The text that a person wrote: without a tag, and what every source begins with."""
    return re.sub(rf"^<2{_LANGUAGE}> ", "", source).removeprefix(prefix)


def target_language(direction: str) -> str:
    """de of en-de."""
    if not re.fullmatch(f"{_LANGUAGE}-{_LANGUAGE}", direction):
        raise KnobError(
            f"a direction cannot be called '{direction}'", "name it by two languages and one dash, as in en-de"
        )
    return direction.rpartition("-")[2]


def check_directions(directions: Mapping[str, DirectionSettings]) -> None:
    """Refuses what can be refused before anything is opened."""
    for name, direction in directions.items():
        target_language(name)
        for knob_name in ("teacher", "train"):
            if not getattr(direction, knob_name):
                raise KnobError(
                    f"the direction {name} has no {knob_name}", f"give it as {knob_name} = … in [directions.{name}]"
                )


def read_directions(
    settings: DataSettings, parallel: ParallelSettings, named: Mapping[str, DirectionSettings], watcher: Watcher
) -> dict[str, ParallelCorpus]:
    corpora = {name: _read(settings, parallel, name, direction, watcher) for name, direction in named.items()}
    return {name: without_leaks(name, corpora, watcher, parallel.prefix) for name in corpora}


def _read(
    settings: DataSettings, parallel: ParallelSettings, name: str, direction: DirectionSettings, watcher: Watcher
) -> ParallelCorpus:
    watcher.say(f"direction {name}:")
    files = settings.but(train=direction.train, dev=direction.dev, test=direction.test)
    targets = {name: getattr(direction, name) for name in ("target", "dev_target", "test_target")}
    prefix = prefix_of(target_language(name)) + parallel.prefix
    return read_parallel(files, parallel.but(**targets, prefix=prefix), None, watcher)


def without_leaks(name: str, corpora: dict[str, ParallelCorpus], watcher: Watcher, prefix: str = "") -> ParallelCorpus:
    """Without training rows that give away, target for source, what another direction is measured on."""
    measured = {
        (target, source)
        for other, corpus in corpora.items()
        if other != name
        for split in (corpus.dev, corpus.test)
        for source, target in zip(_bare(other, split.sources, prefix), split.targets, strict=True)
    }
    corpus = corpora[name]
    train = corpus.train
    pairs = zip(_bare(name, train.sources, prefix), train.targets, strict=True)
    rows = [row for row, pair in enumerate(pairs) if pair not in measured]
    lost = len(train) - len(rows)
    if not lost:
        return corpus
    if not rows:
        raise DataError(
            f"every training row of {name} is a row of another direction's dev or test, reversed",
            "give the directions dev and test files of their own",
        )
    watcher.say(f"rows of {name}: {lost:,} dropped: {REVERSED}")
    kept = train.take(rows)
    split = corpus.card.splits["train"].but(rows=len(kept), labelled=int(kept.has_target.sum()))
    dropped = {**corpus.card.dropped, REVERSED: lost}
    card = corpus.card.but(dropped=dropped, splits={**corpus.card.splits, "train": split})
    return replace(corpus, train=kept, card=card)


def _bare(name: str, sources: Iterable[str], prefix: str) -> list[str]:
    """Without the tag, and what every source begins with."""
    return [source.removeprefix(prefix_of(target_language(name)) + prefix) for source in sources]


def concatenate(corpora: Mapping[str, ParallelCorpus], repeats: Mapping[str, int]) -> ParallelCorpus:
    """All rows, direction after direction; those of train as often as `repeat` says."""
    cards = {name: corpus.card for name, corpus in corpora.items()}
    found, splits = {}, {}
    for split in SPLITS:
        times = repeats if split == "train" else dict.fromkeys(corpora, 1)
        found[split] = _joined([corpus.splits[split] for name, corpus in corpora.items() for _ in range(times[name])])
        splits[split] = SplitCard(
            source="; ".join(f"{name}: {card.splits[split].source}" for name, card in cards.items()),
            rows=len(found[split]),
            labelled=int(found[split].has_target.sum()),
        )
    often = [f"{name}: training rows are seen {times} times an epoch" for name, times in repeats.items() if times > 1]
    card = next(iter(cards.values())).but(
        source="; ".join(f"{name}: {card.source}" for name, card in cards.items()),
        columns={f"{role} of {name}": column for name, card in cards.items() for role, column in card.columns.items()},
        read=sum(card.read for card in cards.values()),
        dropped=dict(sum((Counter(card.dropped) for card in cards.values()), Counter[str]())),
        duplicates=sum(card.duplicates for card in cards.values()),
        splits=splits,
        notes=[*(f"{name}: {note}" for name, card in cards.items() for note in card.notes), *often],
    )
    return Splits(**found, card=card)


def _joined(parts: Sequence[Parallel]) -> Parallel:
    return Parallel(
        [source for part in parts for source in part.sources],
        [target for part in parts for target in part.targets],
        np.concatenate([part.uids for part in parts]),
    )
