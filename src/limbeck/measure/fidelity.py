"""How close a student stays to its teacher, and the test rows on which they disagree, the surest first.

Disagreements are taken in turn from three groups, so that each appears: only the student is right, only the teacher is
right, both or neither or unknown. A row is the surer the higher the product of both models' confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limbeck.core.errors import DataError, MismatchError
from limbeck.core.record import Disagreement, Fidelity
from limbeck.core.task import TaskInfo
from limbeck.measure.metrics import TEXT_FORMULAS
from limbeck.measure.predictions import (
    Array,
    confidence,
    labelled_rows,
    log_sigmoid,
    log_softmax,
    logits_of,
    predictions,
    right,
    spell,
)
from limbeck.measure.spans import exact, normalised
from limbeck.measure.translation import TAUGHT, sentence_score

if TYPE_CHECKING:
    from torch import Tensor
MOST = 40
NO_ANSWER = "(no answer)"
WINDOW = 200  # characters of a context that are shown


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
        pearson = TEXT_FORMULAS["pearson"]
        agreement = float(pearson.value(np.ones((1, len(student))), pearson.columns(task, student, teacher[:, 0]))[0])
        return Fidelity(agreement=agreement, divergence=float(((student - teacher) ** 2).mean()))
    meter = FidelityMeter()
    meter.count(
        right(task, student, predictions(task, teacher)),
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
    if task.single_label:
        log_t, log_s = log_softmax(teacher), log_softmax(student)
        return (np.exp(log_t) * (log_t - log_s)).sum(axis=1)
    yes = np.exp(log_sigmoid(teacher)) * (log_sigmoid(teacher) - log_sigmoid(student))
    no = np.exp(log_sigmoid(-teacher)) * (log_sigmoid(-teacher) - log_sigmoid(-student))
    return (yes + no).mean(axis=1)


@dataclass(frozen=True)
class TokenExample:
    """A token on which the most probable token of student and teacher differs, as ids."""

    context: tuple[int, ...]  # what stands left of it
    label: int  # -1 where there is none
    teacher: int
    teacher_confidence: float
    student: int
    student_confidence: float


def text_disagreements(
    task: TaskInfo,
    texts: Sequence[str],
    pairs: Sequence[str],
    student_logits: Array,
    teacher_logits: Array,
    labels: Array,
    has_label: Array,
    most: int = MOST,
) -> list[Disagreement]:
    """Texts with different predictions. Regression gives the rows furthest apart, with confidence 0, since a number
    has none."""
    student, teacher = paired(task, student_logits, teacher_logits)
    mask = np.asarray(has_label, dtype=bool)
    mine, theirs = predictions(task, student), predictions(task, teacher)
    student_sure, teacher_sure = confidence(task, student), confidence(task, teacher)
    weight = np.abs(mine - theirs) if task.kind == "regress" else student_sure * teacher_sure
    student_right, teacher_right = np.zeros(len(mask), dtype=bool), np.zeros(len(mask), dtype=bool)
    student_right[mask] = right(task, *labelled_rows(task, student, labels, mask))
    teacher_right[mask] = right(task, *labelled_rows(task, teacher, labels, mask))
    rows = np.flatnonzero(~right(task, student, theirs))
    return [
        Disagreement(
            text=texts[row],
            pair=pairs[row] if len(pairs) else "",
            label=spell(task, labels[row]) if mask[row] else "",
            teacher=spell(task, theirs[row]),
            teacher_confidence=float(teacher_sure[row]),
            student=spell(task, mine[row]),
            student_confidence=float(student_sure[row]),
        )
        for row in rows[_in_turn(weight[rows], student_right[rows], teacher_right[rows], most)]
    ]


def tag_disagreements(
    words: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]],
    student: Sequence[Sequence[str]],
    student_confidence: Sequence[Sequence[float]],
    teacher: Sequence[Sequence[str]],
    teacher_confidence: Sequence[Sequence[float]],
    most: int = MOST,
) -> list[Disagreement]:
    """Words with different tags: the text is the sentence, the pair is the word. Gold is "" where a word has no tag."""
    rows = [
        Disagreement(
            text=" ".join(sentence),
            pair=word,
            label=label,
            teacher=theirs,
            teacher_confidence=their_sure,
            student=mine,
            student_confidence=my_sure,
        )
        for sentence, *columns in _zip(
            words, gold, teacher, teacher_confidence, student, student_confidence, what="sentences"
        )
        for word, label, theirs, their_sure, mine, my_sure in _zip(sentence, *columns, what="words of a sentence")
        if mine != theirs
    ]
    return _surest(rows, [row.student == row.label for row in rows], [row.teacher == row.label for row in rows], most)


def span_disagreements(
    questions: Sequence[str],
    contexts: Sequence[str],
    gold: Sequence[Sequence[str]],
    has_label: Sequence[bool],
    student: Sequence[str],
    student_confidence: Sequence[float],
    teacher: Sequence[str],
    teacher_confidence: Sequence[float],
    most: int = MOST,
) -> list[Disagreement]:
    """Questions with different answers, as exact match compares them: the text is the question, the pair the part of
    the context around the answers, the label every gold answer. An answer is "" where a model finds none."""
    rows, mine_right, theirs_right = [], [], []
    for question, context, golds, known, mine, my_sure, theirs, their_sure in _zip(
        *(questions, contexts, gold, has_label, student, student_confidence, teacher, teacher_confidence),
        what="questions",
    ):
        if normalised(mine) == normalised(theirs):
            continue
        allowed = [text for text in golds if normalised(text)] or [""]
        both = [known and any(exact(answer, text) for text in allowed) for answer in (mine, theirs)]
        mine_right.append(both[0])
        theirs_right.append(both[1])
        rows.append(
            Disagreement(
                text=question,
                pair=around(context, [mine, theirs]),
                label=(" / ".join(dict.fromkeys(allowed)) or NO_ANSWER) if known else "",
                teacher=theirs or NO_ANSWER,
                teacher_confidence=their_sure,
                student=mine or NO_ANSWER,
                student_confidence=my_sure,
                right=_who(*both) if known else "",
            )
        )
    return _surest(rows, mine_right, theirs_right, most)


def token_disagreements(examples: Sequence[TokenExample], decode: Callable[[Sequence[int]], str]) -> list[Disagreement]:
    """Tokens with different predictions, from TokenStatistics.examples: the text is what stands left of the token,
    with … in its place. The surest come first, whoever is right."""

    def spelled(token: int) -> str:
        text = decode([token])
        return text.strip() or repr(text)  # a line break is a token too

    return [
        Disagreement(
            text=f"{decode(one.context)} …",
            label=spelled(one.label) if one.label >= 0 else "",
            teacher=spelled(one.teacher),
            teacher_confidence=one.teacher_confidence,
            student=spelled(one.student),
            student_confidence=one.student_confidence,
        )
        for one in examples
    ]


def sequence_disagreements(
    sources: Sequence[str],
    references: Sequence[str],
    student: Sequence[str],
    student_log_p: Sequence[float] | Array,
    teacher: Sequence[str],
    teacher_log_p: Sequence[float] | Array,
    most: int = MOST,
) -> list[Disagreement]:
    """Sentences with different translations. Confidence is exp(log_p), the probability of the whole translation that
    p(ŷ) is the mean of; 0 where it is unknown. Right is the translation closer to the reference by chrF."""
    rows = []
    for source, reference, mine, my_log_p, theirs, their_log_p in _zip(
        sources, references, student, student_log_p, teacher, teacher_log_p, what="sentences"
    ):
        if mine == theirs:
            continue
        closeness = [sentence_score(text, reference, "chrf") if reference else 0.0 for text in (mine, theirs)]
        rows.append(
            Disagreement(
                text=source,
                label=reference,
                teacher=theirs,
                teacher_confidence=_probability(their_log_p),
                student=mine,
                student_confidence=_probability(my_log_p),
                right=_who(closeness[0] > closeness[1], closeness[1] > closeness[0]) if reference else "",
            )
        )
    return _surest(rows, [row.right == "student" for row in rows], [row.right == "teacher" for row in rows], most)


def around(context: str, answers: Sequence[str], width: int = WINDOW) -> str:
    """About `width` characters of a context that hold the answers; in pieces where these lie far apart."""
    if len(context) <= width:
        return context
    found = sorted({(at, at + len(text)) for text in answers if text and (at := context.find(text)) >= 0}) or [(0, 0)]
    if found[-1][1] - found[0][0] <= width:
        found = [(found[0][0], found[-1][1])]
    room = width // len(found)
    starts = [max(start - max(room - (end - start), 0) // 2, 0) for start, end in found]
    pieces = " … ".join(context[start : start + room].strip() for start in starts)
    return f"{'… ' * (starts[0] > 0)}{pieces}{' …' * (starts[-1] + room < len(context))}"


def _zip(*columns: Sequence[Any] | Array, what: str) -> Iterator[tuple[Any, ...]]:
    if len({len(column) for column in columns}) > 1:
        raise MismatchError(f"{' and '.join(str(len(column)) for column in columns)} {what} do not pair up")
    return zip(*columns, strict=True)


def _probability(log_p: float) -> float:
    return 0.0 if np.isnan(log_p) else float(np.exp(log_p))


def _who(student: bool, teacher: bool) -> Literal["student", "teacher", "neither"]:
    return "neither" if student == teacher else "student" if student else "teacher"


def _surest(
    rows: Sequence[Disagreement], student_right: Sequence[bool], teacher_right: Sequence[bool], most: int
) -> list[Disagreement]:
    weight = np.array([row.student_confidence * row.teacher_confidence for row in rows])
    chosen = _in_turn(weight, np.array(student_right, dtype=bool), np.array(teacher_right, dtype=bool), most)
    return [rows[row] for row in chosen]


def _in_turn(weight: Array, student_right: Array, teacher_right: Array, most: int) -> list[int]:
    """At most so many rows, in turn from each group; the heaviest first."""
    groups = (student_right & ~teacher_right, teacher_right & ~student_right, student_right == teacher_right)
    surest = np.argsort(-weight, kind="stable")
    queues = [surest[group[surest]] for group in groups]
    in_turn = [int(row) for row in chain.from_iterable(zip_longest(*queues)) if row is not None][:most]
    return sorted(in_turn, key=lambda row: -weight[row])
