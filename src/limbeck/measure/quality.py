"""How good the answers are, on the rows that have a label."""

from __future__ import annotations

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.record import ClassScore
from limbeck.core.task import TaskInfo
from limbeck.measure.answers import Array, labelled_rows, logits_of, right
from limbeck.measure.by_task import formulas_of
from limbeck.measure.metrics import hits, ratio, score


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
    scores = {name: score(formula, task, logits, labels) for name, formula in formulas_of(task).items()}
    if task.is_seq2seq:
        scores = {name: value for name, value in scores.items() if not np.isnan(value)}
    return scores, _per_class(task, logits, labels)


def per_row(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n]: 1 where a classifier is right. Its mean is the primary metric, which other tasks' metrics are not."""
    if task.kind != "classify":
        raise MismatchError(f"{task.metric} is not a mean over rows", "use quality() for the whole set")
    return right(task, logits_of(task, logits), np.asarray(labels)).astype(np.float64)


def _per_class(task: TaskInfo, logits: Array, labels: Array) -> list[ClassScore]:
    if task.kind not in ("classify", "multilabel"):
        return []
    both, said, true = hits(task, logits, labels).sum(axis=0).reshape(3, -1)
    return [
        ClassScore(label=label, precision=precision, recall=recall, f1=f1, rows=int(rows))
        for label, precision, recall, f1, rows in zip(
            task.labels, ratio(both, said), ratio(both, true), ratio(2 * both, said + true), true, strict=True
        )
    ]
