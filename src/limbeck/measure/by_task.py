"""How the metrics of a task are computed, in the order of core.metric."""

from __future__ import annotations

from limbeck.core.errors import KnobError
from limbeck.core.metric import metrics_of
from limbeck.core.task import LANGUAGE_KINDS, TEXT_KINDS, TaskInfo
from limbeck.measure.metrics import LANGUAGE_FORMULAS, TEXT_FORMULAS, Formula
from limbeck.measure.spans import ANSWER_FORMULAS
from limbeck.measure.tags import TAG_FORMULAS
from limbeck.measure.written import SEQUENCE_FORMULAS

FORMULAS: dict[str, dict[str, Formula]] = {
    **dict.fromkeys(TEXT_KINDS, TEXT_FORMULAS),
    **dict.fromkeys(LANGUAGE_KINDS, LANGUAGE_FORMULAS),
    "tag": TAG_FORMULAS,
    "answer": ANSWER_FORMULAS,
    "translate": SEQUENCE_FORMULAS,
}


def formulas_of(task: TaskInfo) -> dict[str, Formula]:
    return {name: FORMULAS[task.kind][name] for name in metrics_of(task)}


def formula_of(task: TaskInfo, name: str) -> Formula:
    known = formulas_of(task)
    if name not in known:
        raise KnobError(f"there is no metric '{name}' for {task}", f"known here: {', '.join(known)}")
    return known[name]
