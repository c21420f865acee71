"""Test rows on which student and teacher disagree, the surest first.

Rows are taken in turn from three groups, so that each appears: only the student is right, only the teacher is right,
both or neither or unknown. A row is the surer the higher the product of both models' confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, Literal

import numpy as np

from limbeck.core.errors import MismatchError
from limbeck.core.record import Disagreement
from limbeck.core.task import TaskInfo
from limbeck.measure.answers import Array, answers, confidence, labelled_rows, right, spell
from limbeck.measure.closest import sentence_score
from limbeck.measure.fidelity import paired
from limbeck.measure.spans import exact, normalised
from limbeck.measure.tokens import TokenExample

MOST = 40
NO_ANSWER = "(no answer)"
WINDOW = 200  # characters of a context that are shown


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
    mine, theirs = answers(task, student), answers(task, teacher)
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
