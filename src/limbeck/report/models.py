"""The models of a Record, one for each row of a table: arms, and what passes and exports made of them.

And who is who among them: the subject, what it is measured against, what a run leaves for use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from limbeck.core.record import Arm, Artifact, Record, SeedResult
from limbeck.report import figures as n

START = "start"  # the step of a chain that is the model before its first pass


def models(record: Record) -> list[Arm]:
    """One for each row of a table: every arm, then every artifact in the shape of the arm that it comes from. An
    artifact that several seeds have is one row. The last step of a chain is the arm itself, and one row with it: where
    the chain is all there is, in its place there, elsewhere among the arms."""
    chained, origins = record.kind == "compress", {arm.name: arm for arm in record.arms}
    ends = {same[0].arm: same for same in artifacts(record) if same[0].step and is_outcome(record, same[0].arm)}
    rows, titles = [arm for arm in record.arms if not (chained and arm.name in ends)], Counter[str]()
    if chained:  # a model that is its own teacher is the start of its chain
        starts = [(one.size, one.quality.get(record.metric)) for one in record.artifacts if one.step == START]
        rows = [arm for arm in rows if (arm.size, *(run.quality.get(record.metric) for run in arm.runs)) not in starts]
    for same in artifacts(record):
        one, origin = same[0], origins[same[0].arm]
        last = ends.get(one.arm) == same
        if last and not chained:
            continue
        title = one.title.removeprefix(f"{one.arm}, ") if chained else one.title
        title = START if one.step == START else title
        titles[title] += 1
        title = title if titles[title] == 1 else f"{title} {titles[title]}"
        runs = [SeedResult(seed=a.seed, quality=a.quality, seconds=a.seconds) for a in same]
        speed = one.speed or (origin.speed if last else None)
        own = {"name": row_name(one), "title": title, "role": "student", "size": one.size, "speed": speed}
        rows.append(origin.model_copy(update={**own, "runs": runs, "objective": ""}))
    return rows


def artifacts(record: Record) -> list[list[Artifact]]:
    """Steps of a chain in their order, then exports; what the seeds of one arm made alike is together."""
    made: dict[tuple[object, ...], list[Artifact]] = {}
    before = Counter[tuple[str, int]]()
    for one in sorted(record.artifacts, key=lambda one: not one.step):
        key = (one.arm, before[one.arm, one.seed], one.step, one.engine, one.precision)
        before[one.arm, one.seed] += 1
        made.setdefault(key, []).append(one)
    return list(made.values())


def row_name(artifact: Artifact) -> str:
    """Artifacts of several arms may share their names."""
    return f"{artifact.arm}/{artifact.name}"


def artifact_of(record: Record, arm: Arm) -> Artifact | None:
    """What a row of a table comes from, if not from training alone."""
    return next((one for one in record.artifacts if row_name(one) == arm.name), None)


def is_outcome(record: Record, arm: str) -> bool:
    """Whether a chain led to the arm, and did not begin with it."""
    return any(one.step == START and one.arm == arm for one in record.artifacts)


def is_between(record: Record, arm: Arm) -> bool:
    """Whether a row is a step of a chain that goes on: nobody will use that model."""
    one, subject = artifact_of(record, arm), subject_of(record)
    return bool(one and one.step) and not (subject and subject.name == arm.name)


def subject_of(record: Record) -> Arm | None:
    """The arm that the record is about: the student, of several the best; or the model trained or measured, of
    several timed the fastest, first of all a student; or what a chain ends with."""
    if record.kind == "compress" and record.artifacts:
        return models(record)[-1]
    if record.kind == "bench" and (timed := [arm for arm in record.arms if arm.speed]):
        ours = [arm for arm in timed if arm.role == "student"] or timed
        return min(ours, key=lambda arm: arm.speed.p50_ms if arm.speed else math.inf)
    students = n.by_quality(record, n.students_of(record))
    return students[0] if students else n.of_role(record, "model", "baseline") or n.teacher_of(record)


def final_of(record: Record) -> Arm | None:
    """What a run leaves for use: the last export of its only student, if that was scored, or else its subject."""
    subject = subject_of(record)
    if record.kind != "distill" or subject is None or len(n.students_of(record)) != 1:
        return subject
    made = {row_name(one) for one in record.artifacts if not one.step and one.arm == subject.name}
    rows = [row for row in models(record) if row.name in made and n.quality(row, record.metric) and row.size]
    return rows[-1] if rows else subject


def reference_of(record: Record) -> Arm | None:
    """What others are measured against: the model that a chain starts from, the teacher, the first model timed."""
    if record.kind == "compress" and record.artifacts:
        one = next((one for one in record.artifacts if one.step == START), record.artifacts[0])
        name = row_name(one) if one.step == START else one.arm
        return next(row for row in models(record) if row.name == name)
    first = record.arms[0] if record.arms and record.arms[0].role == "model" else None
    return n.teacher_of(record) or first


def is_pair(record: Record) -> bool:
    """Whether the record sets a model beside its teacher."""
    teacher = n.teacher_of(record)
    return teacher is not None and teacher is not subject_of(record) and record.kind != "compress"


def is_frontier(record: Record) -> bool:
    """Whether it is about how small and fast a model becomes, so that ratios count and axes are logarithmic."""
    return bool(record.artifacts) or (record.kind in ("bench", "compress") and len(record.arms) > 1)


def counted_in_all(records: Sequence[Record]) -> bool:
    """Whether every file needed to answer is counted for all models; else the weights are compared with weights."""
    sizes = [model.size for record in records for model in models(record) if model.size]
    return bool(sizes) and all(size.bytes_in_all for size in sizes)


def bytes_of(arm: Arm | None, in_all: bool) -> int:
    if arm is None or arm.size is None:
        return 0
    return arm.size.bytes_in_all if in_all else arm.size.bytes_on_disk
