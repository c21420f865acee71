"""A translator to be: where it starts, through which phases it goes, what it writes in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from limbeck.core.errors import DataError, KnobError, MismatchError
from limbeck.core.fingerprint import fingerprint, tokenizers_equal
from limbeck.core.objective import Objective, misfits, wants
from limbeck.core.task import TaskInfo
from limbeck.core.want import Want
from limbeck.data.sequences import Sequences
from limbeck.objectives.language import LanguageModeling
from limbeck.recipes.cell import Cell
from limbeck.recipes.ground import Ground
from limbeck.recipes.job import Start, passed, start_shrunk, start_whole
from limbeck.recipes.phases import Plan, plan, single
from limbeck.recipes.prepare import Model
from limbeck.recipes.recipe import from_table
from limbeck.recipes.run import Run, complete
from limbeck.recipes.sequence_exam import SequenceExam
from limbeck.recipes.several import check_switch
from limbeck.students.open_translator import decoder_start, new_translator, open_translator
from limbeck.students.sizes import shape_of
from limbeck.students.vocabulary import own_words, shared_words

GOLD = "gold"


@dataclass(frozen=True)
class Writer:
    run: Run
    ground: Ground
    start: Start
    tokenizer: Any
    plan: Plan
    exam: SequenceExam
    fingerprints: dict[str, str]
    rows: Mapping[str, Sequences] = field(default_factory=dict)  # what is written → the training rows
    made_up: int = 0

    @property
    def task(self) -> TaskInfo:
        return self.exam.task

    @property
    def plain(self) -> bool:
        """Learns from what people wrote alone."""
        return {phase.targets for phase in self.plan.phases} == {GOLD} and not self.plan.of_teacher.want

    @property
    def alike(self) -> tuple[str, ...]:
        run = self.run
        return (
            run.student.model_dump_json(),
            run.student_from,
            run.new.model_dump_json(),
            run.train.model_dump_json(),
            str(without_teacher(self.plan.objective)),
        )

    @property
    def has_baseline(self) -> bool:
        return self.run.baseline and not self.plain and bool(self.ground.corpus.train.targeted.any())

    @property
    def learns(self) -> set[str]:
        """The kinds of targets, its baseline's among them."""
        return {phase.targets for phase in self.plan.phases} | ({GOLD} if self.has_baseline else set())

    def cells(self) -> list[Cell]:
        """Each seed with the teacher and without: the same student, the rows that people wrote."""
        arms: list[tuple[str, str, Plan]] = [("distilled", "student with teacher", self.plan)]
        if self.has_baseline:
            alone = single(without_teacher(self.plan.objective), self.run.train, targets=GOLD)
            arms.insert(0, ("plain", "student without teacher", alone))
        return [
            Cell(
                arm=arm,
                title=f"{title}, seed {seed}",
                seed=seed,
                build=self.start.student,
                tokenizer=self.tokenizer,
                task=self.task,
                plan=phases,
                train=self._train(phases),
                exam=self.exam,
                others=self.rows,
            )
            for seed in range(self.run.seed, self.run.seed + self.run.seeds)
            for arm, title, phases in arms
        ]

    def _train(self, phases: Plan) -> Any:
        """Of the main phase; before anything is translated, the sources themselves, which are as many."""
        return self.rows.get(phases.main.targets, self.ground.corpus.train)

    def cost(self, cell: Cell) -> float:
        """In rows × parameters through which they pass: a step is three passes, a text that is written about ten."""
        train, small = self.run.train, passed(self.start.network)
        steps = sum(phase.schedule.epochs for phase in cell.plan.phases) * 3 * len(cell.train)
        evals = sum(phase.schedule.epochs for phase in cell.plan.phases if phase.watched) * train.evals_per_epoch
        written = 10 * (len(self.exam.held_out) * evals + 6 * len(self.exam.unseen))
        return small * (steps + written)

    def taught(self, asked: Any) -> Writer:
        """With its teacher, the targets it wrote, and its translations in the exam."""
        exam = self.exam.beside(asked.test_texts)
        plan = self.plan.taught(partial(asked.teacher, self))
        return replace(self, plan=plan, exam=exam, rows=asked.rows(self))


