"""The dev and test splits that are not given, cut from the documents of train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from limbeck.core.errors import DataError, KnobError
from limbeck.data.draft import Draft, shares
from limbeck.data.settings import DataSettings

_FEWEST = 20  # documents; fewer are cut as one long text
_LINE = 2000  # characters within which a cut waits for the end of a line
Place = tuple[int, int]  # document, character


def cut(parts: dict[str, Draft], settings: DataSettings, chats: bool) -> tuple[dict[str, Draft], list[str]]:
    """By a hash of the document, as labelled rows are: a text keeps its split, and equal ones are never cut apart.

    Few documents are cut as one text, in consecutive parts; a note says so."""
    share = {"dev": settings.dev_share, "test": settings.test_share}
    missing = [split for split in share if split not in parts]
    if not missing:
        return parts, []
    if sum(share.values()) >= 1:
        raise KnobError(
            f"dev_share {settings.dev_share:g} and test_share {settings.test_share:g} leave nothing for train",
            "make their sum less than 1",
        )
    train = parts["train"]
    made = _by_hash(train, missing, settings)
    notes = []
    if len(train) < _FEWEST or not all(map(len, made.values())):
        ends = {split: share[split] for split in missing}
        made = _whole_ends(train, ends) if chats else _text_ends(train, ends)
        notes = [
            f"{train.source} has {len(train)} {'chats' if chats else 'documents'}, too few to draw from: "
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} cut from its end"
        ]
    both = {**parts, **made}
    return {split: both[split] for split in ("train", "dev", "test")}, notes


def _by_hash(train: Draft, missing: Sequence[str], settings: DataSettings) -> dict[str, Draft]:
    place = shares(train)
    test, dev = settings.test_share, settings.test_share + settings.dev_share
    inside = {"test": place < test, "dev": (place >= test) & (place < dev)}
    share = {"test": settings.test_share, "dev": settings.dev_share}
    rest = ~np.logical_or.reduce([inside[split] for split in missing])
    made = {"train": train.take(np.flatnonzero(rest), train.source)}
    for split in missing:
        source = f"cut from {train.source} by a hash of the document ({share[split]:.0%})"
        made[split] = train.take(np.flatnonzero(inside[split]), source)
    return made


def _whole_ends(train: Draft, share: dict[str, float]) -> dict[str, Draft]:
    """Consecutive parts that keep every document whole, at least one each."""
    counts = [max(1, round(len(train) * part)) for part in share.values()]
    kept = len(train) - sum(counts)
    if kept < 1:
        raise DataError(
            f"{train.source} has {len(train)} usable rows: too few to cut {' and '.join(share)} from",
            "give more rows, or files with --data.dev and --data.test",
        )
    places = np.cumsum([0, kept, *counts]).tolist()
    return {
        split: train.take(range(start, stop), _end_of(train, split))
        for split, (start, stop) in zip(("train", *share), pairwise(places), strict=True)
    }


def _text_ends(train: Draft, share: dict[str, float]) -> dict[str, Draft]:
    """Consecutive parts of the text, cut at the end of a line or a word."""
    texts = ["\n".join(filter(None, key)) for key in train.keys]
    ends = np.cumsum([len(text) for text in texts])
    after = 1 - sum(share.values())
    places: list[Place] = [(0, 0)]
    for part in share.values():
        places.append(_place(texts, ends, round(after * float(ends[-1]))))
        after += part
    places.append((len(texts), 0))
    return {
        split: _between(train, texts, start, stop, _end_of(train, split))
        for split, (start, stop) in zip(("train", *share), pairwise(places), strict=True)
    }


def _end_of(train: Draft, split: str) -> str:
    return train.source if split == "train" else f"cut from the end of {train.source}"


def _place(texts: Sequence[str], ends: np.ndarray, character: int) -> Place:
    """Where a cut near this character of the whole text breaks no line, or at least no word."""
    document = min(int(np.searchsorted(ends, character, side="right")), len(texts) - 1)
    text = texts[document]
    start = character - (int(ends[document]) - len(text))
    for space, within in (("\n", _LINE), (" ", len(text))):
        found = text.find(space, start, start + within)
        if found >= 0:
            return document, found + 1
    return document, start


def _between(train: Draft, texts: Sequence[str], start: Place, stop: Place, source: str) -> Draft:
    rows, keys = [], []
    for document in range(start[0], min(stop[0] + 1, len(texts))):
        first = start[1] if document == start[0] else 0
        last = stop[1] if document == stop[0] else None
        piece = texts[document][first:last].strip("\n")
        if piece.strip():
            rows.append(train.rows[document])
            keys.append((piece, ""))
    return replace(train, rows=rows, keys=keys, source=source)
