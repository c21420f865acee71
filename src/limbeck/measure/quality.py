"""How good predictions are on rows that have a label, and whether one model is better than another on the same rows.

The difference comes with a paired bootstrap over rows and seeds, and the sentence that it allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.metric import METRICS, Metric, metric_of, metrics_of
from limbeck.core.record import ClassScore, Comparison, ReliabilityBin
from limbeck.core.task import LANGUAGE_KINDS, WHOLE_KINDS, Kind, TaskInfo
from limbeck.measure.metrics import BINS, LANGUAGE_FORMULAS, TEXT_FORMULAS, Formula, bins_of, hits, ratio
from limbeck.measure.predictions import Array, labelled_rows, predictions, right
from limbeck.measure.predictions import confidence as confidence_of
from limbeck.measure.spans import ANSWER_FORMULAS
from limbeck.measure.tags import TAG_FORMULAS
from limbeck.measure.translation import TRANSLATION_FORMULAS

FORMULAS: dict[str, dict[str, Formula]] = {
    **dict.fromkeys(WHOLE_KINDS, TEXT_FORMULAS),
    **dict.fromkeys(LANGUAGE_KINDS, LANGUAGE_FORMULAS),
    "tag": TAG_FORMULAS,
    "answer": ANSWER_FORMULAS,
    "translate": TRANSLATION_FORMULAS,
}
UNLABELLED = -100
MOST_CLASSES = 50  # of a confusion matrix
_OF_PROBABILITIES = ("ece", "nll")
DRAWS = 40_000_000  # counts drawn at most, which is 10,000 rounds of 4,000 rows that all differ
FEWEST = 1_000  # rounds that a costly metric or a large test set still gets
CHUNK = 1_000_000  # counts held at once
DIGITS = 12  # beyond these a difference is rounding, which must not decide on which side of 0 an interval ends


def quality(
    task: TaskInfo, logits: Array, labels: Array, has_label: Array
) -> tuple[dict[str, float], list[ClassScore]]:
    """Every metric of the task, and precision, recall and F1 per class. Nothing when no row has a label.

    Of texts that are written, a metric that has nothing to be computed from is left out.
    Logits are [n, outputs]; regression takes [n, 1] or [n]; of tokens, places and texts, what was summed for each row.
    """
    logits, labels = labelled_rows(task, logits, labels, has_label)
    if not len(logits):
        return {}, []
    once = np.ones((1, len(logits)))
    formulas = {name: FORMULAS[task.kind][name] for name in metrics_of(task)}
    scores = {name: float(f.value(once, f.columns(task, logits, labels))[0]) for name, f in formulas.items()}
    if task.is_seq2seq:
        scores = {name: value for name, value in scores.items() if not np.isnan(value)}
    return scores, _per_class(task, logits, labels)


def _per_class(task: TaskInfo, logits: Array, labels: Array) -> list[ClassScore]:
    if not task.single_label and task.kind != "multilabel":
        return []
    both, predicted, true = hits(task, logits, labels).sum(axis=0).reshape(3, -1)
    return [
        ClassScore(label=label, precision=precision, recall=recall, f1=f1, rows=int(rows))
        for label, precision, recall, f1, rows in zip(
            task.labels, ratio(both, predicted), ratio(both, true), ratio(2 * both, predicted + true), true, strict=True
        )
    ]


def confusion(task: TaskInfo, logits: Array, labels: Array, has_label: Array) -> list[list[int]]:
    """Label → predicted class → rows. None of very many classes: nobody reads them, and Records stay small."""
    if not task.single_label or task.outputs > MOST_CLASSES:
        return []
    logits, labels = labelled_rows(task, logits, labels, has_label)
    pairs = np.bincount(labels * task.outputs + predictions(task, logits), minlength=task.outputs**2)
    counts: list[list[int]] = pairs.reshape(task.outputs, -1).tolist()
    return counts if len(logits) else []


def reliability(task: TaskInfo, logits: Array, labels: Array, has_label: Array) -> list[ReliabilityBin]:
    """The bins of the calibration error that hold a row, of classes."""
    if not task.single_label:
        return []
    logits, labels = labelled_rows(task, logits, labels, has_label)
    sure, correct = confidence_of(task, logits), right(task, logits, labels)
    bins = bins_of(sure)
    inside = [(number, bins == number) for number in np.unique(bins).tolist()]
    return [
        ReliabilityBin(
            low=number / BINS,
            high=(number + 1) / BINS,
            rows=int(rows.sum()),
            confidence=float(sure[rows].mean()),
            accuracy=float(correct[rows].mean()),
        )
        for number, rows in inside
    ]


def significance(
    a: Any,
    b: Any,
    labels: Any,
    metric: str = "accuracy",
    names: tuple[str, str] = ("a", "b"),
    confidence: float = 0.95,
    rounds: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """The difference of a metric between two models, with a paired bootstrap interval, and the sentence it allows.

    Args:
        a, b: what each model says of the same rows: predictions [rows], or logits [rows, classes]; for many labels
            [rows, labels], for numbers [rows]. A list of such arrays has one for each seed, in the same order in both.
        labels: class ids [rows], 0 or 1 for each label [rows, labels], or numbers [rows]. -100 or NaN: no label.
        metric: accuracy, f1, f1_macro, f1_weighted, matthews, ece, nll; of many labels f1_micro, f1_macro, accuracy,
            hamming, ece; of numbers pearson, spearman, mse, rmse, mae.
        names: of the models, for the sentence.

    Example:

        import numpy as np
        import limbeck

        labels = np.array([0, 1, 1, 0] * 50)
        a, b = labels.copy(), labels.copy()
        a[:10], b[:40] = 1 - a[:10], 1 - b[:40]  # 95 % and 80 % are right
        found = limbeck.significance(a, b, labels, names=("small", "smaller"))
        print(found.sentence)
        assert found.low > 0
    """
    gold = _array(labels)
    kind = _kind(metric, gold)
    arms = [_seeds(arm) for arm in (a, b)]
    outputs = _outputs(kind, gold, arms)
    task = TaskInfo(kind=kind, labels=() if kind == "regress" else tuple(map(str, range(outputs))))
    logits = [[_logits(kind, answers, outputs, metric) for answers in arm] for arm in arms]
    missing = (gold == UNLABELLED) | np.isnan(gold.astype(np.float64))
    known = ~(missing.any(1) if missing.ndim == 2 else missing)
    return compare(
        task, metric, *names, logits[0], logits[1], gold, known, seed=seed, rounds=rounds, confidence=confidence
    )


def compare(
    task: TaskInfo,
    metric: str,
    better: str,
    than: str,
    a: Sequence[Array],
    b: Sequence[Array],
    labels: Array,
    has_label: Array,
    seed: int = 0,
    rounds: int = 10_000,
    confidence: float = 0.95,
) -> Comparison:
    """The difference of `metric` between two arms, averaged over seeds, with a percentile bootstrap interval.

    `a` and `b` hold the test logits of the arms `better` and `than`, one array per seed, paired by seed. Each round
    draws test rows and seeds anew with replacement, the same draw for both arms; there are fewer rounds, but at least
    1,000 of those asked for, where they would take long. A handful of seeds, resampled, understates their spread;
    the sentence names how many there were.
    """
    if metric not in (known := metrics_of(task)):
        raise KnobError(f"there is no metric '{metric}' for {task}", f"known here: {', '.join(known)}")
    formula = FORMULAS[task.kind][metric]
    _check(a, b, rounds, confidence)
    columns = np.array([[_columns(task, formula, x, labels, has_label) for x in arm] for arm in (a, b)])  # [2, s, n, k]
    seeds, rows = columns.shape[1:3]
    if not rows:
        raise DataError(f"no test row has a label, so {metric} cannot be compared", "give a labelled test split")
    everything = _differences(formula, columns, np.ones((1, rows)))  # [1, s]
    if np.isnan(everything).any():
        raise DataError(
            f"{metric} cannot be compared: “{better}” or “{than}” has nothing to compute it from",
            "compare by a metric that both have",
        )
    drawn = _bootstrap(formula, columns, np.random.default_rng(seed), rounds)
    # A resample may miss all rows that have something to compute from.
    low, high = np.nanquantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    found = Comparison(
        better=better,
        than=than,
        metric=metric,
        difference=round(float(everything.mean()), DIGITS),
        low=float(low),
        high=float(high),
        confidence=confidence,
        seeds=seeds,
        rows=rows,
        sentence="",
    )
    return found.model_copy(update={"sentence": _sentence(found, metric_of(task, metric), task.units.row)})


def _check(a: Sequence[Array], b: Sequence[Array], rounds: int, confidence: float) -> None:
    if not len(a) == len(b) > 0:
        raise MismatchError(f"the arms have {len(a)} and {len(b)} seeds", "train both arms with the same seeds")
    if rounds < 1 or not 0 < confidence < 1:
        raise KnobError(f"no interval from {rounds} rounds at confidence {confidence}", "confidence lies in (0, 1)")


def _columns(task: TaskInfo, formula: Formula, logits: Array, labels: Array, has_label: Array) -> Array:
    counted, gold = labelled_rows(task, logits, labels, has_label)
    return formula.columns(task, counted, gold) if len(gold) else np.empty((0, 1))


def _differences(formula: Formula, columns: Array, weights: Array) -> Array:
    """[r, seeds]: the metric of the first arm minus that of the second, for each row of weights."""
    first, second = ([formula.value(weights, seed) for seed in arm] for arm in columns)
    return np.stack(first, axis=1) - np.stack(second, axis=1)


def _bootstrap(formula: Formula, columns: Array, rng: np.random.Generator, rounds: int) -> Array:
    """[rounds]: the difference on each resample.

    Rows that look alike to the metric in every arm and seed are drawn as one kind: how often each kind occurs in n
    draws is multinomial. For accuracy there are at most 4^seeds kinds, however many rows.
    """
    seeds, rows = columns.shape[1:3]
    first, count = _kinds(columns.transpose(2, 0, 1, 3).reshape(rows, -1))
    kinds = columns[:, :, first]  # [2, s, kinds, k]
    rounds = min(rounds, FEWEST if formula.heavy else max(FEWEST, DRAWS // len(first)))
    step = max(1, CHUNK // len(first))
    drawn = []
    for start in range(0, rounds, step):
        size = min(step, rounds - start)
        weights = rng.multinomial(rows, count / rows, size=size).astype(np.float64)  # [r, kinds]
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=size) / seeds  # [r, s]
        drawn.append((_differences(formula, kinds, weights) * of_seeds).sum(axis=1))
    return np.round(np.concatenate(drawn), DIGITS)


def _kinds(rows: Array) -> tuple[Array, Array]:
    """The first row of each distinct kind and how often it occurs, in order of appearance.

    That order does not depend on which arm comes first, so swapping the arms mirrors the interval.
    """
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order], count[order]


def _sentence(found: Comparison, metric: Metric, what: str) -> str:
    gain_low, gain_high = (found.low, found.high) if metric.higher_is_better else (-found.high, -found.low)
    verdict = "gain" if gain_low > 0 else "loss" if gain_high < 0 else "none"
    if (found.better, found.than) == ("distilled", "plain"):
        opening = {
            "gain": f"Distillation helped{' by' if metric.higher_is_better else ':'}",
            "loss": "Distillation hurt:",
            "none": "Distillation made no difference that this test can see:",
        }[verdict]
    else:
        opening = {
            "gain": f"“{found.better}” does better than “{found.than}”{' by' if metric.higher_is_better else ':'}",
            "loss": f"“{found.better}” does worse than “{found.than}”:",
            "none": f"“{found.better}” and “{found.than}” do not differ as far as this test can see:",
        }[verdict]
    difference, low, high = _signed(found, metric.is_share)
    unit = f"points of {metric.title}" if metric.is_share else f"in {metric.title}"
    sample = f"{found.seeds} seed{'s' * (found.seeds > 1)}, {found.rows:,} test {what}{'s' * (found.rows > 1)}"
    interval = f"{100 * found.confidence:g}% interval {low} to {high}"
    caveat = " One seed says nothing of the spread between seeds." if found.seeds == 1 else ""
    return f"{opening} {difference} {unit} ({interval}, {sample}).{caveat}"


def _signed(found: Comparison, points: bool) -> list[str]:
    """Difference, low and high with their signs; with more digits where an end beside 0 would read as 0."""
    values = [100 * value if points else value for value in (found.difference, found.low, found.high)]
    largest = int(max(map(abs, values)))
    digits = 1 if points else max(3 - len(str(largest)) * (largest > 0), 0)  # three that count
    while digits < 6 and found.low * found.high > 0 and not all(round(value, digits) for value in values):
        digits += 1
    return [f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−") for value in values]


def _array(values: Any) -> Array:
    """Of a tensor, an array or a list."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _seeds(arm: Any) -> list[Array]:
    several = isinstance(arm, Sequence) and len(arm) > 0 and np.ndim(_array(arm[0])) > 0 and hasattr(arm[0], "shape")
    return [_array(each) for each in arm] if several else [_array(arm)]


def _kind(metric: str, labels: Array) -> Kind:
    if labels.ndim == 2:
        return "multilabel"
    return "regress" if metric in [one.name for one in METRICS["regress"]] else "classify"


def _outputs(kind: Kind, labels: Array, arms: Sequence[Sequence[Array]]) -> int:
    if kind == "regress":
        return 1
    seen = [array for arm in arms for array in arm]
    if kind == "multilabel" or any(array.ndim == 2 for array in seen):
        return int(next(array for array in [*seen, labels] if array.ndim == 2).shape[1])
    return int(max(array.max(initial=1) for array in (*seen, labels))) + 1


def _logits(kind: Kind, answers: Array, outputs: int, metric: str) -> Array:
    """Predictions become logits that say the same; they have no probabilities."""
    predicted = answers.ndim == 1 if kind == "classify" else answers.dtype.kind in "bi" and kind == "multilabel"
    if predicted and metric in _OF_PROBABILITIES:
        raise KnobError(f"'{metric}' is of probabilities, and predictions have none", "pass logits")
    if not predicted:
        return answers
    return np.eye(outputs)[answers.astype(np.int64)] if kind == "classify" else 2.0 * answers - 1.0
