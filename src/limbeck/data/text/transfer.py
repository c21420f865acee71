"""A transfer set: texts without labels that join train, so that the teacher answers more than people labelled.

What stands in dev or test is never learnt from: such rows are left out, as are those of train and repeats, and all are
counted for each file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from limbeck.core.errors import DataError
from limbeck.core.record import SourceCard
from limbeck.data.columns import LABELS, NO_LABELS, Roles, choose, plain
from limbeck.data.settings import DataSettings
from limbeck.data.sources.tables import Table
from limbeck.data.sources.unlabelled import read_unlabelled
from limbeck.data.splits import SPLITS, RowSelection, draw
from limbeck.data.text.rows import TextRow, select_texts
from limbeck.data.uids import text_uid

UNLABELLED = "unlabelled"  # what a source gives
FEW_KNOWN = 0.15  # the share of known words below which texts are likely of another language
_LOOK = 2000  # texts of each side that tell it
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]|[^\W\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]+")
Key = tuple[str, str]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Transfer:
    """The rows that are new, and what every file gave."""

    rows: Sequence[TextRow]
    sources: Sequence[SourceCard]
    roles: Roles
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return " and ".join(one.source for one in self.sources)

    def selection(self) -> RowSelection[TextRow]:
        """As a training file without labels."""
        dropped = sum((Counter(one.dropped) for one in self.sources), Counter[str]())
        return RowSelection(self.rows, self.name, dropped, sum(one.read for one in self.sources))


def read_transfer(settings: DataSettings, follow: Roles | None, known: Mapping[str, Sequence[Key]]) -> Transfer:
    """The rows of every file of --unlabelled that are not `known`: where (dev, test, train) → (text, pair) of rows.

    `follow` are the columns of train, whose names count first."""
    taken = {f"also in {where}": _uids(keys) for where, keys in known.items()}
    seen = np.empty(0, dtype=np.int64)
    rows: list[TextRow] = []
    sources, notes = [], list[str]()
    names = (follow.text, follow.pair) if follow else ("text", "")
    for table in read_unlabelled(settings, names):
        follow, ignored = _roles(table, settings, follow)
        if ignored:
            notes.append(f"{table.source}: its column '{ignored}' is ignored; the teacher answers these texts")
        part = select_texts(table, replace(follow, labels=()))
        uids = _uids(row.key for row in part.rows)
        fresh, dropped = _fresh(uids, {**taken, "repeated": seen}, part.dropped)
        seen = np.concatenate([seen, uids[fresh]])
        new = [part.rows[place] for place in np.flatnonzero(fresh).tolist()]
        rows += new
        notes += filter(None, [language_note(new, known.get("train", ()), table.source)])
        sources.append(
            SourceCard(source=table.source, gives=UNLABELLED, read=part.read, used=int(fresh.sum()), dropped=dropped)
        )
        notes += table.notes
    assert follow is not None  # or there is no source
    if not rows:
        raise DataError(f"{settings.unlabelled}: no text of it is new ({_fates(sources)})", "give other texts")
    what = "unlabelled: {} of {} rows (--data.limit-unlabelled)"
    if drawn := draw(seen, settings.limit_unlabelled, notes, what):
        rows, sources = [rows[place] for place in drawn], _with_limit(sources, drawn)
    return Transfer(rows, sources, follow, notes)


def _with_limit(sources: Sequence[SourceCard], drawn: Sequence[int]) -> list[SourceCard]:
    """What every file gives of the rows that were drawn."""
    ends = np.cumsum([one.used for one in sources])
    kept = np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=len(sources)).tolist()
    return [
        one.but(used=left, dropped={**one.dropped, "over the limit": one.used - left}) if left < one.used else one
        for one, left in zip(sources, kept, strict=True)
    ]


def _uids(keys: Iterable[Key]) -> np.ndarray:
    """Of texts as if each stood once: equal texts are equal numbers."""
    return np.fromiter((text_uid(text, pair, 0, "") for text, pair in keys), np.int64)


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


def _roles(table: Table, settings: DataSettings, follow: Roles | None) -> tuple[Roles, str]:
    """The columns of the texts: train's names, else known ones, else the only one; and a label column passed over."""
    pairs = bool(follow.pair if follow else settings.pair_column)
    if len(table.columns) == 1 and not pairs:
        return Roles(next(iter(table.columns))), ""
    named = settings.but(label_column=NO_LABELS)
    if follow is None and not {settings.text_column, settings.pair_column} - {""} <= set(table.columns):
        named = named.but(text_column="", pair_column="")
    roles = choose(table, named, follow=follow)
    labels = {*(follow.labels if follow else ()), *settings.label_column.split(",")}
    others = [name for name in table.columns if name not in (roles.text, roles.pair)]
    ignored = next((name for name in others if name in labels or plain(name) in LABELS), "")
    return replace(roles, labels=follow.labels if follow else ()), ignored


def _fates(sources: Sequence[SourceCard]) -> str:
    dropped = sum((Counter(one.dropped) for one in sources), Counter[str]())
    return ", ".join(f"{count:,} {why}" for why, count in dropped.items()) or "it has no rows"


def source_cards(given: Mapping[str, RowSelection[TextRow]]) -> list[SourceCard]:
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


def language_note(rows: Sequence[TextRow], train: Sequence[Key], source: str) -> str:
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
