"""How well questions are answered: exact match and F1 of words, as SQuAD's official script for version 2 has them.

Both compare after the script's normalisation: lower case, ASCII punctuation gone, articles gone, spaces made one. A
question counts with the gold answer it agrees with best; one that has none is right where nothing is answered.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from limbeck.measure.metrics import Formula, summed_quality, sums_of_rows
from limbeck.measure.predictions import Array

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact(answer: str, gold: str) -> float:
    return float(normalised(answer) == normalised(gold))


def word_f1(answer: str, gold: str) -> float:
    predicted, true = normalised(answer).split(), normalised(gold).split()
    if not predicted or not true:
        return float(predicted == true)
    same = sum((Counter(predicted) & Counter(true)).values())
    return 2 * same / (len(predicted) + len(true))


def each_answer(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> tuple[Array, Array]:
    """[questions] exact match and F1 of each answer with the gold one it is nearest to."""
    matches, f1s = np.zeros(len(answers)), np.zeros(len(answers))
    for number, (answer, gold) in enumerate(zip(answers, golds, strict=True)):
        allowed = [text for text in gold if normalised(text)] or [""]
        matches[number] = max(exact(answer, text) for text in allowed)
        f1s[number] = max(word_f1(answer, text) for text in allowed)
    return matches, f1s


def _mean_match(weights: Array, sums: Array) -> Array:
    return weights @ sums[:, 0] / weights.sum(axis=1)


def _mean_f1(weights: Array, sums: Array) -> Array:
    return weights @ sums[:, 1] / weights.sum(axis=1)


ANSWER_FORMULAS: dict[str, Formula] = {
    "f1": Formula(sums_of_rows, _mean_f1),
    "exact_match": Formula(sums_of_rows, _mean_match),
}


def answer_quality(sums: Array) -> dict[str, float]:
    """Every metric over these questions [questions, 2]; nothing where there are none."""
    return summed_quality(ANSWER_FORMULAS, sums) if len(sums) else {}
