"""Train, dev and test, for rows of every kind: cut, drawn, counted, and logged.

A kind of rows says what the hash and the key of a row are; all else is the same for texts, sentences, questions,
documents and parallel texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.core.progress import Watcher
from limbeck.core.record import DataCard, SourceCard, SplitCard
from limbeck.core.task import TaskInfo
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import Table

SPLITS = ("train", "dev", "test")
FEWEST = 10  # rows a split must be expected to get for a cut to be worth measuring on


class Row(Protocol):
    @property
    def where(self) -> str:
        """File and line, for errors."""

    @property
    def has_label(self) -> bool: ...

    @property
    def split_hash(self) -> float:
        """In [0, 1), of the content alone: rows of one hash are never cut apart."""


R = TypeVar("R", bound=Row)
S = TypeVar("S")
Keys = Mapping[str, Sequence[Hashable]]  # split → what tells its rows apart


@dataclass(frozen=True)
class RowSelection(Generic[R]):
    """The usable rows of one split, and what became of the others."""

    rows: Sequence[R] = ()
    source: str = ""
    dropped: Counter[str] = field(default_factory=Counter)  # reason → rows
    read: int = 0  # rows in the file, usable or not

    @classmethod
    def of(cls, table: Table, rows: Sequence[R], dropped: Mapping[str, int]) -> RowSelection[R]:
        """Of a table; `dropped` counts by reason the rows of it that are left out, besides blank lines."""
        reasons = Counter({"blank line": table.blank, **dropped})
        return cls(rows, table.source, +reasons, len(table) + table.blank)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_labels(self) -> bool:
        return any(row.has_label for row in self.rows)

    def take(self, indices: Sequence[int] | np.ndarray, source: str = "") -> RowSelection[R]:
        return replace(self, rows=[self.rows[int(index)] for index in indices], source=source or self.source)


@dataclass(frozen=True)
class Splits(Generic[S]):
    """What a reader returns. For a model that is only measured, train and dev are empty."""

    train: S
    dev: S
    test: S
    card: DataCard

    @property
    def splits(self) -> dict[str, S]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


@dataclass(frozen=True)
class LabelledSplits(Splits[S]):
    """The same of rows with classes."""

    task: TaskInfo


@dataclass(frozen=True)
class Division(Generic[R]):
    """The rows of every split, and what a DataCard tells of the files they come from."""

    parts: dict[str, RowSelection[R]]  # train, dev, test
    given: Mapping[str, RowSelection[R]]  # as read; test alone, where a model is only measured
    left_out: Counter[str] = field(default_factory=Counter)  # reason → rows, besides those the files themselves drop
    notes: list[str] = field(default_factory=list)
    sources: Sequence[SourceCard] = ()  # what every file gave, where some are unlabelled

    def card(
        self,
        columns: dict[str, str],
        splits: Mapping[str, SplitCard],
        group: str,
        keys: Keys,
        *,
        labels: Mapping[str, Sequence[Any]] | None = None,
        groups: Keys | None = None,
        notes: Sequence[str] = (),
    ) -> DataCard:
        """Rows of one of the `keys` are repeated; `labels` has None for a row without. A note counts the `groups` (by
        default the keys), each called a `group`, that dev or test share with train."""
        files = list(self.given.values())
        return DataCard(
            source=files[0].source,
            columns=columns,
            read=sum(part.read for part in files),
            dropped=dict(sum((part.dropped for part in files), Counter[str]()) + self.left_out),
            duplicates=sum(len(some) - len(set(some)) for some in keys.values()),
            conflicts=sum(_conflicts(keys[split], some) for split, some in (labels or {}).items()),
            splits=splits if "train" in self.given else {"test": splits["test"]},
            notes=[*notes, *_overlaps(groups or keys, group)],
            sources=list(self.sources),
        )


def _conflicts(keys: Sequence[Hashable], labels: Sequence[Any]) -> int:
    """Rows with another label than the first row of their key."""
    first: dict[Hashable, Any] = {}
    pairs = zip(keys, labels, strict=True)
    return sum(label is not None and first.setdefault(key, label) != label for key, label in pairs)


def _overlaps(keys: Keys, group: str) -> list[str]:
    """Notes on rows of dev and test that train holds as well."""
    seen = set(keys["train"])
    counts = {split: sum(key in seen for key in keys[split]) for split in ("dev", "test")}
    return [f"{count:,} of {split}: the {group} also occurs in train" for split, count in counts.items() if count]


def divide(
    given: Mapping[str, RowSelection[R]], settings: DataSettings, group: str, named: Collection[str] = ()
) -> Division[R]:
    """Leaves out dev and test files without labels, and cuts from train what is missing.

    `group` is what is never cut apart: a text, a sentence, a paragraph; `named` are splits that a flag asks for."""
    if "train" not in given:
        return Division(cut_missing(given, settings, group), given)
    usable = {split: part for split, part in given.items() if len(part)}
    if "train" not in usable:
        fates = "; ".join(f"{count:,} rows: {reason}" for reason, count in given["train"].dropped.items())
        raise DataError(f"{given['train'].source}: no row of it can be used", fates or "it is empty")
    bare = [split for split, part in usable.items() if usable["train"].has_labels and not part.has_labels]
    for split in bare:
        if split in named:
            raise DataError(
                f"{usable[split].source} has no labels, so nothing can be measured on it",
                f"give a labelled file, or leave out --data.{split} and a part of train is cut off for it",
            )
    notes = [f"{usable[split].source} has no labels and is left out; {split} is cut from train" for split in bare]
    left_out = Counter({f"{split} without labels": len(usable[split]) for split in bare})
    kept = {split: part for split, part in usable.items() if split not in bare}
    whole = cut_missing(kept, settings, group)
    parts = without_held_out(whole, [split for split in whole if split not in kept])
    seen = sum(map(len, kept.values())) - sum(map(len, parts.values()))
    return Division(parts, given, left_out + Counter({f"no label, and its {group} is in dev or test": seen}), notes)


def without_held_out(parts: Mapping[str, RowSelection[R]], cut: Collection[str]) -> dict[str, RowSelection[R]]:
    """Without training rows that have no label and the hash of a row that was cut off: rows of one hash are never cut
    apart."""
    train = parts["train"]
    if not cut or all(row.has_label for row in train.rows):
        return dict(parts)
    held_out = {row.split_hash for split in cut for row in parts[split].rows}
    kept = [place for place, row in enumerate(train.rows) if row.has_label or row.split_hash not in held_out]
    return {**parts, "train": train.take(kept)} if len(kept) < len(train) else dict(parts)


def measured_split(given: Mapping[str, RowSelection[R]], remedy: str = "", labelled: bool = True) -> str:
    """The split that a model is measured on, all of it: test, else dev, else train, the first that has labels."""
    for split in reversed(SPLITS):
        if split in given and (given[split].has_labels or not labelled):
            return split
    raise DataError(f"{given['train'].source} has no labels, so nothing can be measured on it", remedy)


def cut_missing(parts: Mapping[str, RowSelection[R]], settings: DataSettings, group: str) -> dict[str, RowSelection[R]]:
    """By a hash of the content: a text keeps its split whatever else the file holds. Too few rows are refused.

    Where some rows have a label only those are cut: dev and test measure, and rows without one can teach.
    Without train nothing is cut: the missing splits are empty."""
    if "train" not in parts:
        return {split: parts.get(split, RowSelection()) for split in SPLITS}
    train = parts["train"]
    rows = int(_may_be_cut(train).sum())
    missing = missing_splits(parts, settings, rows)
    if not missing:
        return in_order(parts)
    made = cut_by_hash(train, missing, settings, group)
    for split in (*missing, "train"):
        expected = rows * missing.get(split, 1.0)
        if expected < FEWEST or len(made[split]) < FEWEST // 2:
            raise DataError(
                f"{train.source} has {rows:,} {'usable' if rows == len(train) else 'labelled'} rows: too few to cut "
                f"{' and '.join(missing)} from "
                f"({split} would get {len(made[split])})",
                "give more rows, a larger share (--data.dev-share, --data.dev-rows, --data.test-share), or files with "
                "--data.dev and --data.test",
            )
    return in_order({**parts, **made})


def missing_splits(parts: Collection[str], settings: DataSettings, rows: int = 0) -> dict[str, float]:
    """The held-out splits that no file gives, and their shares of train, which has so many rows."""
    share = {"dev": settings.dev_rows / max(rows, 1) or settings.dev_share, "test": settings.test_share}
    missing = {split: share[split] for split in share if split not in parts}
    if missing and sum(share.values()) >= 1:
        dev = f"dev_rows {settings.dev_rows:,}" if settings.dev_rows else f"dev_share {settings.dev_share:g}"
        raise KnobError(
            f"{dev} and test_share {settings.test_share:g} leave nothing for train", "make their sum less than 1"
        )
    return missing


def cut_by_hash(
    train: RowSelection[R], missing: Mapping[str, float], settings: DataSettings, group: str
) -> dict[str, RowSelection[R]]:
    hashes = np.array([row.split_hash for row in train.rows], dtype=np.float64)
    test, dev, allowed = settings.test_share, settings.test_share + settings.dev_share, _may_be_cut(train)
    inside = {"test": allowed & (hashes < test), "dev": allowed & (hashes >= test) & (hashes < dev)}
    if settings.dev_rows and "dev" in missing:
        open_to = allowed & ~inside["test"] if "test" in missing else allowed
        inside["dev"] = _exactly(settings.dev_rows, (hashes - test) % 1.0, open_to)
    made = {"train": train.take(np.flatnonzero(~np.logical_or.reduce([inside[split] for split in missing])))}
    for split, share in missing.items():
        much = f"{settings.dev_rows:,} rows" if split == "dev" and settings.dev_rows else f"{share:.0%}"
        source = f"cut from {train.source} by a hash of the {group} ({much})"
        made[split] = train.take(np.flatnonzero(inside[split]), source)
    return made


def _may_be_cut(train: RowSelection[R]) -> np.ndarray:
    """[rows] bool: those with a label, where any has one; else all."""
    labelled = np.array([row.has_label for row in train.rows], dtype=bool)
    return labelled if labelled.any() else ~labelled


def _exactly(count: int, hashes: np.ndarray, open_to: np.ndarray) -> np.ndarray:
    """[rows] bool: so many of the rows that are open, by rising hash; rows of one hash go together or not at all."""
    chosen, left = np.zeros(len(hashes), dtype=bool), count
    order = np.flatnonzero(open_to)[np.argsort(hashes[open_to], kind="stable")]
    for same in np.split(order, np.flatnonzero(np.diff(hashes[order])) + 1):
        if len(same) <= left:
            chosen[same] = True
            left -= len(same)
        if not left:
            break
    return chosen


def in_order(parts: Mapping[str, S]) -> dict[str, S]:
    return {split: parts[split] for split in SPLITS if split in parts}


def limit_of(split: str, settings: DataSettings) -> tuple[int, str]:
    """The rows of a split at most (0: all), and the flag that says so."""
    most = {"train": settings.limit, "dev": settings.limit_dev, "test": settings.limit_test}[split]
    return most, "--data.limit" if split == "train" else f"--data.limit-{split}"


def draw_split(split: str, hashes: Sequence[int] | np.ndarray, settings: DataSettings, notes: list[str]) -> list[int]:
    """The rows of a split that a limit leaves; none: all stay."""
    most, flag = limit_of(split, settings)
    return draw(hashes, most, notes, f"{split}: {{}} of {{}} rows ({flag})")


def draw(hashes: Sequence[int] | np.ndarray, limit: int, notes: list[str], what: str) -> list[int]:
    """So many rows, drawn by hash and so always the same ones, in their own order; a note says so. None: all stay."""
    if not 0 < limit < len(hashes):
        return []
    notes.append(what.format(f"{limit:,}", f"{len(hashes):,}"))
    order = np.argsort(np.asarray(hashes, dtype=np.uint64), kind="stable")
    return np.sort(order[:limit]).tolist()


def card_columns(columns: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Role → column, from split → role → column; where a split names it otherwise than the first, that too."""
    first = next(iter(columns.values()))
    chosen = {}
    for role, name in first.items():
        others = [f"{split}: {own[role] or 'none'}" for split, own in columns.items() if own[role] != name]
        if name:
            chosen[role] = name + (f" ({', '.join(others)})" if others else "")
    return chosen


