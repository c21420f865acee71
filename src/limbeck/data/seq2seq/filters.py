"""Which machine translations a student may learn from. The rules know characters and spaces, and no language.

A text repeats itself if 1 to 4 words stand more than 4 times in a row; without any space in it, if 1 to 8 characters
stand more than 8 times in a row. It may where its source does: "ha ha ha ha ha" is no fault of the translator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

_SHORT = 10  # characters: between two texts below this, lengths say nothing
_WORDS, _TIMES = 4, 4
_CHARACTERS, _CHARACTER_TIMES = 8, 8


def filter_pairs(
    sources: Sequence[str],
    targets: Sequence[str],
    ratio: float,
    copies: bool = False,
    looping: bool = False,
    cut: Sequence[bool] | None = None,
) -> tuple[np.ndarray, dict[str, int]]:
    """[n] bool, and how many are left out for which reason; the first reason counts.

    `copies` and `looping` let pass what copies its source and what repeats itself; `cut` names the texts that have no
    end: a student would learn to stop there."""
    cut = [False] * len(sources) if cut is None else cut
    reasons = [
        _fault(source, target, ratio, copies, looping) or ("cut off before its end" if unfinished else "")
        for source, target, unfinished in zip(sources, targets, cut, strict=True)
    ]
    return np.array([not reason for reason in reasons], dtype=bool), dict(Counter(filter(None, reasons)))


def _fault(source: str, target: str, ratio: float, copies: bool, looping: bool) -> str:
    source, target = source.strip(), target.strip()
    if not target:
        return "empty"
    if not copies and target.casefold() == source.casefold():
        return "copies its source"
    short, long = sorted((len(source), len(target)))
    if long >= _SHORT and (long + 1) / (short + 1) > ratio:
        return "too long or too short"
    if not looping and repeats_itself(target) and not repeats_itself(source):
        return "repeats itself"
    return ""


def repeats_itself(text: str) -> bool:
    words = text.split()
    if len(words) > 1:
        return _in_a_row(words, _WORDS, _TIMES)
    return _in_a_row(text, _CHARACTERS, _CHARACTER_TIMES)


def _in_a_row(units: Sequence[str], longest: int, times: int) -> bool:
    """Whether up to `longest` units stand more than `times` in a row: n · times equal what comes n later."""
    for n in range(1, longest + 1):
        run = 0
        for one, later in zip(units, units[n:], strict=False):
            run = run + 1 if one == later else 0
            if run == n * times:
                return True
    return False
