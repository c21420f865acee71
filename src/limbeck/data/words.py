"""A text as words and what stands between them, so that a word can change and the rest stays as it was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

Row = tuple[str, str]  # a text and its pair; the pair of a single text is empty

# A clitic ('s, 're), a word with its inner hyphens, points and apostrophes, or a run of other signs.
_WORD = re.compile(r"['’](?:s|re|ve|ll|d|m)\b|\w+(?:[-.'’]\w+)*|[^\w\s]+", re.IGNORECASE)


@dataclass(frozen=True)
class Words:
    words: tuple[str, ...]
    gaps: tuple[str, ...]  # before each word, and one after the last

    def __len__(self) -> int:
        return len(self.words)

    def written(self, words: Sequence[str], start: int = 0, stop: int | None = None) -> str:
        """The text with these words in place of its own; of a part, only what lies between its ends."""
        if not self.words:
            return self.gaps[0]
        stop = len(self) if stop is None else stop
        first = self.gaps[0] if start == 0 else ""
        last = self.gaps[-1] if stop == len(self) else ""
        between = (self.gaps[place] + words[place] for place in range(start + 1, stop))
        return first + words[start] + "".join(between) + last


def split(text: str) -> Words:
    found = list(_WORD.finditer(text))
    ends = [0, *(match.end() for match in found)]
    starts = [*(match.start() for match in found), len(text)]
    gaps = (text[end:start] for end, start in zip(ends, starts, strict=True))
    return Words(tuple(match.group() for match in found), tuple(gaps))


def chance_of(row: Row, seed: int) -> Random:
    """A source of numbers that depends on the texts and the seed alone; the length keeps ab|c apart from a|bc."""
    return Random(f"{seed} {len(row[0])} {row[0]}{row[1]}")
