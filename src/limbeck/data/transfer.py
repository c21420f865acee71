"""A transfer set: rows without labels that join train, so that the teacher answers more than people labelled.

What stands in dev or test is never learnt from: such rows are left out, as are those of train and repeats, and all are
counted for each file. A kind of rows says what a file of them holds, and what tells two of them apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.record import SourceCard
from limbeck.data.settings import DataSettings
from limbeck.data.splits import SPLITS, Division, Row, RowSelection, draw

UNLABELLED = "unlabelled"  # what a source gives
FEW_KNOWN = 0.15  # the share of known words below which texts are likely of another language
_LOOK = 2000  # rows of each side that tell it
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]|[^\W\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]+")
Key = tuple[str, ...]  # a text and its pair, the words of a sentence, a question and its context
Item = TypeVar("Item")


class KeyedRow(Row, Protocol):
    @property
    def key(self) -> Key: ...


R = TypeVar("R", bound=KeyedRow)


@dataclass(frozen=True)
class UnlabelledFile(Generic[R]):
    """What one file of --unlabelled holds: rows without labels, known ones too."""

    part: RowSelection[R]
    columns: Mapping[str, str]  # role → column
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Transfer(Generic[R]):
    """The rows that are new, and what every file gave."""

    rows: Sequence[R]
    sources: Sequence[SourceCard]
    columns: Mapping[str, str]  # role → column, of the last file
    notes: Sequence[str] = ()

    def selection(self) -> RowSelection[R]:
        """As a training file without labels."""
        name = " and ".join(one.source for one in self.sources)
        return RowSelection(self.rows, name, _dropped(self.sources), sum(one.read for one in self.sources))


def select_new(
    files: Iterable[UnlabelledFile[R]],
    settings: DataSettings,
    known: Mapping[str, Sequence[Key]],
    uid_of: Callable[[Key], int],
    unit: str = "text",
) -> Transfer[R]:
    """The rows of every file of --unlabelled that are not `known`: where (dev, test, train) → keys of rows.

    Rows of one uid are the same; a `unit` is what a row is called."""
    taken = {f"also in {where}": _uids(keys, uid_of) for where, keys in known.items()}
    seen = np.empty(0, dtype=np.int64)
    columns: Mapping[str, str] = {}
    rows: list[R] = []
    sources, notes = list[SourceCard](), list[str]()
    for file in files:
        part, columns = file.part, file.columns
        uids = _uids((row.key for row in part.rows), uid_of)
        fresh, dropped = _fresh(uids, {**taken, "repeated": seen}, part.dropped)
        seen = np.concatenate([seen, uids[fresh]])
        new = [part.rows[place] for place in np.flatnonzero(fresh).tolist()]
        rows += new
        notes += filter(None, [*file.notes, language_note(new, known.get("train", ()), part.source)])
        sources.append(SourceCard(source=part.source, gives=UNLABELLED, read=part.read, used=len(new), dropped=dropped))
    if not rows:
        raise DataError(f"{settings.unlabelled}: no {unit} of it is new ({_fates(sources)})", f"give other {unit}s")
    what = "unlabelled: {} of {} rows (--data.limit-unlabelled)"
    if drawn := draw(seen, settings.limit_unlabelled, notes, what):
        rows, sources = [rows[place] for place in drawn], _with_limit(sources, drawn)
    return Transfer(rows, sources, columns, notes)


def passed_over(source: str, column: str, unit: str = "text") -> list[str]:
    """A note on a column of labels in a file of --unlabelled; none where there is no such column."""
    return [f"{source}: its column '{column}' is ignored; the teacher answers these {unit}s"] if column else []


def with_sources(division: Division[R], added: Transfer[R], alone: bool = False) -> Division[R]:
    """With what every file gave; `alone`: the unlabelled ones are the whole of train."""
    labelled = {split: part for split, part in division.given.items() if not (alone and split == "train")}
    return replace(division, sources=[*_source_cards(labelled), *added.sources])


def _source_cards(given: Mapping[str, RowSelection[R]]) -> list[SourceCard]:
    """What the labelled files gave; from train's, splits without a file of their own are cut."""
    cut = [split for split in SPLITS if split not in given]
    gives = {split: [split, *cut] if split == "train" else [split] for split in given}
    return [
        SourceCard(
            source=part.source,
            gives=", ".join(gives[split]),
            read=part.read,
            used=len(part),
            dropped=dict(part.dropped),
        )
        for split, part in given.items()
    ]


def _with_limit(sources: Sequence[SourceCard], drawn: Sequence[int]) -> list[SourceCard]:
    """What every file gives of the rows that were drawn."""
    ends = np.cumsum([one.used for one in sources])
    kept = np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=len(sources)).tolist()
    return [
        one.but(used=left, dropped={**one.dropped, "over the limit": one.used - left}) if left < one.used else one
        for one, left in zip(sources, kept, strict=True)
    ]


def _uids(keys: Iterable[Key], uid_of: Callable[[Key], int]) -> np.ndarray:
    """Of rows as if each stood once: equal rows are equal numbers."""
    return np.fromiter(map(uid_of, keys), np.int64)


def _fresh(
    uids: np.ndarray, taken: Mapping[str, np.ndarray], dropped: Mapping[str, int]
) -> tuple[np.ndarray, dict[str, int]]:
    """[rows] bool: those that stand nowhere else, of equal ones the first; and why the others are dropped."""
    fresh, counts = np.ones(len(uids), dtype=bool), Counter(dropped)
    for why, known in taken.items():
        hits = fresh & np.isin(uids, known)
        counts[why] += int(hits.sum())
        fresh &= ~hits
    first = np.zeros(len(uids), dtype=bool)
    first[np.unique(uids, return_index=True)[1]] = True
    counts["repeated"] += int((fresh & ~first).sum())
    return fresh & first, dict(+counts)


def _dropped(sources: Sequence[SourceCard]) -> Counter[str]:
    return sum((Counter(one.dropped) for one in sources), Counter[str]())


def _fates(sources: Sequence[SourceCard]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in _dropped(sources).items()) or "it has no rows"


def language_note(rows: Sequence[KeyedRow], train: Sequence[Key], source: str) -> str:
    """A warning where hardly any word of the texts occurs in train, else nothing."""
    known = {word for key in _some(train) for word in _words(key)}
    words = [word for row in _some(rows) for word in _words(row.key)]
    share = sum(word in known for word in words) / max(len(words), 1)
    if not known or share >= FEW_KNOWN:
        return ""
    return (
        f"only {share:.0%} of the words of {source} occur in train: texts of another language or field teach the "
        "student little about those of dev and test"
    )


def _some(items: Sequence[Item]) -> Iterator[Item]:
    step = max(len(items) // _LOOK, 1)
    return (items[place] for place in range(0, len(items), step))


def _words(key: Key) -> Iterator[str]:
    """A word each; of scripts that put none apart, a character each."""
    return (word for text in key for word in _WORD.findall(text.casefold()))