def without_teacher(objective: Objective) -> Objective:
    """The words alone, smoothed as in the objective."""
    own = [part for _, part in objective.weighted if isinstance(part, LanguageModeling)]
    return 1.0 * (own[0] if own else LanguageModeling())


def set_up_writer(run: Run, ground: Ground, student: Model | None = None) -> Writer:
    """Everything about the student that can be refused is refused here."""
    run = complete(run, ground.task)
    if student is None and run.student_from:
        student = Model(*open_translator(run.student_from, trust_remote_code=run.trust_remote_code), run.student_from)
    start, tokenizer = _start(run, ground, student)
    _check(run, ground, start, tokenizer)
    shape = shape_of(start.network)
    task = ground.task.but(vocab_size=_vocabulary(ground, start, tokenizer))
    run = run.but(train=run.train.at_width(shape.hidden, task))
    big = shape_of(ground.teacher.network) if ground.teacher else shape
    corpus = ground.corpus
    exam = SequenceExam(
        task,
        tokenizer,
        decoder_start(start.network),
        corpus.dev,
        corpus.test,
        run.translate,
        run.data.max_length,
        parts=ground.parts("dev"),
    )
    prints = dict(ground.fingerprints)
    if student is not None and not student.where:
        prints["student"] = fingerprint(student.network)
    return Writer(run, ground, start, tokenizer, plan(run, from_table(run.objective), shape, big), exam, prints)


def _start(run: Run, ground: Ground, student: Model | None) -> tuple[Start, Any]:
    if student is not None:
        reopened = partial(open_translator, student.where, trust_remote_code=run.trust_remote_code)
        return start_whole(run.student, student, lambda: reopened()[0]), student.tokenizer
    if ground.teacher is not None:
        return start_shrunk(run.student, ground.teacher), ground.teacher.tokenizer
    begin = ground.begin
    assert begin is not None
    origin = "The student starts from nothing but its vocabulary."
    with torch.random.fork_rng(devices=[]):  # only its shape is looked at
        network = new_translator(run.new, begin.tokenizer)
    return Start(network, origin, lambda: new_translator(run.new, begin.tokenizer)), begin.tokenizer


def _vocabulary(ground: Ground, start: Start, tokenizer: Any) -> int:
    if ground.teacher is None or not tokenizers_equal(tokenizer, ground.teacher.tokenizer):
        return own_words(start.network, tokenizer, "student")
    return shared_words(ground.teacher.network, start.network, ground.teacher.tokenizer, tokenizer).size


def _check(run: Run, ground: Ground, start: Start, tokenizer: Any) -> None:
    every = [from_table(run.objective), *(from_table(stage.objective) for stage in run.stages.values())]
    for part in (part for objective in every for part in misfits(objective, ground.task)):
        raise MismatchError(f"{part} does not serve --task translate", part.remedy or "use 'language' and 'truncated'")
    needed = Want.NOTHING
    for objective in every:
        needed |= wants(objective)
    targets = {run.translate.targets, *(stage.targets for stage in run.stages.values())}
    check_switch(run, every, needed, targets)
    if targets & {GOLD, "closest"} and not ground.corpus.train.targeted.any():
        raise DataError(
            f"no training row has a target, and recipe {run.recipe!r} learns from given ones",
            "use --recipe seq-kd, which learns what the teacher writes, or give targets with --target",
        )
    if needed and ground.teacher is None:
        raise MismatchError(
            f"the objective wants the teacher's {needed}, but of a black box only its translations are known",
            "use --recipe seq-kd",
        )
    if needed and not tokenizers_equal(tokenizer, ground.teacher.tokenizer):  # type: ignore[union-attr]
        raise MismatchError(
            "student and teacher cut text into different tokens, so their words cannot be compared",
            "use --recipe seq-kd or seq-inter, which only look at texts",
        )
    if needed and decoder_start(start.network) != decoder_start(ground.teacher.network):  # type: ignore[union-attr]
        raise MismatchError(
            "student and teacher start to write from different tokens, so their words do not stand opposite each other",
            "start from a student with the teacher's decoder_start_token_id, or shrink the teacher",
        )
    if "closest" in targets and ground.black_box is not None:
        raise KnobError("a black box gives one translation, so none can be closest", "use --recipe seq-kd")
