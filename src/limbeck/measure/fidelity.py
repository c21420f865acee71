"""How close a student stays to its teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.record import Fidelity
from limbeck.core.task import TaskInfo
from limbeck.measure.answers import Array, answers, labelled_rows, log_sigmoid, log_softmax, logits_of, right
from limbeck.measure.metrics import TEXT_FORMULAS, score
from limbeck.measure.written import TAUGHT

if TYPE_CHECKING:
    from torch import Tensor


class FidelityMeter:
    """Sums over rows of any level, batch by batch: how often student and teacher predict alike, how far apart their
    distributions are, and how often the student is right where the teacher is right (A) and wrong (B)."""

    def __init__(self, where_wrong: bool = True) -> None:
        self._rows = self._alike = 0
        self._divergence = 0.0
        self._where_wrong = where_wrong
        self._by_teacher = {True: [0, 0], False: [0, 0]}  # the teacher is right → rows, those the student has right

    def add(self, student: Tensor, teacher: Tensor, labels: Tensor, has_label: Tensor) -> None:
        """Rows of logits [n, outputs], class ids [n], and which rows have one. No teacher logits add nothing."""
        from limbeck.functional.divergence import kl

        if not teacher.numel():
            return
        mine, theirs = student.argmax(1), teacher.argmax(1)
        self.count(
            (mine == theirs).numpy(),
            float(kl(teacher, student).sum()),
            (mine == labels)[has_label].numpy(),
            (theirs == labels)[has_label].numpy(),
        )

    def count(self, alike: Array, divergence: float, student_right: Array, teacher_right: Array) -> None:
        """The same of predictions: which rows are alike, the sum of their divergences, and of labelled rows who is
        right."""
        self._rows += len(alike)
        self._alike += int(alike.sum())
        self._divergence += divergence
        for is_right, counts in self._by_teacher.items():
            rows = teacher_right == is_right
            counts[0] += int(rows.sum())
            counts[1] += int(student_right[rows].sum())

    @property
    def fidelity(self) -> Fidelity | None:
        if not self._rows:
            return None
        (right, both), (wrong, gained) = self._by_teacher[True], self._by_teacher[False]
        wrong *= self._where_wrong
        return Fidelity(
            agreement=self._alike / self._rows,
            divergence=self._divergence / self._rows,
            teacher_right_rows=right,
            teacher_wrong_rows=wrong,
            accuracy_teacher_right=both / right if right else None,
            accuracy_teacher_wrong=gained / wrong if wrong else None,
        )


def fidelity(task: TaskInfo, student_logits: Array, teacher_logits: Array, labels: Array, has_label: Array) -> Fidelity:
    """Of texts: agreement and divergence over all rows; accuracy where the teacher is right (A) and wrong (B) over
    labelled ones.

    acc = f_A · acc_A + (1 − f_A) · acc_B, with f_A the teacher's accuracy: a student that gains on B has learnt more
    than its teacher's answers (L2KD). Regression has no right and wrong. It takes logits [n, 1] or [n].
    """
    student, teacher = paired(task, student_logits, teacher_logits)
    if task.kind == "regress" and len(student):
        agreement = score(TEXT_FORMULAS["pearson"], task, student, teacher[:, 0])
        return Fidelity(agreement=agreement, divergence=float(((student - teacher) ** 2).mean()))
    meter = FidelityMeter()
    meter.count(
        right(task, student, answers(task, teacher)),
        float(_divergence(task, teacher, student).sum()),
        right(task, *labelled_rows(task, student, labels, has_label)),
        right(task, *labelled_rows(task, teacher, labels, has_label)),
    )
    if meter.fidelity is None:
        raise DataError("there are no rows to compare student and teacher on", "give a test split that is not empty")
    return meter.fidelity


def sequence_fidelity(
    student_statistics: Array, teacher_statistics: Array, student_texts: Sequence[str], teacher_texts: Sequence[str]
) -> Fidelity | None:
    """Of translations, from sentence_statistics [n, 61] and the texts of beam search, as Fidelity says.

    A side whose texts or probabilities are unknown (a black box) leaves None; where neither figure is known there is
    no Fidelity at all. Nats are per token of the teacher's translations as the teacher's tokenizer counts them.
    """
    if len(student_texts) and len(teacher_texts) and len(student_texts) != len(teacher_texts):
        raise MismatchError(f"the student has {len(student_texts)} translations and the teacher {len(teacher_texts)}")
    alike = [mine == theirs for mine, theirs in zip(student_texts, teacher_texts, strict=False)]
    agreement = sum(alike) / len(alike) if alike else None
    divergence = None
    if len(student_statistics) and len(student_statistics) == len(teacher_statistics):
        (mine, counted), (theirs, tokens) = (
            statistics[:, TAUGHT].sum(axis=0) for statistics in (student_statistics, teacher_statistics)
        )
        divergence = float((mine - theirs) / tokens) if counted and tokens else None
    if agreement is None and divergence is None:
        return None
    return Fidelity(agreement=agreement, divergence=divergence)


def paired(task: TaskInfo, student: Array, teacher: Array) -> tuple[Array, Array]:
    """Both models' logits as float64, row by row."""
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
