"""Which of a teacher's translations is closest to the reference, as sacrebleu scores single sentences.

BLEU of a sentence is smoothed exponentially and takes the orders that the sentence has; a text without any match
scores 0. Of equals the earliest wins, which is the one that the teacher prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Literal, get_args

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.measure.written import sacrebleu_metrics

Closeness = Literal["bleu", "chrf"]
DIGITS = 9  # the same factors in another order differ in their last bits: that is a tie


def closest(candidates: Sequence[str], reference: str, by: Closeness = "bleu") -> int:
    """Which candidate scores highest, candidates being given best first."""
    if not candidates:
        raise DataError("there is no candidate to choose from", "keep at least one translation of each source")
    if reference in candidates:  # what comes after it cannot score higher
        candidates = candidates[: candidates.index(reference) + 1]
    if len(candidates) == 1:
        return 0
    scores = [round(sentence_score(text, reference, by), DIGITS) for text in candidates]
    return scores.index(max(scores))


def choose(nbest: Sequence[Sequence[str]], references: Sequence[str], by: Closeness = "bleu") -> list[int]:
    """The closest candidate of each sentence."""
    if len(nbest) != len(references):
        raise MismatchError(f"{len(nbest)} lists of candidates and {len(references)} references do not pair up")
    bare = [row for row, candidates in enumerate(nbest, start=1) if not candidates]
    if bare:
        raise DataError(
            f"{len(bare)} sentences have no candidate to choose from, first sentence {bare[0]}",
            "keep at least one translation of each source",
        )
    return [closest(candidates, reference, by) for candidates, reference in zip(nbest, references, strict=True)]


def sentence_score(text: str, reference: str, by: Closeness = "bleu") -> float:
    """0 to 100: sacrebleu.sentence_bleu or sentence_chrf with their defaults."""
    scorer = _scorer(by)
    found = scorer._compute_segment_statistics(scorer._preprocess_segment(text), _prepared(reference, by))
    return float(scorer._compute_score_from_stats(found).score)


@cache
def _scorer(by: Closeness) -> Any:
    metrics = sacrebleu_metrics()
    if by not in get_args(Closeness):
        raise KnobError(f"there is no closeness '{by}'", f"known here: {', '.join(get_args(Closeness))}")
    return metrics.BLEU(effective_order=True) if by == "bleu" else metrics.CHRF()


@lru_cache(maxsize=1024)
def _prepared(reference: str, by: Closeness) -> Any:
    """The n-grams of a reference, counted once for all its candidates."""
    scorer = _scorer(by)
    return scorer._extract_reference_info([scorer._preprocess_segment(reference)])
