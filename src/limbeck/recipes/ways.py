"""The two ways of a comparison: of rows with labels, and of pairs of texts. What differs between them is here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limbeck.core.progress import Watcher
from limbeck.core.record import Record
from limbeck.recipes.asked import ask
from limbeck.recipes.asked_pairs import ask_pairs
from limbeck.recipes.ground import Ground, gather_pairs
from limbeck.recipes.prepare import Material, Model, gather, prepare
from limbeck.recipes.run import Run
from limbeck.recipes.student import Student, set_up
from limbeck.recipes.tell_compare import Contest
from limbeck.recipes.tell_pairs import with_translations
from limbeck.recipes.writer import Writer, set_up_writer


@dataclass(frozen=True)
class Way:
    gather: Callable[..., Any]  # what all students share
    learner: Callable[[Run, Any, Watcher, Model | None], Any]  # one of them
    ask: Callable[..., Any]  # everything, of the teacher
    told: Callable[[Contest, Record, Watcher], Record]  # with what only such a Record has


def _student(run: Run, material: Material, watcher: Watcher, started: Model | None) -> Student:
    return set_up(prepare(run, material, watcher, started))


def _writer(run: Run, ground: Ground, watcher: Watcher, started: Model | None) -> Writer:
    return set_up_writer(run, ground, started)


ROWS = Way(gather, _student, ask, lambda contest, record, watcher: record)
PAIRS = Way(gather_pairs, _writer, ask_pairs, with_translations)
