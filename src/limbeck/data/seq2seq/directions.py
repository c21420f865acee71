"""Texts of several directions: read, kept from giving each other away, and put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.data.seq2seq.direction_settings import prefix_of, target_language
from limbeck.data.seq2seq.pairs import Parallel, ParallelCorpus, read_parallel
from limbeck.data.settings import DataSettings, DirectionSettings, ParallelSettings

REVERSED = "reversed in dev or test of another direction"


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
    train = _joined([corpus.train for name, corpus in corpora.items() for _ in range(repeats[name])])
    dev, test = (_joined([corpus.splits[split] for corpus in corpora.values()]) for split in ("dev", "test"))
    found = ParallelCorpus(train, dev, test, _card(corpora, repeats))
    rows = {split: found.card.splits[split].but(rows=len(part)) for split, part in found.splits.items()}
    rows["train"] = rows["train"].but(labelled=int(train.has_target.sum()))
    return replace(found, card=found.card.but(splits=rows))


def _joined(parts: Sequence[Parallel]) -> Parallel:
    return Parallel(
        [source for part in parts for source in part.sources],
        [target for part in parts for target in part.targets],
        np.concatenate([part.uids for part in parts]),
    )


def _card(corpora: Mapping[str, ParallelCorpus], repeats: Mapping[str, int]) -> DataCard:
    cards = {name: corpus.card for name, corpus in corpora.items()}
    splits = {
        split: SplitCard(
            source="; ".join(f"{name}: {card.splits[split].source}" for name, card in cards.items()),
            rows=sum(card.splits[split].rows for card in cards.values()),
            labelled=sum(card.splits[split].labelled for card in cards.values()),
        )
        for split in ("train", "dev", "test")
    }
    often = [f"{name}: training rows are seen {times} times an epoch" for name, times in repeats.items() if times > 1]
    return DataCard(
        source="; ".join(f"{name}: {card.source}" for name, card in cards.items()),
        columns={f"{role} of {name}": column for name, card in cards.items() for role, column in card.columns.items()},
        read=sum(card.read for card in cards.values()),
        dropped=dict(sum((Counter(card.dropped) for card in cards.values()), Counter[str]())),
        duplicates=sum(card.duplicates for card in cards.values()),
        splits=splits,
        notes=[*(f"{name}: {note}" for name, card in cards.items() for note in card.notes), *often],
    )
