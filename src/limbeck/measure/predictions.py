"""What a model predicts: its logits row by row, and what they say as predictions, probabilities and confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limbeck.core.errors import DataError, MismatchError, ModelError
from limbeck.core.tap import eval_mode
from limbeck.core.task import WHOLE_KINDS, TaskInfo
from limbeck.core.trace import Batch, Teacher
from limbeck_runtime.answers import log_sigmoid as log_sigmoid
from limbeck_runtime.answers import log_softmax as log_softmax

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Array = NDArray[Any]
SAME = 1e-4  # the share of the labels' deviation by which numbers may differ and still be one answer


def predict(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    rows: Sequence[int] | Array,
    on_share: Callable[[float], None] | None = None,
) -> Array:
    """float32 logits [n, outputs] in the order of the uids `rows`, whatever that of the batches; regression gives
    [n, 1].

    Every uid must come in the batches once. `on_share` gets the share of rows that are done."""
    import torch

    def logits(batch: Batch) -> Tensor:
        found: Tensor = model(**batch.to(model.device).inputs).logits
        return found

    with eval_mode(model), torch.inference_mode():
        return _collect(logits, batches, rows, model.config.num_labels, on_share)


def teacher_logits(teacher: Teacher, batches: Iterable[Batch], rows: Sequence[int] | Array, outputs: int) -> Array:
    """The same of a teacher."""
    return _collect(lambda batch: teacher.answer(batch).logits, batches, rows, outputs)


def _collect(
    logits_of_batch: Callable[[Batch], Tensor],
    batches: Iterable[Batch],
    rows: Sequence[int] | Array,
    outputs: int,
    on_share: Callable[[float], None] | None = None,
) -> Array:
    uids: list[Array] = [np.empty(0, dtype=np.int64)]
    logits: list[Array] = [np.empty((0, outputs), dtype=np.float32)]
    done = 0
    for batch in batches:
        logits.append(logits_of_batch(batch).float().cpu().numpy())
        uids.append(batch.uids.cpu().numpy())
        done += len(batch.uids)
        if on_share is not None:
            on_share(done / max(len(rows), 1))
    return _in_order(np.concatenate(uids), np.concatenate(logits), np.asarray(rows, dtype=np.int64))


def _in_order(uids: Array, logits: Array, rows: Array) -> Array:
    order = np.argsort(uids)
    found = uids[order]
    doubles = np.concatenate([found[1:][found[1:] == found[:-1]], _repeated(rows)])
    for wrong, what in (
        (doubles, "more than once"),
        (np.setdiff1d(rows, found), "in no batch"),
        (np.setdiff1d(found, rows), "without being asked for"),
    ):
        if len(wrong):
            raise MismatchError(
                f"{len(wrong)} rows come {what}, the first with uid {wrong[0]}",
                "predict on batches that hold each row of the split once",
            )
    return logits[order[np.searchsorted(found, rows)]]


def _repeated(values: Array) -> Array:
    distinct, counts = np.unique(values, return_counts=True)
    return distinct[counts > 1]


# Of texts, in NumPy and float64.


def logits_of(task: TaskInfo, logits: Array) -> Array:
    """Logits as float64 [n, outputs]; regression may come as [n]. Refuses another shape and what is not finite."""
    found = np.asarray(logits, dtype=np.float64)
    if task.kind not in WHOLE_KINDS:
        return found  # sums: per block (measure/tokens.py), sentence (tags.py, translation.py) or question (spans.py)
    if task.kind == "regress" and found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] != task.outputs:
        raise MismatchError(
            f"the model's answers have shape {list(np.shape(logits))}, the task has {task.outputs} outputs",
            "give the model as many outputs as the task has labels",
        )
    bad = int((~np.isfinite(found)).any(axis=1).sum())
    if bad:
        raise ModelError(
            f"the model answers {bad} of {len(found)} rows with numbers that are not finite",
            "its training has diverged: lower the learning rate and train it again",
        )
    return found


def labels_of(task: TaskInfo, labels: Array) -> Array:
    """Labels of labelled rows: class ids [n] int64, [n, labels] bool, or numbers [n] float64."""
    found = np.asarray(labels)
    if task.kind not in WHOLE_KINDS:
        return found
    shape = (len(found), task.outputs) if task.kind == "multilabel" else (len(found),)
    if found.shape != shape:
        raise MismatchError(f"the labels have shape {list(found.shape)}, not {list(shape)}")
    if task.kind == "multilabel":
        return found > 0.5
    if task.kind == "regress":
        return found.astype(np.float64)
    classes = found.astype(np.int64)
    strange = classes[(classes < 0) | (classes >= task.outputs)]
    if strange.size:
        raise DataError(
            f"there is a label {strange[0]}, but the classes are 0 to {task.outputs - 1}",
            "mark rows without a label as unlabelled",
        )
    return classes


def labelled_rows(task: TaskInfo, logits: Array, labels: Array, has_label: Array) -> tuple[Array, Array]:
    """Logits and labels of the rows that have one."""
    found = logits_of(task, logits)
    mask = np.asarray(has_label, dtype=bool)
    if not len(found) == len(labels) == len(mask):
        raise MismatchError(f"{len(found)} answers, {len(labels)} labels and {len(mask)} marks do not pair up")
    return found[mask], labels_of(task, np.asarray(labels)[mask])


def predictions(task: TaskInfo, logits: Array) -> Array:
    """The class [n], the labels whose probability is above one half [n, labels] bool, or the number [n]."""
    if task.single_label:
        return logits.argmax(axis=1)
    return logits > 0 if task.kind == "multilabel" else logits[:, 0]


def right(task: TaskInfo, logits: Array, labels: Array) -> Array:
    """[n] bool: the answer is the label; with several labels, every one of them."""
    same = predictions(task, logits) == labels
    return same.all(axis=1) if task.kind == "multilabel" else same


def confidence(task: TaskInfo, logits: Array) -> Array:
    """[n]: the probability the model gives to its own whole answer. A number has none, which is 0."""
    if task.single_label:
        return np.exp(log_softmax(logits).max(axis=1))
    if task.kind == "multilabel":
        return np.exp(log_sigmoid(np.abs(logits)).sum(axis=1))
    return np.zeros(len(logits))


def constant(task: TaskInfo, logits: Array, labels: Array) -> str:
    """The one answer of every row; "" where answers differ. Numbers do where they are further apart than rounding
    explains: little spread may still rank texts well."""
    found = predictions(task, logits)
    if len(found) < 2:
        return ""
    if task.kind == "regress":
        same = np.ptp(found) <= SAME * (labels.std() if len(labels) else 0.0)
    else:
        same = (found == found[0]).all()
    return spell(task, found[0]) if same else ""


def spell(task: TaskInfo, answer: Any) -> str:
    """One answer, or one label, as a person reads it."""
    if task.single_label:
        return task.labels[int(answer)]
    if task.kind == "multilabel":
        return ", ".join(name for name, chosen in zip(task.labels, answer, strict=True) if chosen) or "(none)"
    return f"{float(answer):.3g}"
