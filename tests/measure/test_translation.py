"""Sums per sentence against sacrebleu on the texts themselves, whole and resampled."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from limbeck.core.errors import DataError, KnobError, MismatchError, ModelError
from limbeck.core.metric import metrics_of
from limbeck.core.task import TaskInfo
from limbeck.measure.quality import compare, quality
from limbeck.measure.translation import BEST, COUNTS, TRANSLATION_FORMULAS, bleu, chrf, counts, sentence_statistics

TASK = TaskInfo(kind="translate", vocab_size=100)
WORDS = "the cat sat on a mat , and dog's 3.5 km away ! Ein Hündchen läuft “schnell” &amp; gern .".split()


def sentences(rng: np.random.Generator, n: int) -> list[str]:
    return [" ".join(rng.choice(WORDS, rng.integers(1, 15))) for _ in range(n)]


def near(rng: np.random.Generator, references: list[str], share: float) -> list[str]:
    """The references with some of their words lost or replaced."""
    kept = [[word if rng.random() > share else rng.choice(WORDS) for word in text.split()] for text in references]
    return [" ".join(words[: len(words) - (rng.random() < share)]) for words in kept]


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[str], list[str]]:
    """References, greedy and beam translations: one empty, one all wrong, one perfect."""
    rng = np.random.default_rng(3)
    references = sentences(rng, 60)
    greedy, beam = near(rng, references, 0.35), near(rng, references, 0.25)
    greedy[:3] = "", "nothing shared here", references[2]
    return references, greedy, beam


def rows_of(references: list[str], greedy: list[str], beam: list[str] | None, **more: object) -> np.ndarray:
    n = len(references)
    gold = np.linspace(2.0, 30.0, n), np.arange(1.0, n + 1)
    return sentence_statistics(greedy, beam, references, gold, **more)  # type: ignore[arg-type]


def figures(rows: np.ndarray) -> dict[str, float]:
    everyone = np.ones(len(rows), dtype=bool)
    return quality(TASK, rows, everyone, everyone)[0]


def test_the_whole_set_scores_as_sacrebleu_says(texts: tuple[list[str], list[str], list[str]]) -> None:
    references, greedy, beam = texts
    found = figures(rows_of(references, greedy, beam))
    expected = {
        "bleu": sacrebleu.corpus_bleu(greedy, [references]).score,
        "chrf": sacrebleu.corpus_chrf(greedy, [references]).score,
        "bleu_beam": sacrebleu.corpus_bleu(beam, [references]).score,
        "chrf_beam": sacrebleu.corpus_chrf(beam, [references]).score,
    }
    assert 5 < expected["bleu"] < expected["bleu_beam"] < 95
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-9)
    assert found["beam_gain"] == pytest.approx(expected["bleu_beam"] - expected["bleu"], abs=1e-9)


def test_resamples_score_as_sacrebleu_says_of_the_repeated_texts(
    texts: tuple[list[str], list[str], list[str]],
) -> None:
    references, greedy, beam = texts
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(references), (4, len(references)))
    weights = np.stack([np.bincount(rows, minlength=len(references)) for rows in drawn]).astype(float)
    sums = rows_of(references, greedy, beam)
    of_each = {
        name: metric.value(weights, metric.columns(TASK, sums, np.ones(len(sums))))
        for name, metric in TRANSLATION_FORMULAS.items()
    }
    for place, rows in enumerate(drawn):
        repeated = [[some[row] for row in rows] for some in texts]
        assert of_each["bleu"][place] == pytest.approx(
            sacrebleu.corpus_bleu(repeated[1], [repeated[0]]).score, abs=1e-9
        )
        assert of_each["chrf"][place] == pytest.approx(
            sacrebleu.corpus_chrf(repeated[1], [repeated[0]]).score, abs=1e-9
        )
        gold = np.linspace(2.0, 30.0, 60)[rows].sum() / np.arange(1.0, 61)[rows].sum()
        assert of_each["perplexity"][place] == pytest.approx(np.exp(gold))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.text("ab .", max_size=9), st.text("ab .", max_size=9)), min_size=1, max_size=4))
def test_short_empty_and_foreign_texts_score_as_sacrebleu_says(pairs: list[tuple[str, str]]) -> None:
    written, references = ([pair[place] for pair in pairs] for place in (0, 1))
    sums = counts(written, references).sum(axis=0, keepdims=True)
    said = sacrebleu.corpus_bleu(written, [references])
    assert sums[0, :10].tolist() == [*said.counts, *said.totals, said.sys_len, said.ref_len]
    ours = (bleu(sums[:, :10])[0], chrf(sums[:, 10:])[0])
    theirs = (said.score, sacrebleu.corpus_chrf(written, [references]).score)
    for value, expected in zip(ours, theirs, strict=True):
        assert (0.0 if np.isnan(value) else value) == pytest.approx(expected, abs=1e-9)


def test_smoothing_halves_with_each_order_that_has_no_match() -> None:
    references, written = ["a b c d e f"], ["a c b d f e"]
    sums = counts(written, references)
    assert sums[0, :4].tolist() == [6, 0, 0, 0]
    by_hand = 100 * (1 * (1 / (2 * 5)) * (1 / (4 * 4)) * (1 / (8 * 3))) ** 0.25
    assert bleu(sums[:, :10])[0] == pytest.approx(by_hand)


def test_a_row_holds_both_texts_and_what_the_model_thinks_of_others(
    texts: tuple[list[str], list[str], list[str]],
) -> None:
    references, greedy, beam = texts
    n = len(references)
    taught = np.where(np.arange(n) % 2, 4.0, 0.0), np.where(np.arange(n) % 2, 8.0, 0.0)
    best = np.where(np.arange(n) < 2, np.log([0.5, 0.1] * (n // 2)), np.nan)
    rows = rows_of(references, greedy, beam, taught=taught, best=best)
    assert rows.shape == (n, 61)
    assert (rows[:, :COUNTS] == counts(greedy, references)).all()
    assert (rows[:, COUNTS : 2 * COUNTS] == counts(beam, references)).all()
    found = figures(rows)
    assert list(found) == list(TRANSLATION_FORMULAS) == list(metrics_of(TASK))
    assert found["perplexity_of_teacher"] == pytest.approx(np.exp(0.5))
    assert found["p_best"] == pytest.approx(0.3)
    assert found["perplexity"] == pytest.approx(np.exp(np.linspace(2.0, 30.0, n).sum() / np.arange(1, n + 1).sum()))


def test_what_there_is_nothing_to_compute_from_is_left_out(texts: tuple[list[str], list[str], list[str]]) -> None:
    references, greedy, _ = texts
    rows = rows_of(references, greedy, None)
    assert np.isnan(rows[:, BEST]).all()
    assert list(figures(rows)) == ["bleu", "chrf", "perplexity"]
    everyone = np.ones(len(rows), dtype=bool)
    with pytest.raises(DataError, match="perplexity_of_teacher cannot be compared"):
        compare(TASK, "perplexity_of_teacher", "a", "b", [rows], [rows], everyone, everyone, rounds=10)


@pytest.mark.parametrize("metric", TRANSLATION_FORMULAS)
def test_arms_are_compared_sentence_by_sentence(metric: str, texts: tuple[list[str], list[str], list[str]]) -> None:
    references = texts[0]
    rng, n, everyone = np.random.default_rng(7), len(references), np.ones(len(references), dtype=bool)

    def arm(share: float) -> np.ndarray:
        nats, tokens = rng.uniform(1, 9, n) * (1 + share), rng.integers(1, 9, n)
        best = np.where(rng.random(n) < 0.8, np.log(rng.uniform(0.1, 1 - share, n)), np.nan)
        written = (near(rng, references, share) for _ in range(2))
        return sentence_statistics(*written, references, (nats, tokens), (nats, tokens), best)  # type: ignore[misc]

    a, b = [arm(0.1), arm(0.2)], [arm(0.5), arm(0.4)]
    there = compare(TASK, metric, "distilled", "plain", a, b, everyone, everyone, rounds=200)
    back = compare(TASK, metric, "plain", "distilled", b, a, everyone, everyone, rounds=200)
    mean_a, mean_b = (np.mean([figures(rows)[metric] for rows in some]) for some in (a, b))
    assert there.difference == pytest.approx(mean_a - mean_b)
    assert there.difference == -back.difference != 0
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low < there.difference < there.high
    assert "60 test sentences" in there.sentence
    same = compare(TASK, metric, "distilled", "plain", a, a, everyone, everyone, rounds=200)
    assert (same.difference, same.low, same.high) == (0, 0, 0)


def test_a_better_arm_is_said_to_help() -> None:
    references = sentences(np.random.default_rng(1), 80)
    everyone, told = np.ones(80, dtype=bool), (np.ones(80), np.ones(80))
    good, bad = (
        sentence_statistics(near(np.random.default_rng(2), references, share), None, references, told)
        for share in (0.1, 0.6)
    )
    found = compare(TASK, "bleu", "distilled", "plain", [good], [bad], everyone, everyone, rounds=300)
    assert found.low > 0
    assert found.sentence.startswith("Distillation helped by +")
    assert " in BLEU (95% interval +" in found.sentence


def test_few_rows_with_a_best_translation_still_give_an_interval() -> None:
    """Of three rows one has it, so that three resamples in ten have none."""
    references, told = ["a b", "c d", "e f"], (np.ones(3), np.ones(3))
    first, second = (
        sentence_statistics(references, None, references, told, best=np.array([np.log(p), np.nan, np.nan]))
        for p in (0.5, 0.25)
    )
    everyone = np.ones(3, dtype=bool)
    found = compare(TASK, "p_best", "a", "b", [first], [second], everyone, everyone, rounds=200)
    assert (found.difference, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))
    assert "+25.0 points of p(ŷ)" in found.sentence


def test_what_cannot_be_scored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MismatchError, match="2 texts and 1 references"):
        counts(["a", "b"], ["a"])
    with pytest.raises(ModelError, match="1 of 2 texts"):
        sentence_statistics(["a", "b"], None, ["a", "b"], (np.array([1.0, np.nan]), np.ones(2)))
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(KnobError, match=r"limbeck\[translate\]"):
        counts(["a"], ["a"])


def test_no_texts_make_no_rows() -> None:
    assert counts([], []).shape == (0, COUNTS)
