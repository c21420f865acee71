"""How well words are tagged: F1 of whole entities, or of words where tags are plain.

An entity, read as limbeck_runtime.tags says, counts when type, first and last word are right. Figures are sums over
sentences, so that a resample of sentences can be scored anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from limbeck.core.record import ClassScore
from limbeck.measure.metrics import Formula, ratio, share, summed_quality, sums_of_rows
from limbeck.measure.predictions import Array
from limbeck_runtime.tags import entities, is_plain

Tags = Sequence[str]
HITS, PREDICTED, TRUE, RIGHT, WORDS = range(5)  # columns of what is summed


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