def log_card(
    watcher: Watcher,
    card: DataCard,
    task: str = "",
    *,
    unit: str = "rows",
    unlabelled: str = "without a label, kept for the soft terms",
    repeated: str = "seen before",
    block_length: int = 0,
) -> None:
    """What became of every row, before anything is trained.

    Of language models (`block_length` tokens) the splits count blocks, and `labelled` counts tokens."""
    roles = ", ".join(f"{role} from {column}" for role, column in card.columns.items())
    watcher.say(f"data: {card.source}, {card.read:,} {unit}; {roles}")
    if task:
        watcher.say(f"task: {task}")
    splits = card.splits.items()
    if block_length:
        counts = [f"{name} {split.rows:,} ({split.labelled:,} tokens)" for name, split in splits]
        watcher.say(f"blocks of {block_length} tokens: {', '.join(counts)}")
    else:
        watcher.say("splits: " + ", ".join(f"{name} {split.rows:,}" for name, split in splits))
    bare = 0 if block_length else sum(split.rows - split.labelled for _, split in splits)
    watcher.say(f"{unit}: {'; '.join(_fates(card, bare, unlabelled, repeated)) or 'none dropped, none repeated'}")
    for one in card.sources:
        watcher.say(f"source: {one.sentence}")
    for note in card.notes:
        watcher.say(f"note: {note}")


def _fates(card: DataCard, bare: int, unlabelled: str, repeated: str) -> Iterator[str]:
    for reason, count in card.dropped.items():
        yield f"{count:,} dropped: {reason}"
    if bare:
        yield f"{bare:,} {unlabelled}"
    if card.duplicates:
        yield f"{card.duplicates:,} {repeated}, kept"
    if card.conflicts:
        yield f"{card.conflicts:,} of them with another label"
