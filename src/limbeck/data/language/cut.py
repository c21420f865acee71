"""The dev and test splits that are not given, cut from the documents of train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from limbeck.core.errors import DataError
from limbeck.data.settings import DataSettings
from limbeck.data.splits import RowSelection, cut_by_hash, in_order, missing_splits
from limbeck.data.text.rows import TextRow

_FEWEST = 20  # documents; fewer are cut as one long text
_LINE = 2000  # characters within which a cut waits for the end of a line
Place = tuple[int, int]  # document, character
Selection = RowSelection[TextRow]


def cut_documents(
    parts: Mapping[str, Selection], settings: DataSettings, chats: bool
) -> tuple[dict[str, Selection], list[str]]:
    """By a hash of the document, as labelled rows are: a text keeps its split, and equal ones are never cut apart.

    Few documents are cut as one text, in consecutive parts; a note says so."""
    missing = missing_splits(parts, settings)
    if not missing:
        return in_order(parts), []
    train = parts["train"]
    made = cut_by_hash(train, missing, settings, "document")
    notes = []
    if len(train) < _FEWEST or not all(map(len, made.values())):
        made = _whole_ends(train, missing) if chats else _text_ends(train, missing)
        notes = [
            f"{train.source} has {len(train)} {'chats' if chats else 'documents'}, too few to draw from: "
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} cut from its end"
        ]
    return in_order({**parts, **made}), notes


def _whole_ends(train: Selection, share: Mapping[str, float]) -> dict[str, Selection]:
    """Consecutive parts that keep every document whole, at least one each."""
    counts = [max(1, round(len(train) * part)) for part in share.values()]
    rest = len(train) - sum(counts)
    if rest < 1:
        raise DataError(
            f"{train.source} has {len(train)} usable rows: too few to cut {' and '.join(share)} from",
            "give more rows, or files with --data.dev and --data.test",
        )
    places = np.cumsum([0, rest, *counts]).tolist()
    return {
        split: train.take(range(start, stop), _end_of(train, split))
        for split, (start, stop) in zip(("train", *share), pairwise(places), strict=True)
    }


def _text_ends(train: Selection, share: Mapping[str, float]) -> dict[str, Selection]:
    """Consecutive parts of the text, cut at the end of a line or a word."""
    texts = [document_text(row) for row in train.rows]
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


def _end_of(train: Selection, split: str) -> str:
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


def _between(train: Selection, texts: Sequence[str], start: Place, stop: Place, source: str) -> Selection:
    rows = []
    for document in range(start[0], min(stop[0] + 1, len(texts))):
        first = start[1] if document == start[0] else 0
        last = stop[1] if document == stop[0] else None
        piece = texts[document][first:last].strip("\n")
        if piece.strip():
            rows.append(replace(train.rows[document], text=piece, pair=""))
    return replace(train, rows=rows, source=source)


def document_text(row: TextRow) -> str:
    """Plain text; of a pair of texts, both, one under the other."""
    return "\n".join(filter(None, row.key))
