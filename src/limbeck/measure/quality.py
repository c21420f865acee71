"""How good predictions are on the rows that have a label: every metric of a task, in the order of core.metric."""

from __future__ import annotations

import numpy as np

from limbeck.core.errors import KnobError
from limbeck.core.metric import metrics_of
from limbeck.core.record import ClassScore
from limbeck.core.task import LANGUAGE_KINDS, TEXT_KINDS, TaskInfo
from limbeck.measure.metrics import LANGUAGE_FORMULAS, TEXT_FORMULAS, Formula, hits, ratio
from limbeck.measure.predictions import Array, labelled_rows
from limbeck.measure.spans import ANSWER_FORMULAS
from limbeck.measure.tags import TAG_FORMULAS
from limbeck.measure.translation import TRANSLATION_FORMULAS

FORMULAS: dict[str, dict[str, Formula]] = {
    **dict.fromkeys(TEXT_KINDS, TEXT_FORMULAS),
    **dict.fromkeys(LANGUAGE_KINDS, LANGUAGE_FORMULAS),
    "tag": TAG_FORMULAS,
    "answer": ANSWER_FORMULAS,
    "translate": TRANSLATION_FORMULAS,
}


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


def formula_of(task: TaskInfo, name: str) -> Formula:
    known = metrics_of(task)
    if name not in known:
        raise KnobError(f"there is no metric '{name}' for {task}", f"known here: {', '.join(known)}")
    return FORMULAS[task.kind][name]


def _per_class(task: TaskInfo, logits: Array, labels: Array) -> list[ClassScore]:
    if task.kind not in ("classify", "multilabel"):
        return []
    both, predicted, true = hits(task, logits, labels).sum(axis=0).reshape(3, -1)
    return [
        ClassScore(label=label, precision=precision, recall=recall, f1=f1, rows=int(rows))
        for label, precision, recall, f1, rows in zip(
            task.labels, ratio(both, predicted), ratio(both, true), ratio(2 * both, predicted + true), true, strict=True
        )
    ]
