from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.metric import metrics_of
from limbeck.core.record import Comparison
from limbeck.core.task import TaskInfo
from limbeck.measure.quality import compare, quality

TWO = TaskInfo(kind="classify", labels=("bad", "good"))
MANY = TaskInfo(kind="multilabel", labels=("x", "y", "z"))
NUMBER = TaskInfo(kind="regress")


def arms(
    task: TaskInfo, n: int, seeds: int, seed: int = 0, lead: float = 0.3
) -> tuple[list, list, np.ndarray, np.ndarray]:
    """Two arms whose logits follow the labels, the first a little more closely."""
    rng = np.random.default_rng(seed)
    if task is NUMBER:
        labels = rng.normal(size=n)
        signal = labels[:, None]
    elif task is MANY:
        labels = rng.integers(0, 2, (n, 3))
        signal = 2.0 * labels - 1
    else:
        labels = rng.integers(0, 2, n)
        signal = np.eye(2)[labels]
    noise = lambda: rng.normal(size=signal.shape)  # noqa: E731
    a = [(1 + lead) * signal + noise() for _ in range(seeds)]
    b = [signal + noise() for _ in range(seeds)]
    return a, b, labels, np.ones(n, dtype=bool)


def run(task: TaskInfo, metric: str, sample: tuple, **options: object) -> Comparison:
    a, b, labels, has_label = sample
    return compare(task, metric, "distilled", "plain", a, b, labels, has_label, **options)  # type: ignore[arg-type]


EACH = [(task, metric) for task in (TWO, MANY, NUMBER) for metric in metrics_of(task)]


@pytest.mark.parametrize(("task", "metric"), EACH)
def test_the_difference_is_that_of_quality(task: TaskInfo, metric: str) -> None:
    a, b, labels, has_label = sample = arms(task, 80, 3)
    has_label[::7] = False
    found = run(task, metric, sample, rounds=200)
    mean_a, mean_b = (np.mean([quality(task, x, labels, has_label)[0][metric] for x in arm]) for arm in (a, b))
    assert found.difference == pytest.approx(mean_a - mean_b)
    assert (found.seeds, found.rows) == (3, has_label.sum())
    assert found.low < found.difference < found.high


@pytest.mark.parametrize(("task", "metric"), EACH)
def test_swapping_the_arms_mirrors_everything(task: TaskInfo, metric: str) -> None:
    a, b, labels, has_label = arms(task, 60, 2)
    there = compare(task, metric, "a", "b", a, b, labels, has_label, rounds=300)
    back = compare(task, metric, "b", "a", b, a, labels, has_label, rounds=300)
    assert there.difference == -back.difference
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@pytest.mark.parametrize(("task", "metric"), EACH)
def test_identical_arms_do_not_differ(task: TaskInfo, metric: str) -> None:
    a, _, labels, has_label = arms(task, 60, 3)
    found = compare(task, metric, "distilled", "plain", a, a, labels, has_label, rounds=200)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert "no difference" in found.sentence


def test_the_same_seed_gives_the_same_interval() -> None:
    sample = arms(NUMBER, 100, 3)
    once, again, other = (run(NUMBER, "pearson", sample, seed=seed, rounds=500) for seed in (5, 5, 6))
    assert once == again
    assert (once.low, once.high) != (other.low, other.high)
    assert once.difference == other.difference


def f1(said: np.ndarray, true: np.ndarray) -> float:
    return float(2 * (said & true).sum() / (said.sum() + true.sum()))


REFERENCE = {
    "accuracy": lambda x, y: (x.argmax(1) == y).mean(),
    "f1_macro": lambda x, y: np.mean([f1(x.argmax(1) == c, y == c) for c in (0, 1)]),
    "f1_micro": lambda x, y: f1(x > 0, y > 0),
    "pearson": lambda x, y: np.corrcoef(x[:, 0], y)[0, 1],
    "spearman": lambda x, y: np.corrcoef(stats.rankdata(x[:, 0]), stats.rankdata(y))[0, 1],
}


@pytest.mark.parametrize(
    ("task", "metric"),
    [(TWO, "accuracy"), (TWO, "f1_macro"), (MANY, "f1_micro"), (NUMBER, "pearson"), (NUMBER, "spearman")],
)
def test_agrees_with_drawing_rows_one_by_one(task: TaskInfo, metric: str) -> None:
    a, b, labels, _ = sample = arms(task, 60, 3)
    rng, score, drawn = np.random.default_rng(99), REFERENCE[metric], []
    for _ in range(1500):
        rows, seeds = rng.integers(0, 60, 60), rng.integers(0, 3, 3)
        gaps = [score(a[s][rows], labels[rows]) - score(b[s][rows], labels[rows]) for s in seeds]
        drawn.append(np.mean(gaps))
    found = run(task, metric, sample)
    low, high = np.quantile(drawn, [0.025, 0.975])
    width = high - low
    assert abs(found.low - low) < 0.1 * width  # three to four standard errors of a quantile over 1,500 rounds
    assert abs(found.high - high) < 0.1 * width


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covered = 0
    for trial in range(200):
        found = run(TWO, "accuracy", arms(TWO, 150, 1, seed=trial, lead=0.0), rounds=400)
        covered += found.low <= 0 <= found.high
    assert 0.90 <= covered / 200 <= 0.99


