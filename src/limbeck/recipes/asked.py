"""Asking the teacher: once, with its answers kept, or at every step where they cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.progress import Watcher
from limbeck.core.tap import install
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.core.want import ATTENTION_PARTS, NOTHING, Request
from limbeck.data.batches import batches
from limbeck.data.rows import Split
from limbeck.recipes.cell import Answers
from limbeck.recipes.job import ASKING
from limbeck.recipes.phases import Phase
from limbeck.recipes.prepare import Material
from limbeck.recipes.unteachable import Unteachable
from limbeck.students.open import shape_of
from limbeck.teachers.cache import KEEPABLE, Cache, estimate
from limbeck.teachers.live import LiveTeacher

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from limbeck.recipes.student import Student

WORTH_SAYING = 20_000_000  # bytes


@dataclass(frozen=True)
class Asked:
    """What the teacher says of the test split, who speaks for it beside students, and who in training."""

    test: Answers
    beside: Teacher
    kept: Cache | None = None
    asked_again: Teacher = NoTeacher()  # noqa: RUF009  the network, for what is not kept
    notes: list[str] = field(default_factory=list)

    @property
    def live(self) -> bool:
        return not isinstance(self.asked_again, NoTeacher)

    def teacher(self, phase: Phase) -> Teacher:
        if not phase.of_teacher.want:
            return NoTeacher()
        if self.kept is None or not _keepable(phase):
            return self.asked_again
        return self.kept.teacher(phase.of_teacher | Request())


def ask(material: Material, students: Sequence[Student], place: Path, watcher: Watcher) -> Asked:
    """Fills the cache with what all students' phases need of the teacher, as far as a cache can keep it."""
    always = students[0].ready.run.teacher_cache.live
    phases = [phase for student in students for phase in student.plan.phases if phase.of_teacher.want]
    needed = _all([phase.of_teacher for phase in phases if always or not _keepable(phase)])
    network, notes = material.teacher.network, []
    again: Teacher = NoTeacher()
    if needed.want:
        again = LiveTeacher(
            _tapped(network, students) if needed.want & ATTENTION_PARTS else network, needed | Request()
        )
    if always:
        watcher.at(ASKING, 1.0)
        beside = LiveTeacher(network)
        return Asked(_of_test(material, beside), beside, None, again)
    if needed.want:
        notes.append(f"The teacher's {needed.want & ~KEEPABLE} cannot be kept: for them it is asked at every step.")
        watcher.say(notes[0])
    kept = _fill(material, students, _all([phase.of_teacher for phase in phases if _keepable(phase)]), place, watcher)
    said = kept.teacher(Request())
    return Asked(_of_test(material, said), said, kept, again, notes)


def _tapped(network: PreTrainedModel, students: Sequence[Student]) -> PreTrainedModel:
    """With its attention laid open, or those who ask for it are refused."""
    try:
        return install(network)
    except ModelError as error:
        curious = [one for one in students if any(phase.of_teacher.want & ATTENTION_PARTS for phase in one.plan.phases)]
        raise Unteachable(curious, error) from None


def _of_test(material: Material, teacher: Teacher) -> Answers:
    return material.matter.exam.beside(teacher).of_teacher()


def _keepable(phase: Phase) -> bool:
    return not phase.of_teacher.want & ~KEEPABLE


def _all(several: Sequence[Request]) -> Request:
    total = NOTHING
    for one in several:
        total = total | one
    return total


def _fill(material: Material, students: Sequence[Student], needed: Request, place: Path, watcher: Watcher) -> Cache:
    """Every row of every split, the made-up ones too."""
    about = {name: material.fingerprints[name] for name in ("teacher", "tokenizer", "data")}
    cache = Cache(place, about, needed | Request())
    for path in cache.damaged:
        watcher.say(f"{path} was damaged and is asked again")
    splits = [split for student in students for split in student.ready.for_teacher.values()]
    missing = _missing(cache, splits)
    _announce(cache, missing, material, watcher)
    teacher = LiveTeacher(material.teacher.network, cache.request)
    total, done = sum(map(len, missing)), 0
    for split in missing:
        asked = batches(split, material.matter.exam.collator, _size(students))
        cache.fill(teacher, asked, on_rows=lambda rows, before=done: watcher.at(ASKING, (before + rows) / total))  # type: ignore[misc]
        done += len(split)
    watcher.at(ASKING, 1.0)
    return cache


def _missing(cache: Cache, splits: Sequence[Split]) -> list[Split]:
    """What is not answered yet, each row once however many students ask for it."""
    found, seen = [], torch.empty(0, dtype=torch.int64)
    for split in splits:
        uids = torch.from_numpy(split.uids)
        lacking = np.flatnonzero((cache.lacks(uids) & ~torch.isin(uids, seen)).numpy())
        seen = torch.cat([seen, uids])
        if len(lacking) == len(split):
            found.append(split)
        elif len(lacking):
            found.append(split.take(lacking))
    return found


def _announce(cache: Cache, missing: Sequence[Split], material: Material, watcher: Watcher) -> None:
    """Says how much will be written, and refuses what the disk cannot take."""
    lengths = [length for split in missing for length in split.lengths]
    needed = estimate(cache.request, shape_of(material.teacher.network), material.task, lengths)
    free = shutil.disk_usage(cache.folder).free
    if needed > free:
        raise KnobError(
            f"the teacher's answers need {needed / 1e6:,.2f} MB, but {cache.folder} has {free / 1e6:,.2f} MB left",
            "free some space, then run the same command with --resume; or give another folder with "
            "--teacher-cache.cache, or "
            "ask at every step with --teacher-cache.live",
        )
    if needed > WORTH_SAYING:
        watcher.say(f"keeping the teacher's {cache.request.want} takes {needed / 1e6:,.0f} MB in {cache.folder}")


def _size(students: Sequence[Student]) -> int:
    return students[0].ready.run.teacher_cache.batch_size
