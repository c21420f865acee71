"""Which metrics a task has, the primary one first."""

from __future__ import annotations

from limbeck.core.errors import KnobError
from limbeck.core.task import TaskInfo
from limbeck.measure.metrics import BY_KIND, METRIC, Metric
from limbeck.measure.spans import ANSWER_METRICS
from limbeck.measure.tags import TAG_METRICS
from limbeck.measure.written import SEQUENCE_METRICS


def metrics_of(task: TaskInfo) -> dict[str, Metric]:
    """F1 of class 1 means something only beside one other class; words and answers have an F1 of their own."""
    if task.is_seq2seq:
        return SEQUENCE_METRICS
    if task.in_windows:
        return TAG_METRICS if task.kind == "tag" else ANSWER_METRICS
    return {name: METRIC[name] for name in BY_KIND[task.kind] if name != "f1" or task.outputs == 2}


def metric_of(task: TaskInfo, name: str) -> Metric:
    known = metrics_of(task)
    if name not in known:
        raise KnobError(f"there is no metric '{name}' for {task}", f"known here: {', '.join(known)}")
    return known[name]
