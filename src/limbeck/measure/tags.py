"""How well words are tagged: F1 of whole entities, or of words where tags are plain.

Entities are read as seqeval does by default, which is lenient: one begins at B or S, or where I or E follows O, an
ended entity or another type; it goes on to the next beginning, to O, or to E or S. So IOB1, IOB2, IOBES and BILOU give
the entities they mean, and I without B is an entity all the same. An entity counts when type, first and last word are
right. Figures are sums over sentences, so that a resample of sentences can be scored anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from limbeck.core.record import ClassScore
from limbeck.data.token.sentences import OUTSIDE, is_plain, split_tag
from limbeck.measure.metrics import Formula, ratio, share, summed_quality, sums_of_rows
from limbeck.measure.predictions import Array

Entity = tuple[str, int, int]  # type, first word, last word
Tags = Sequence[str]
HITS, PREDICTED, TRUE, RIGHT, WORDS = range(5)  # columns of what is summed


def entities(tags: Tags, plain: bool = False) -> set[Entity]:
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


def each_sentence(gold: Sequence[Tags], predicted: Sequence[Tags], labels: Sequence[str]) -> Array:
    """[sentences, 5] entities right, predicted, true; words tagged right, words. Words without a tag do not count."""
    plain = is_plain(labels)
    sums = np.zeros((len(gold), 5))
    for row, (true, answer) in zip(sums, map(_known, gold, predicted), strict=True):
        in_gold, in_answer = entities(true, plain), entities(answer, plain)
        right = sum(a == b for a, b in zip(true, answer, strict=True))
        row[:] = len(in_gold & in_answer), len(in_answer), len(in_gold), right, len(true)
    return sums


def per_type(gold: Sequence[Tags], predicted: Sequence[Tags], labels: Sequence[str]) -> list[ClassScore]:
    """Precision, recall and F1 of each type of entity; of plain tags, of each tag."""
    plain = is_plain(labels)
    hits, answered, true = Counter[str](), Counter[str](), Counter[str]()
    for tags, answer in map(_known, gold, predicted):
        in_gold, in_answer = entities(tags, plain), entities(answer, plain)
        for count, found in ((hits, in_gold & in_answer), (answered, in_answer), (true, in_gold)):
            count.update(kind for kind, _, _ in found)
    return [
        ClassScore(
            label=kind or "entity",
            precision=_share(hits[kind], answered[kind]),
            recall=_share(hits[kind], true[kind]),
            f1=_share(2 * hits[kind], answered[kind] + true[kind]),
            rows=true[kind],
        )
        for kind in sorted({*answered, *true})
    ]


def _known(gold: Tags, predicted: Tags) -> tuple[Tags, Tags]:
    pairs = [(true, answer) for true, answer in zip(gold, predicted, strict=True) if true]
    return [true for true, _ in pairs], [answer for _, answer in pairs]


def _share(over: int, under: int) -> float:
    return over / under if under else 0.0


def _f1(weights: Array, sums: Array) -> Array:
    return ratio(2 * weights @ sums[:, HITS], weights @ (sums[:, PREDICTED] + sums[:, TRUE]))


TAG_FORMULAS: dict[str, Formula] = {
    "f1": Formula(sums_of_rows, _f1),
    "precision": Formula(sums_of_rows, share(HITS, PREDICTED)),
    "recall": Formula(sums_of_rows, share(HITS, TRUE)),
    "accuracy": Formula(sums_of_rows, share(RIGHT, WORDS)),
}


def tag_quality(sums: Array) -> dict[str, float]:
    """Every metric over these sentences; nothing where no word has a tag."""
    return summed_quality(TAG_FORMULAS, sums) if sums[:, WORDS].sum() else {}
