"""What would make distillation show, where a run's own data says that it could not: with the flags to try.

A teacher has little to add where the student learns from the same labelled rows, where the student without a teacher is
almost as good as the teacher, or where the test split is too small to see what it adds.
"""

from __future__ import annotations

from collections.abc import Iterator

from limbeck.core.record import Arm, Comparison, Record
from limbeck.core.task import IMAGE_KINDS
from limbeck.report import figures as n
from limbeck.report import models as m

NARROW = 0.01  # half an interval of a share that a difference worth having would show in
CLOSE = 0.01  # of the teacher's score: so little is left to gain


def advice(record: Record) -> str:
    """One sentence on a comparison that shows no difference; "" where there is none."""
    subject = m.subject_of(record)
    found = next((one for one in record.comparisons if subject and one.better == subject.name), None)
    if subject is None or found is None or not _cannot_show(record, found):
        return ""
    reasons = list(_reasons(record, found))
    return f"Why it may not show: {'; '.join(reasons)}." if reasons else ""


def _cannot_show(record: Record, found: Comparison) -> bool:
    """Whether a student with a teacher and the same one without it do not differ as far as the test can see."""
    arms = {arm.name: arm for arm in record.arms}
    plain = arms.get(found.than)
    return record.kind in ("distill", "compare") and plain is not None and _unclear(found) and _is_plain(plain)


def _unclear(found: Comparison) -> bool:
    return found.low <= 0 <= found.high


def _is_plain(arm: Arm) -> bool:
    return arm.role == "baseline" or arm.name.startswith("plain")


def _reasons(record: Record, found: Comparison) -> Iterator[str]:
    metric, train = n.primary(record), record.data.splits.get("train")
    if train and train.labelled == train.rows and not _augmented(record) and (more := _more_rows(record)):
        rows = n.plural(train.rows, n.units(record).row)
        yield f"student and baseline learn from the same {rows}, {more}"
    teacher, plain = n.teacher_of(record), n.quality(record.arm(found.than), record.metric)
    best = n.quality(teacher, record.metric) if teacher else None
    if best and plain and metric.higher_is_better and plain.mean > (1 - CLOSE) * best.mean:
        yield (
            f"without a teacher the student already reaches {n.score(metric, plain.mean)}, the teacher "
            f"{n.score(metric, best.mean)}; a smaller student has more to learn (--preset tiny, --student.layers 2)"
        )
    half = (found.high - found.low) / 2
    if metric.is_share and half > NARROW:
        more = "more test rows (--data.test FILE)" + (" and --seeds 3" if found.seeds == 1 else "") + " would"
        yield (
            f"{n.plural(found.rows, f'test {n.units(record).row}')} and {n.plural(found.seeds, 'seed')} show no "
            f"difference below {100 * half:.1f} points; {more}"
        )


def _more_rows(record: Record) -> str:
    """What only the teacher can say something about, and the flag for it; "" where a run takes no such rows."""
    if record.task.is_seq2seq and not record.knobs.get("directions"):
        return (
            "all with targets; sources without targets, which only the teacher can translate, are more to learn from "
            "(--recipe seq-kd --unlabelled FILE)"
        )
    if record.task.level == "vocabulary" or record.task.kind in IMAGE_KINDS:
        return ""
    made = ", or --augment.kind joins" if record.task.level == "text" else ""
    return (
        "all with labels; texts without labels, of which only the teacher can say something, are what pays most "
        f"(--unlabelled FILE{made})"
    )


def _augmented(record: Record) -> bool:
    """Whether any arm learnt from texts made for it."""
    tables = [record.knobs, *(record.knobs.get("columns") or {}).values()]
    return any((one.get("augment") or {}).get("kind", "none") not in ("none", "auto") for one in tables)
