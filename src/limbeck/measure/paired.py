"""`limbeck.significance`: is one model better than another on the same rows?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from limbeck.core.errors import KnobError
from limbeck.core.metric import METRICS
from limbeck.core.record import Comparison
from limbeck.core.task import Kind, TaskInfo
from limbeck.measure.answers import Array
from limbeck.measure.significance import compare

UNLABELLED = -100
_OF_PROBABILITIES = ("ece", "nll")


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
            hamming, ece; of numbers pearson, spearman, mse, mae.
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
