"""How close a student stays to its teacher, and where the two part ways."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

import numpy as np

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.record import Disagreement, Fidelity
from limbeck.core.task import TaskInfo
from limbeck.measure.answers import (
    Array,
    answers,
    confidence,
    labelled_rows,
    log_sigmoid,
    log_softmax,
    logits_of,
    right,
    spell,
)
from limbeck.measure.metrics import METRIC, score


def fidelity(task: TaskInfo, student_logits: Array, teacher_logits: Array, labels: Array, has_label: Array) -> Fidelity:
    """Agreement and divergence over all rows; accuracy where the teacher is right (A) and wrong (B) over labelled ones.

    acc = f_A · acc_A + (1 − f_A) · acc_B, with f_A the teacher's accuracy: a student that gains on B has learnt more
    than its teacher's answers (L2KD). Regression has no right and wrong. It takes logits [n, 1] or [n].
    """
    student, teacher = _paired(task, student_logits, teacher_logits)
    if not len(student):
        raise DataError("there are no rows to compare student and teacher on", "give a test split that is not empty")
    if task.kind == "regress":
        agreement = score(METRIC["pearson"], task, student, teacher[:, 0])
        return Fidelity(agreement=agreement, divergence=float(((student - teacher) ** 2).mean()))
    student_right = right(task, *labelled_rows(task, student, labels, has_label))
    teacher_right = right(task, *labelled_rows(task, teacher, labels, has_label))
    in_a, in_b = student_right[teacher_right], student_right[~teacher_right]
    return Fidelity(
        agreement=float(right(task, student, answers(task, teacher)).mean()),
        divergence=float(_divergence(task, teacher, student).mean()),
        teacher_right_rows=len(in_a),
        teacher_wrong_rows=len(in_b),
        accuracy_teacher_right=float(in_a.mean()) if len(in_a) else None,
        accuracy_teacher_wrong=float(in_b.mean()) if len(in_b) else None,
    )


def disagreements(
    task: TaskInfo,
    texts: Sequence[str],
    pairs: Sequence[str],
    student_logits: Array,
    teacher_logits: Array,
    labels: Array,
    has_label: Array,
    most: int = 40,
) -> list[Disagreement]:
    """Rows on which the answers differ, the surest first (student's confidence × teacher's).

    Taken in turn from: only the student is right, only the teacher is right, neither or unknown; so that each kind
    appears. Regression gives the rows furthest apart, with confidence 0, since a number has none.
    """
    student, teacher = _paired(task, student_logits, teacher_logits)
    mask = np.asarray(has_label, dtype=bool)
    says, taught = answers(task, student), answers(task, teacher)
    differ = ~right(task, student, taught)
    student_sure, teacher_sure = confidence(task, student), confidence(task, teacher)
    weight = np.abs(says - taught) if task.kind == "regress" else student_sure * teacher_sure

    student_right, teacher_right = np.zeros(len(mask), dtype=bool), np.zeros(len(mask), dtype=bool)
    student_right[mask] = right(task, *labelled_rows(task, student, labels, mask))
    teacher_right[mask] = right(task, *labelled_rows(task, teacher, labels, mask))
    groups = (student_right & ~teacher_right, teacher_right & ~student_right, student_right == teacher_right)
    surest = np.argsort(-weight, kind="stable")
    queues = [surest[(differ & group)[surest]] for group in groups]
    in_turn = [row for row in chain.from_iterable(zip_longest(*queues)) if row is not None][:most]
    return [
        Disagreement(
            text=texts[row],
            pair=pairs[row] if len(pairs) else "",
            label=spell(task, labels[row]) if mask[row] else "",
            teacher=spell(task, taught[row]),
            teacher_confidence=float(teacher_sure[row]),
            student=spell(task, says[row]),
            student_confidence=float(student_sure[row]),
        )
        for row in sorted(in_turn, key=lambda row: -weight[row])
    ]


def _paired(task: TaskInfo, student: Array, teacher: Array) -> tuple[Array, Array]:
    student, teacher = logits_of(task, student), logits_of(task, teacher)
    if len(student) != len(teacher):
        raise MismatchError(f"the student answers {len(student)} rows and the teacher {len(teacher)}")
    return student, teacher


def _divergence(task: TaskInfo, teacher: Array, student: Array) -> Array:
    """[n]: KL(teacher ‖ student) of each row; with several labels, the mean of their binary divergences."""
    if task.kind == "classify":
        log_t, log_s = log_softmax(teacher), log_softmax(student)
        return (np.exp(log_t) * (log_t - log_s)).sum(axis=1)
    yes = np.exp(log_sigmoid(teacher)) * (log_sigmoid(teacher) - log_sigmoid(student))
    no = np.exp(log_sigmoid(-teacher)) * (log_sigmoid(-teacher) - log_sigmoid(-student))
    return (yes + no).mean(axis=1)
