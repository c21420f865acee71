"""Translators: how far each student closes the gap to its teacher, and examples of their translations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from limbeck.core.record import Arm, Record, Sample
from limbeck.report import numbers as n
from limbeck.report.gains import baseline_of, titled
from limbeck.report.summary import quality, students_of, teacher_of

# A word, a sign, or a character of a script that puts no space between words; then the space after it.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_SIGNS = re.escape('.,;:!?…()[]{}"“”„«»¿¡،؛؟。、，！？：；（）「」')
_WORDS = re.compile(rf"([{_UNSPACED}]|[{_SIGNS}]|[^\s{_UNSPACED}{_SIGNS}]+)(\s*)")

Marked = list[tuple[str, bool]]  # pieces of a text, and whether the reference lacks them there


@dataclass(frozen=True)
class Written:
    title: str
    pieces: Marked


@dataclass(frozen=True)
class Example:
    source: str
    reference: str
    written: list[Written]


def sentences(record: Record) -> list[str]:
    """The table in words: how much of the gap each student closes, and what its artifacts lose."""
    closed = [_closed(record, student) for student in students_of(record)]
    lost = [titled(record, artifact.comparison.sentence) for artifact in record.artifacts if artifact.comparison]
    return [*filter(None, closed), *lost]


def _closed(record: Record, student: Arm) -> str:
    teacher, plain = teacher_of(record), baseline_of(record, student) or _only_baseline(record)
    if teacher is None or plain is None:
        return ""
    greedy, beam = (_share(metric, student, teacher, plain) for metric in ("bleu", "bleu_beam"))
    if not greedy:
        return ""
    also = f"; with a beam, {beam}" if beam else ""
    return (
        f"“{student.title}” closes {greedy} of the gap in greedy BLEU between the student without a teacher "
        f"and the teacher{also}."
    )


def _share(metric: str, student: Arm, teacher: Arm, plain: Arm) -> str:
    """(student − baseline) / (teacher − baseline), downwards: below the teacher is never 100 %."""
    mine, theirs, without = (quality(arm, metric) for arm in (student, teacher, plain))
    if mine is None or theirs is None or without is None or theirs.mean <= without.mean:
        return ""
    share = math.floor(100 * (mine.mean - without.mean) / (theirs.mean - without.mean))
    return f"{share}{n.GAP}%" if mine.mean > without.mean else "none"


def _only_baseline(record: Record) -> Arm | None:
    found = [arm for arm in record.arms if arm.role == "baseline" or arm.name.startswith("plain")]
    return found[0] if len(found) == 1 else None


def examples(record: Record) -> list[Example]:
    titles = {arm.name: arm.title for arm in record.arms}
    return [_example(sample, titles) for sample in record.samples]


def _example(sample: Sample, titles: dict[str, str]) -> Example:
    said = [Written(titles.get(arm, arm), marked(text, sample.reference)) for arm, text in sample.written.items()]
    return Example(sample.source, sample.reference, said)


def marked(text: str, reference: str) -> Marked:
    """The text in pieces, those that differ from the reference marked; without a reference, whole."""
    if not reference:
        return [(text, False)]
    return list(_pieces(_WORDS.findall(text), [word for word, _ in _WORDS.findall(reference)]))


def _pieces(spaced: list[tuple[str, str]], wanted: list[str]) -> Iterator[tuple[str, bool]]:
    words = [word for word, _ in spaced]
    # autojunk would take frequent words of a long text for noise.
    for what, start, end, _, _ in SequenceMatcher(None, words, wanted, autojunk=False).get_opcodes():
        if start < end:
            piece = "".join(map("".join, spaced[start:end]))
            yield piece.rstrip(), what != "equal"
            yield piece[len(piece.rstrip()) :], False
