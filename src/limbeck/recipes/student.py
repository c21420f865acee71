"""A student to be: where it starts, through which phases it goes, and the cells that train it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from transformers import PreTrainedModel

from limbeck.core.want import ATTENTION_PARTS
from limbeck.data.text.examples import Corpus
from limbeck.recipes.asked import Asked
from limbeck.recipes.cell import Cell, TaughtExam
from limbeck.recipes.finetune import without_teacher
from limbeck.recipes.job import Start, cells, leaves, passed, start_from, start_shrunk
from limbeck.recipes.phases import Plan, plan
from limbeck.recipes.prepare import Prepared
from limbeck.recipes.recipe import to_table
from limbeck.recipes.run import Run
from limbeck.students.open import shape_of
from limbeck.students.sizes import sizes_of


@dataclass(frozen=True)
class Student:
    ready: Prepared
    start: Start
    plan: Plan
    exam: TaughtExam

    @property
    def run(self) -> Run:
        return self.ready.run

    @property
    def plain(self) -> bool:
        """Learns from labels alone."""
        alone = len(self.plan.phases) == 1 and not self.made_up and self.ready.has_label is not None
        return alone and to_table(self.plan.objective) == to_table(without_teacher(self.ready.task))

    @property
    def made_up(self) -> int:
        return len(self.ready.extra)

    @property
    def fingerprints(self) -> dict[str, str]:
        return self.ready.fingerprints

    @property
    def alike(self) -> tuple[str, ...]:
        """The same for students with the same start and the same schedule."""
        return self.run.student.model_dump_json(), self.run.student_from, self.run.train.model_dump_json()

    def taught(self, asked: Asked) -> Student:
        """With its teacher, in training and beside it in the exam."""
        return replace(self, plan=self.plan.taught(asked.teacher), exam=self.exam.beside(asked.beside))

    def cells(self) -> list[Cell]:
        ready = self.ready
        return cells(
            ready.run,
            self.start,
            ready.tokenizer,
            ready.task,
            self.plan,
            ready.for_student["train"],
            self.exam,
            has_label=ready.has_label,
        )

    def cost(self, cell: Cell) -> float:
        """In rows × parameters through which they pass: a training step is three passes."""
        train, small = self.ready.run.train, passed(self.start.network)
        big = passed(self.ready.teacher.network)
        tests = len(self.exam.dev) * train.epochs * train.evals_per_epoch + len(self.ready.for_student["test"])
        steps = sum(
            phase.schedule.epochs * (3 * small + (big if phase.of_teacher.want & ATTENTION_PARTS else 0.0))
            for phase in cell.plan.phases
        )
        return len(cell.train) * steps + small * tests


def set_up(ready: Prepared) -> Student:
    """Everything about the student that can be refused is refused here."""
    start = _start(ready)
    shape = shape_of(start.network)
    run = ready.run.but(train=ready.run.train.at_width(shape.hidden, ready.task))
    phases = plan(run, ready.objective, shape, shape_of(ready.teacher.network))
    return Student(replace(ready, run=run), start, phases, ready.exam)


def _start(ready: Prepared) -> Start:
    given, shape = ready.student, ready.run.student
    pairs = isinstance(ready.corpus, Corpus) and bool(ready.corpus.train.pairs)
    if given is None:
        return start_shrunk(shape, ready.teacher, pairs)
    reopened = partial(ready.material.form.headed, given.where, ready.task, ready.run.trust_remote_code)
    if leaves(shape, given.network):
        return start_from(given, lambda: reopened()[0])
    if not given.where:
        start = start_shrunk(shape, given, pairs)
        return replace(start, origin=f"Of the given model: {start.origin}")
    shape = shape.sized(sizes_of(given.network.config))

    def shrunk() -> PreTrainedModel:
        return shape.build(reopened()[0], given.tokenizer, pairs)[0]

    network, inheritance = shape.build(given.network, given.tokenizer, pairs)
    return Start(network, f"Of {given.where}: {inheritance.sentence()}", shrunk)
