"""What a Record amounts to, in numbers and sentences. Every number is computed from the arms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from limbeck.core.metric import metric_of
from limbeck.core.record import Arm, Record, SeedResult, Speed
from limbeck.report import numbers as n
from limbeck.report.gains import titled
from limbeck.report.models import models, primary
from limbeck.report.units import decoding, in_blocks, layers, timed

FEW_ROWS = 1000  # below this, the sampling error of an accuracy is worth a sentence: ±2.5 points at 80 %


@dataclass(frozen=True)
class Spread:
    """One figure over the seeds of an arm."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def spread(arm: Arm, value: Callable[[SeedResult], float | None]) -> Spread | None:
    """The figure over the seeds that have it; None when none has."""
    values = tuple(v for run in arm.runs if (v := value(run)) is not None and math.isfinite(v))
    return Spread(values) if values else None


def quality(arm: Arm, metric: str) -> Spread | None:
    return spread(arm, lambda run: run.quality.get(metric))


def agreement(arm: Arm) -> Spread | None:
    return spread(arm, lambda run: run.fidelity.agreement if run.fidelity else None)


def divergence(arm: Arm) -> Spread | None:
    return spread(arm, lambda run: run.fidelity.divergence if run.fidelity else None)


def seconds(arm: Arm) -> Spread | None:
    return spread(arm, lambda run: run.seconds or None)


def of_role(record: Record, *roles: str) -> Arm | None:
    return next((arm for arm in record.arms if arm.role in roles), None)


def teacher_of(record: Record) -> Arm | None:
    return of_role(record, "teacher")


def subject_of(record: Record) -> Arm | None:
    """The arm that the record is about: the student, of several the best; or the model trained or measured."""
    students = by_quality(record, students_of(record))
    return students[0] if students else of_role(record, "model", "baseline") or teacher_of(record)


def students_of(record: Record) -> list[Arm]:
    return [arm for arm in record.arms if arm.role == "student"]


def by_quality(record: Record, arms: Iterable[Arm]) -> list[Arm]:
    """The best first; those without a score last, all ties in their own order."""
    sign = -1 if primary(record).higher_is_better else 1

    def worth(arm: Arm) -> float:
        found = quality(arm, record.metric)
        return sign * found.mean if found else math.inf

    return sorted(arms, key=worth)


def is_pair(record: Record) -> bool:
    """Whether the record sets a model beside its teacher."""
    teacher, subject = teacher_of(record), subject_of(record)
    return teacher is not None and subject is not None and subject is not teacher


def tested_rows(record: Record) -> int:
    split = record.data.splits.get("test") or record.data.splits.get("dev")
    if split is None:
        return 0
    return split.rows if in_blocks(record) else split.labelled or split.rows


def headline(record: Record) -> str:
    """One sentence: what was kept and at what cost, or what was measured."""
    subject, teacher = subject_of(record), teacher_of(record)
    if subject is None:
        return f"{record.name} holds no models."
    if teacher is not None and subject is not teacher:
        kept, cost = _kept(record, subject, teacher), _cost(record, subject, teacher)
        comma = "," if primary(record).unit == "perplexity" and cost.startswith(" ") else ""
        return f"{kept}{comma}{cost}."
    if subject.role == "student" and quality(subject, record.metric):
        return f"{_alone(record, subject)}."
    if len(record.arms) > 1:
        return f"{record.name}: {n.plural(len(record.arms), 'model')} side by side."
    return f"{_reached(record, subject)}."


def _kept(record: Record, student: Arm, teacher: Arm) -> str:
    who, metric = _subject(record, student, teacher), primary(record)
    name = metric.title
    mine, theirs = quality(student, record.metric), quality(teacher, record.metric)
    if mine is None or theirs is None:
        agree = agreement(student)
        if agree is None:
            return (
                f"{who} was not scored against its teacher, and runs"
                if _cost(record, student, teacher)
                else f"{who} was not scored"
            )
        if not metric_of(record.task, "agreement").is_share:
            return f"{who}’s predictions correlate {agree.mean:.3f} with the teacher’s"
        predictions = f"{record.task.units.prediction}s"
        return f"{who} predicts as the teacher does on {n.percent(agree.mean)} of the test {predictions}"
    ours, other = n.score(metric, mine.mean), n.score(metric, theirs.mean)
    if ours == other:
        return f"{who} matches the teacher’s {name} of {other}"
    if metric.unit == "perplexity" and theirs.mean > 0:
        return f"{who} reaches a {name} of {ours}, {n.ratio_text(mine.mean, theirs.mean)} the teacher’s {other}"
    if not metric.higher_is_better or not 0 < mine.mean < theirs.mean:
        return f"{who} reaches {_article(name)}{name} of {ours} against the teacher’s {other}"
    return f"{who} keeps {n.kept(mine.mean, theirs.mean)} of the teacher’s {name}"


def _article(name: str) -> str:
    return "an " if name[0] in "aeiouF" else "a "


def _subject(record: Record, student: Arm, teacher: Arm | None = None) -> str:
    many = len(students_of(record))
    if many > 1:
        best = f", the best of {many} students," if quality(student, record.metric) else ""
        return f"“{student.title}”{best}"
    deep = layers(student.shape) if student.shape else ""
    if not deep or (teacher and teacher.shape and layers(teacher.shape) == deep):
        return "The student"
    return f"The {deep.removesuffix('s').replace(' layer', '-layer')} student"


