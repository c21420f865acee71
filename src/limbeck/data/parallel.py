"""Texts and what they are translated to, split into train, dev and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard, SplitCard
from limbeck.data.columns import Roles
from limbeck.data.corpus import cut_missing
from limbeck.data.draft import Draft
from limbeck.data.pair_columns import Opposite
from limbeck.data.pair_sources import gather_pairs
from limbeck.data.parallel_settings import ParallelSettings
from limbeck.data.settings import DataSettings
from limbeck.data.tell_card import tell_card

SPLITS = ("train", "dev", "test")
UNTRANSLATED = "without a target, kept for the teacher to translate"


@dataclass(frozen=True)
class Parallel:
    sources: list[str]
    targets: list[str]  # "" where there is none
    uids: np.ndarray  # [n] int64: the same source has the same one wherever it stands

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targeted(self) -> np.ndarray:
        """[n] bool: the row has a target."""
        return np.array([bool(target) for target in self.targets], dtype=bool)

    def take(self, indices: Sequence[int] | np.ndarray) -> Parallel:
        chosen = np.asarray(indices, dtype=np.int64)
        return Parallel([self.sources[i] for i in chosen], [self.targets[i] for i in chosen], self.uids[chosen])


@dataclass(frozen=True)
class ParallelCorpus:
    train: Parallel
    dev: Parallel
    test: Parallel
    card: DataCard

    @property
    def splits(self) -> dict[str, Parallel]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def read_parallel(
    settings: DataSettings, pairs: ParallelSettings, data: object = None, watcher: Watcher | None = None
) -> ParallelCorpus:
    """Reads, checks, names and splits. Says what it chose and what became of every row."""
    given, notes = gather_pairs(settings, pairs, data)
    drafts = {split: _draft(given[split]) for split in SPLITS if split in given}
    whole = cut_missing(drafts, settings)
    parts = {split: _targeted(split, part) for split, part in whole.items()}
    dropped = sum((part.dropped for part in drafts.values()), Counter[str]())
    dropped["empty target"] = sum(len(whole[split]) - len(parts[split]) for split in parts)
    if 0 < settings.limit < len(parts["train"]):
        notes.append(f"training on {settings.limit:,} of {len(parts['train']):,} rows (--data.limit)")
        parts["train"] = _drawn(parts["train"], settings.limit)
    found = {split: _parallel(part, pairs.prefix) for split, part in parts.items()}
    card = DataCard(
        source=given["train"].table.source,
        columns=_columns(given),
        read=sum(len(part.table) + part.table.blank for part in given.values()),
        dropped=dict(+dropped),
        duplicates=sum(len(part) - len(set(part.sources)) for part in found.values()),
        splits={
            split: SplitCard(source=parts[split].source, rows=len(part), labelled=int(part.targeted.sum()))
            for split, part in found.items()
        },
        notes=[*notes, *_overlaps(found)],
    )
    tell_card(watcher or Silent(), card, bare=UNTRANSLATED, again="with a source seen before")
    return ParallelCorpus(found["train"], found["dev"], found["test"], card)


def read_tested(
    settings: DataSettings, pairs: ParallelSettings, data: object = None, watcher: Watcher | None = None
) -> ParallelCorpus:
    """One table, all of it to be measured on: the test split of a corpus whose other splits are empty."""
    given, notes = gather_pairs(settings, pairs, data)
    name = next(split for split in reversed(SPLITS) if split in given)
    drafted = _draft(given[name])
    part = _targeted("test", drafted)
    test = _parallel(part, pairs.prefix)
    table = given[name].table
    card = DataCard(
        source=table.source,
        columns=dict(zip(("source", "target"), given[name].columns, strict=True)),
        read=len(table) + table.blank,
        dropped=dict(+(drafted.dropped + Counter({"empty target": len(drafted) - len(part)}))),
        duplicates=len(test) - len(set(test.sources)),
        splits={"test": SplitCard(source=part.source, rows=len(test), labelled=len(test))},
        notes=notes,
    )
    tell_card(watcher or Silent(), card, bare=UNTRANSLATED, again="with a source seen before")
    nothing = test.take([])
    return ParallelCorpus(nothing, nothing, test, card)


def source_uids(sources: Sequence[str]) -> np.ndarray:
    """[n] int64: 63 bits of a hash of each text."""
    digests = (blake2b(text.encode(), digest_size=8, person=b"source").digest() for text in sources)
    return np.fromiter((int.from_bytes(digest, "big") >> 1 for digest in digests), np.int64, len(sources))


def _draft(given: Opposite) -> Draft:
    """The rows that have a source. Its key is the source alone, so that rows of one source are never cut apart."""
    table = given.table
    sources = table.columns["source"]
    rows = [row for row, source in enumerate(sources) if source]
    if not rows:
        raise DataError(f"{table.source}: no row has a text to translate", "give others, or choose other columns")
    dropped = Counter({"blank line": table.blank, "empty source": len(sources) - len(rows)})
    return Draft(table, Roles("source"), rows, [(sources[row], "") for row in rows], dropped, table.source)


def _targeted(split: str, part: Draft) -> Draft:
    """Rows without a target are for the teacher to translate in train; in dev and test nothing is measured on them."""
    if split == "train":
        return part
    targets = part.table.columns["target"]
    kept = [index for index, row in enumerate(part.rows) if targets[row]]
    if not kept:
        raise DataError(
            f"{split} ({part.source}): no row has a target, so nothing can be measured on it",
            f"give a file that has them with --data.{split}",
        )
    return part.take(kept, part.source)


def _drawn(part: Draft, limit: int) -> Draft:
    """So many rows, drawn by a hash of their sources and so always the same ones, in their own order."""
    order = np.argsort(source_uids([source for source, _ in part.keys]), kind="stable")
    return part.take(np.sort(order[:limit]), part.source)


def _parallel(part: Draft, prefix: str) -> Parallel:
    """The prefix is part of what a model reads, and so of a source's name."""
    sources = [prefix + source for source, _ in part.keys]
    return Parallel(sources, [part.table.columns["target"][row] for row in part.rows], source_uids(sources))


def _columns(given: Mapping[str, Opposite]) -> dict[str, str]:
    """Role → column or file; where a split has another one, that too."""
    chosen = {}
    for place, role in enumerate(("source", "target")):
        names = {split: part.columns[place] for split, part in given.items()}
        others = [f"{split}: {name}" for split, name in names.items() if name != names["train"]]
        chosen[role] = names["train"] + (f" ({', '.join(others)})" if others else "")
    return chosen


def _overlaps(found: Mapping[str, Parallel]) -> list[str]:
    seen = set(found["train"].sources)
    counts = {split: sum(source in seen for source in found[split].sources) for split in ("dev", "test")}
    return [f"{count:,} of {split}: the source also occurs in train" for split, count in counts.items() if count]