def test_more_rows_narrow_the_interval_and_more_confidence_widens_it() -> None:
    few, many = (run(TWO, "accuracy", arms(TWO, n, 3), rounds=1000) for n in (100, 10_000))
    wide = run(TWO, "accuracy", arms(TWO, 100, 3), rounds=1000, confidence=0.99)
    assert many.high - many.low < (few.high - few.low) / 3
    assert wide.high - wide.low > few.high - few.low


def test_the_spread_between_seeds_widens_the_interval() -> None:
    """Two seeds whose differences are +20 and −20 points: rows alone would say 0 is certain."""
    labels = np.zeros(1000, dtype=int)
    right, worse = np.tile([1.0, 0.0], (1000, 1)), np.tile([1.0, 0.0], (1000, 1))
    worse[:200] = [0.0, 1.0]
    found = run(TWO, "accuracy", ([right, worse], [worse, right], labels, np.ones(1000, dtype=bool)))
    assert found.difference == 0
    assert found.low < -0.19
    assert found.high > 0.19


def rows_right(counts: list[int], n: int) -> list[np.ndarray]:
    """Classifiers that are right on their first `count` rows of class 0."""
    return [np.where(np.arange(n)[:, None] < count, [1.0, 0.0], [0.0, 1.0]) for count in counts]


def told(a: list[int], b: list[int], names: tuple[str, str] = ("distilled", "plain"), n: int = 1000) -> Comparison:
    return compare(
        TWO, "accuracy", *names, rows_right(a, n), rows_right(b, n), np.zeros(n, dtype=int), np.ones(n, dtype=bool)
    )


def test_the_sentence_says_helped_hurt_or_neither() -> None:
    helped = told([816, 820, 818], [800, 802, 799])
    assert helped.low > 0
    start = "Distillation helped by +1.8 points of accuracy (95% interval +"
    assert helped.sentence.startswith(start)
    assert helped.sentence.endswith(", 3 seeds, 1,000 test rows).")
    hurt = told([800, 802, 799], [816, 820, 818])
    assert hurt.sentence.startswith("Distillation hurt: −1.8 points of accuracy (95% interval −")
    neither = told([810, 800, 805], [805, 808, 798])
    assert neither.low < 0 < neither.high
    assert neither.sentence.startswith("Distillation made no difference that this test can see: +0.1 points")


def test_one_seed_is_said_to_be_one() -> None:
    found = told([820], [800])
    assert "1 seed, 1,000 test rows). One seed says nothing of the spread between seeds." in found.sentence


def test_only_the_same_student_without_a_teacher_speaks_of_distillation() -> None:
    found = told([800, 802, 799], [816, 820, 818], ("distilled", "teacher"))
    assert found.sentence.startswith("“distilled” does worse than “teacher”: −1.8 points")


def test_a_lower_error_is_a_gain() -> None:
    _, b, labels, has_label = arms(NUMBER, 2000, 2)
    found = compare(NUMBER, "mse", "distilled", "plain", [labels] * 2, b, labels, has_label, rounds=500)
    assert found.difference < 0
    assert found.sentence.startswith("Distillation helped: −1.0")
    assert "in mean squared error (95% interval −" in found.sentence


def test_correlations_are_told_as_plain_numbers() -> None:
    found = run(NUMBER, "pearson", arms(NUMBER, 500, 2), rounds=500)
    assert f"{found.difference:+.3f} in Pearson correlation".replace("-", "−") in found.sentence


def test_an_interval_beside_zero_does_not_read_as_zero() -> None:
    n = 100_000
    found = told([80_030], [80_000], n=n)
    assert 0 < found.low < 0.0005
    assert "+0.03 points of accuracy (95% interval +0.02 to +0.04" in found.sentence


def test_what_cannot_be_compared_is_refused() -> None:
    a, b, labels, has_label = arms(TWO, 20, 2)
    with pytest.raises(MismatchError, match="2 and 1 seeds"):
        compare(TWO, "accuracy", "a", "b", a, b[:1], labels, has_label)
    with pytest.raises(KnobError, match="pearson"):
        compare(TWO, "pearson", "a", "b", a, b, labels, has_label)
    with pytest.raises(DataError, match="no test row"):
        compare(TWO, "accuracy", "a", "b", a, b, labels, np.zeros(20, dtype=bool))
    with pytest.raises(KnobError, match="confidence 1"):
        compare(TWO, "accuracy", "a", "b", a, b, labels, has_label, confidence=1.0)


def test_sentences_and_questions_are_drawn_whole() -> None:
    sums = np.array([[1.0, 1, 1, 3, 3], [0, 1, 2, 2, 4]] * 20)
    worse = sums * [0, 1, 1, 1, 1]
    everyone = np.ones(40, dtype=bool)
    tags = TaskInfo(kind="tag", labels=("O", "B-X"))
    found = compare(tags, "f1", "distilled", "plain", [sums], [worse], everyone, everyone, rounds=200)
    assert found.difference == pytest.approx(2 / 5)
    assert found.low < found.difference < found.high
    assert "40 test sentences" in found.sentence
    answers = TaskInfo(kind="answer", labels=("start", "end"))
    found = compare(answers, "f1", "a", "b", [sums[:, :2]], [worse[:, :2]], everyone, everyone, rounds=200)
    assert found.difference == pytest.approx(0.0)
    assert "40 test questions" in found.sentence