def _alone(record: Record, student: Arm) -> str:
    """A student whose teacher left only its cached outputs."""
    metric, plain = primary(record), of_role(record, "baseline")
    mine, theirs = quality(student, record.metric), quality(plain, record.metric) if plain else None
    ours = n.score(metric, mine.mean if mine else None)
    against = f", against {n.score(metric, theirs.mean)} without a teacher" if theirs else ""
    return (
        f"{_subject(record, student)} reaches {_article(metric.title)}{metric.title} of {ours}{against}; "
        "the teacher itself was not measured"
    )


def _cost(record: Record, student: Arm, teacher: Arm) -> str:
    costs: list[tuple[float, str]] = []
    if student.speed and teacher.speed and teacher.speed.p50_ms:
        costs.append((student.speed.p50_ms / teacher.speed.p50_ms, f"the time per {record.task.units.input}"))
    if student.size and teacher.size and teacher.size.bytes_on_disk:
        costs.append((student.size.bytes_on_disk / teacher.size.bytes_on_disk, "the bytes"))
    same = [what.replace("the", "the same", 1) for value, what in costs if 0.995 <= value < 1.05]
    less = [f"{n.ratio(value)} {what}" for value, what in costs if value < 0.995] + same
    more = [f"{n.ratio(value)} {what}" for value, what in costs if value >= 1.05]
    text = f" at {' and '.join(less)}" if less else ""
    return text + (f"{' but' if less else ', but at'} {' and '.join(more)}" if more else "")


def _reached(record: Record, arm: Arm) -> str:
    reached, speed, rows = quality(arm, record.metric), arm.speed, tested_rows(record)
    if reached is not None:
        metric = primary(record)
        on = f" on {n.plural(rows, record.task.units.row)}" if rows else ""
        over = f", the mean of {len(arm.runs)} seeds" if len(arm.runs) > 1 else ""
        return (
            f"{arm.title} reaches {_article(metric.title)}{metric.title} of {n.score(metric, reached.mean)}{on}{over}"
        )
    if speed is not None:
        batches = (
            f"{n.figure(speed.sentences_per_second)} {record.task.units.input}s a second in batches of {speed.batch}"
        )
        return f"{arm.title} takes {n.milliseconds(speed.p50_ms)} for one {timed([record])} and reaches {batches}"
    return f"{arm.title} was opened, and nothing was measured"


def conclusion(record: Record) -> str:
    """The honest sentence of the comparison that the subject is in, or of the first, with titles for names."""
    subject = subject_of(record)
    if found := record.comparisons:
        of_subject = (c for c in found if subject and c.better == subject.name)
        return titled(record, next(of_subject, found[0]).sentence)
    if not is_pair(record):
        return ""
    if of_role(record, "baseline") is None:
        return "No student was trained without the teacher, so whether distillation helped is not known."
    rows = f"{record.task.units.row}s"
    return f"Student and baseline were not compared on test {rows}, so whether distillation helped is not known."


def caveats(record: Record) -> list[str]:
    """What a reader must know before believing the headline."""
    return [sentence for sentence in _caveats(record) if sentence]


def _caveats(record: Record) -> Iterable[str]:
    subject = subject_of(record)
    if subject is None:
        return
    scored, rows = quality(subject, record.metric), tested_rows(record)
    if record.kind in ("distill", "compare", "train") and len(subject.runs) == 1:
        again = "Train again with --seed 1" if record.kind == "train" else "Run with --seeds 3"
        yield f"One seed: how far chance moved the result is not known. {again} to find out."
    if scored is None and record.kind != "bench":
        yield f"No {primary(record).title}: {record.task.units.unscored}."
    if scored is not None and 0 < rows < FEW_ROWS and record.metric == "accuracy":
        error = 1.96 * math.sqrt(max(0.0, scored.mean * (1 - scored.mean)) / rows)
        yield (
            f"{n.plural(rows, 'test row')}: an accuracy of {n.percent(scored.mean)} on so few "
            f"is uncertain by ±{100 * error:.1f} points (95{n.GAP}% sampling error)."
        )
    if scored is not None and len(students_of(record)) > 1:
        yield "The best student is the best on the test split itself, so its figure is a little too good."
    if all(model.speed is None for model in models(record)):
        yield "Speed was not measured."
    elif is_pair(record) and any(arm.speed is None for arm in (subject, teacher_of(record)) if arm):
        yield "Speed was measured for only one of student and teacher, so there is no ratio."


def _shared(speed: Speed) -> str:
    """CTranslate2's threads do not share a text, they share out a batch."""
    apart = speed.engine.startswith("ctranslate2") and speed.threads > 1
    return " of which a single text has one" if apart else ""


def speed_conditions(record: Record) -> str:
    """How the milliseconds were taken."""
    units, one = record.task.units, f"one {timed([record])}"
    how = decoding([record]) if units.decoded else units.timing
    how = f", {how}" if how else ""
    speeds = [model.speed for model in models(record) if model.speed]
    ways = dict.fromkeys(
        f"{s.engine}, {n.plural(s.threads, 'thread')}{_shared(s)}, {one} at a time{how}, "
        f"{n.plural(s.rounds, 'round')}; throughput in batches of {s.batch}"
        for s in speeds
    )
    return "; or ".join(ways)
