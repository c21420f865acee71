"""How well texts are written: BLEU and chrF as sacrebleu has them, perplexity, and how sure a model is of itself.

Figures are sums over sentences, so that a resample of sentences can be scored anew. What is counted in a sentence is
extracted by sacrebleu; here the counts are only added up and turned into scores, many resamples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from limbeck.core.errors import DataError, KnobError, MismatchError, ModelError
from limbeck.core.task import TaskInfo
from limbeck.measure.metrics import Formula, ratio
from limbeck.measure.predictions import Array

ORDERS = 4  # longest n-gram of words in BLEU
CHARACTERS = 6  # longest n-gram of characters in chrF
RECALL = 2  # how much recall counts beside precision in chrF: its β
BLEU = slice(0, 2 * ORDERS + 2)
CHRF = slice(BLEU.stop, BLEU.stop + 3 * CHARACTERS)
COUNTS = CHRF.stop  # of one text; those of the greedy text come first, then those of the beam's
GOLD, TAUGHT = (slice(start, start + 2) for start in (2 * COUNTS, 2 * COUNTS + 2))  # nats, tokens
BEST = 2 * COUNTS + 4

Closeness = Literal["bleu", "chrf"]
DIGITS = 9  # the same factors in another order differ in their last bits: that is a tie

Surprise = tuple[Array, Array]  # nats of surprise [n] and tokens [n]


def sacrebleu_metrics() -> ModuleType:
    try:
        import sacrebleu.metrics
    except ImportError:
        raise KnobError(
            "texts are scored by sacrebleu, which is not here", "pip install 'limbeck[translate]'"
        ) from None
    return sacrebleu.metrics


def counts(written: Sequence[str], references: Sequence[str]) -> Array:
    """[n, 28] BLEU: matches and totals of 1 to 4 words, length, reference length; chrF: predicted, true and both."""
    if len(written) != len(references):
        raise MismatchError(f"{len(written)} texts and {len(references)} references do not pair up")
    metrics = sacrebleu_metrics()
    bleu = metrics.BLEU(tokenize="13a", force=True)  # force: no warning of texts that look tokenised
    chrf = metrics.CHRF(char_order=CHARACTERS, word_order=0, beta=RECALL)
    words, characters = (
        np.array(scorer._extract_corpus_statistics(written, [references]), dtype=np.float64).reshape(
            len(written), width
        )
        for scorer, width in ((bleu, BLEU.stop), (chrf, COUNTS - BLEU.stop))
    )
    lengths_last = np.roll(words, -2, axis=1)
    return np.concatenate([lengths_last, characters], axis=1)


def sentence_statistics(
    greedy: Sequence[str],
    beam: Sequence[str] | None,
    references: Sequence[str],
    gold: Surprise,
    taught: Surprise | None = None,
    best: Array | None = None,
) -> Array:
    """[n, 61] all that the metrics are made from; what is not known counts 0 tokens, or is nan for `best`.

    `gold` and `taught` tell how a model takes the references and the teacher's translations; `best` is the
    log-probability of the model's own best translation.
    """
    nothing = np.zeros(len(references))
    surprise = [*gold, *(taught or (nothing, nothing))]
    lost = int(np.isnan(np.stack(surprise)).any(axis=0).sum())
    if lost:
        raise ModelError(
            f"the model gives {lost} of {len(references)} texts a probability that is not a number",
            "its training has diverged: lower the learning rate and train it again",
        )
    by_beam = np.zeros((len(references), COUNTS)) if beam is None else counts(beam, references)
    sure = np.full(len(references), np.nan) if best is None else best
    return np.column_stack([counts(greedy, references), by_beam, *surprise, sure])


def bleu(sums: Array) -> Array:
    """[r] corpus BLEU of summed counts [r, 10], smoothed exponentially; nan where there are no words at all.

    The first order without a match counts as half a match, the next as a quarter. No match of any order scores 0, and
    so do texts without a single n-gram of the longest order.
    """
    matches, totals, (length, reference) = sums[:, :ORDERS], sums[:, ORDERS : 2 * ORDERS], sums[:, 2 * ORDERS :].T
    missed = matches == 0
    precision = ratio(np.where(missed, 0.5 ** missed.cumsum(axis=1), matches), totals)  # [r, 4]
    brevity = np.exp(np.minimum(1 - ratio(reference, length), 0.0))
    score = 100 * brevity * precision.prod(axis=1) ** (1 / ORDERS) * matches.any(axis=1)
    return np.where(length + reference > 0, score, np.nan)


def chrf(sums: Array) -> Array:
    """[r] corpus chrF of summed counts [r, 18]: F of the mean precision and recall; nan where there is no character."""
    predicted, true, both = sums.reshape(-1, CHARACTERS, 3).transpose(2, 0, 1)  # [r, 6]
    orders = ((predicted > 0) & (true > 0)).sum(axis=1)
    precision, recall = (ratio(ratio(both, under).sum(axis=1), orders) for under in (predicted, true))
    score = 100 * ratio((1 + RECALL**2) * precision * recall, RECALL**2 * precision + recall)
    return np.where((predicted + true).any(axis=1), score, np.nan)


# What one looks at, row by row.


def _part(*places: slice) -> Callable[[TaskInfo, Array, Array], Array]:
    """Only what a metric is made from, so that rows alike in it are drawn as one kind."""

    def columns(task: TaskInfo, rows: Array, labels: Array) -> Array:
        return np.concatenate([rows[:, place] for place in places], axis=1)

    return columns


def _of_beam(place: slice) -> slice:
    return slice(place.start + COUNTS, place.stop + COUNTS)


def _probability(task: TaskInfo, rows: Array, labels: Array) -> Array:
    """[n, 2]: of the best text, and whether it is known."""
    known = ~np.isnan(rows[:, BEST])
    return np.stack([np.exp(np.where(known, rows[:, BEST], -np.inf)), known], axis=1)


# What it comes to, for each row of weights.


def _bleu(weights: Array, columns: Array) -> Array:
    return bleu(weights @ columns)


def _chrf(weights: Array, columns: Array) -> Array:
    return chrf(weights @ columns)


def _beam_gain(weights: Array, columns: Array) -> Array:
    greedy, beam = np.split(weights @ columns, 2, axis=1)
    return bleu(beam) - bleu(greedy)


def _mean(weights: Array, columns: Array) -> Array:
    """What is summed per what is counted; nan where nothing is."""
    over, under = (weights @ columns).T
    return np.where(under > 0, ratio(over, under), np.nan)


def _perplexity(weights: Array, columns: Array) -> Array:
    return np.exp(_mean(weights, columns))


TRANSLATION_FORMULAS: dict[str, Formula] = {
    "bleu": Formula(_part(BLEU), _bleu),
    "chrf": Formula(_part(CHRF), _chrf),
    "bleu_beam": Formula(_part(_of_beam(BLEU)), _bleu),
    "chrf_beam": Formula(_part(_of_beam(CHRF)), _chrf),
    "beam_gain": Formula(_part(BLEU, _of_beam(BLEU)), _beam_gain),
    "perplexity": Formula(_part(GOLD), _perplexity),
    "perplexity_of_teacher": Formula(_part(TAUGHT), _perplexity),
    "p_best": Formula(_probability, _mean),
}


# Which of a teacher's translations is closest to the reference, as sacrebleu scores single sentences. BLEU of a
# sentence is smoothed exponentially and takes the orders that the sentence has; a text without any match scores 0.


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
