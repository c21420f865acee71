"""The tags of words: which words a text has, where each is read, and which entities the tags make.

Entities are read as seqeval does by default, which is lenient: one begins at B or S, or where I or E follows O, an
ended entity or another type; it goes on to the next beginning, to O, or to E or S. So IOB1, IOB2, IOBES and BILOU give
the entities they mean, and I without B is an entity all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

OUTSIDE = "O"
Entity = tuple[str, int, int]  # type, first word, last word
_ENTITY = re.compile(r"[BIESLU](-.*)?", re.DOTALL)
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff"  # each a word of its own
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+(?:[-'’.][^\W{_IDEOGRAPHS}]+)*|[^\w\s]")


def words_of(text: str) -> list[str]:
    """A text cut into words; every sign is one of its own."""
    return _WORD.findall(text)


def is_plain(labels: Iterable[str]) -> bool:
    """Whether tags do not mark where an entity begins and ends; parts of speech do not."""
    others = [label for label in labels if label != OUTSIDE]
    return not others or not all(map(_ENTITY.fullmatch, others))


def split_tag(tag: str) -> tuple[str, str]:
    """Where in its entity a word stands, one of B I E S O, and the entity's type. BILOU has L for E and U for S."""
    place = {"L": "E", "U": "S"}.get(tag[:1], tag[:1])
    return place, tag[2:] if tag[1:2] == "-" else ""


def entities(tags: Sequence[str], plain: bool = False) -> set[Entity]:
    """The entities of one sentence; of plain tags, each word that is not O."""
    if plain:
        return {(tag, place, place) for place, tag in enumerate(tags) if tag != OUTSIDE}
    found: set[Entity] = set()
    first, before = -1, (OUTSIDE, "")  # the entity that goes on begins at `first`; none does where it is -1
    for place, tag in enumerate([*tags, OUTSIDE]):
        here = split_tag(tag)
        ended = before[0] in (OUTSIDE, "E", "S")
        begins = here[0] != OUTSIDE and (here[0] in ("B", "S") or ended or here[1] != before[1])
        if first >= 0 and (begins or here[0] == OUTSIDE):
            found.add((before[1], first, place - 1))
            first = -1
        first = place if begins else first
        before = here
    return found


def tagged(words: Sequence[str], tags: Sequence[str], sure: Sequence[float], plain: bool) -> dict[str, object]:
    """The tag of every word, and the entities they make: an entity is as sure as its least sure word."""
    found = sorted(entities(tags, plain), key=lambda entity: entity[1])
    spans = [
        {"type": name, "text": " ".join(words[first : last + 1]), "probability": min(sure[first : last + 1])}
        for name, first, last in found
    ]
    return {"words": list(words), "tags": list(tags), "entities": spans}


@dataclass(frozen=True)
class Seen:
    """A word's first token within one window."""

    window: int
    place: int
    begin: int  # character
    margin: int  # tokens to the nearer end of the window


def first_tokens(words: Sequence[str], windows: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> dict[int, Seen]:
    """For each word the window, of these with the characters of their tokens, in which its first token has the most
    tokens on both sides. The text is the words with a space between."""
    # [characters] the word each belongs to, -1 for the spaces between
    word_of = np.concatenate([np.append(np.full(len(word), n), -1) for n, word in enumerate(words)])
    best: dict[int, Seen] = {}
    for window, offsets in windows:
        for place, (begin, end) in enumerate(offsets):
            # a token may reach back over the space before its word, never over the word's last letter
            word = int(word_of[end - 1]) if end > begin else -1
            if word < 0:
                continue
            seen = Seen(window, place, begin, min(place, len(offsets) - 1 - place))
            before = best.get(word)
            if before is None or (-seen.begin, seen.margin) > (-before.begin, before.margin):
                best[word] = seen
    return best
