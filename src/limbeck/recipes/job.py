"""What the jobs share: where students start, which are trained, what stages cost, what a person gets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from limbeck.core.count import count_parameters, tables_of
from limbeck.core.errors import KnobError
from limbeck.core.record import Record
from limbeck.core.task import TaskInfo
from limbeck.data.rows import Dataset
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes.cell import Cell, Exam, Outcome
from limbeck.recipes.finetune import without_teacher
from limbeck.recipes.folder import RECORD_FILE, put
from limbeck.recipes.phases import Plan, single
from limbeck.recipes.prepare import Model
from limbeck.recipes.run import Run
from limbeck.report import Report
from limbeck.students.families import is_family
from limbeck.students.inherit import reinit
from limbeck.students.shrink import Shrink

ASKING, MEASURING = "teacher's answers", "measuring"


@dataclass(frozen=True)
class Result:
    """What a person gets: the student, ready to use, and the proof."""

    student: PreTrainedModel
    tokenizer: Any
    record: Record
    report: Report
    folder: Path


@dataclass(frozen=True)
class Start:
    """Where the student of every seed starts. It does not hold on to the teacher."""

    network: PreTrainedModel
    origin: str  # said to people
    student: Callable[[], PreTrainedModel]  # a new one; what no weights were there for comes from torch's current seed


def start_from(given: Model, reopen: Callable[[], PreTrainedModel]) -> Start:
    """A model in hand, or one that is opened again for every seed."""
    origin = f"The student starts from {given.where or 'the given model'}."
    return Start(given.network, origin, reopen if given.where else partial(copy.deepcopy, given.network))


def leaves(shape: Shrink, network: PreTrainedModel) -> bool:
    """Whether a model is to stay as it is. An end from which layers are kept says nothing where all are."""
    keep = "spread" if shape.keep in ("first", "last") else shape.keep
    family = "same" if is_family(network.config.model_type, shape.family) else shape.family
    return shape.but(keep=keep, family=family) == Shrink(family="same")


def start_whole(shape: Shrink, given: Model, reopen: Callable[[], PreTrainedModel]) -> Start:
    """From a model as it is: only of classifiers and the like is another size made. The family is checked later."""
    if not leaves(shape.but(family="same"), given.network):
        raise KnobError(
            "the model of --student-from is taken as it is here, but knobs of 'student' ask for another size",
            "leave them out, or make that model smaller first and start from the result",
        )
    return start_from(given, reopen)


def start_shrunk(shape: Shrink, teacher: Model, pairs: bool = False) -> Start:
    network, inheritance = shape.build(teacher.network, teacher.tokenizer, pairs)
    return Start(network, inheritance.sentence(), partial(reinit, network, inheritance.fresh))


def answers_place(run: Run) -> Path:
    """Where the teacher's answers are kept."""
    return Path(run.teacher_cache.cache or Path(run.out) / "teacher-answers")


def release(teacher: Model) -> None:
    """All is asked: the memory of its weights goes to the students. Shapes stay, and what was tied stays tied."""
    if teacher.where:
        teacher.network.to("meta")
        teacher.network.tie_weights()


def cells(
    run: Run,
    start: Start,
    tokenizer: Any,
    task: TaskInfo,
    taught: Plan,
    train: Dataset,
    exam: Exam,
    *,
    has_label: Dataset | None,
) -> list[Cell]:
    """Each seed with the teacher and, given `labelled` rows, without: the same student, the same rows in their order.

    Without a teacher there is nothing to learn from rows that have no label, such as augmented ones."""
    arms: list[tuple[str, str, Plan, Dataset]] = []
    if run.baseline and has_label is not None and taught.of_teacher.want:
        arms.append(("plain", "student without teacher", single(without_teacher(task), run.train), has_label))
    arms.append(("distilled", "student with teacher", taught, train))
    return [
        Cell(
            arm=name,
            title=f"{title}, seed {seed}",
            seed=seed,
            build=start.student,
            tokenizer=tokenizer,
            task=task,
            plan=plan,
            train=rows,
            exam=exam,
        )
        for seed in range(run.seed, run.seed + run.seeds)
        for name, title, plan, rows in arms
    ]


def finish(
    record: Record,
    outcomes: Mapping[str, Sequence[Outcome]],
    folder: Path,
    reopen: Callable[[Path], tuple[PreTrainedModel, Any]],
) -> Result:
    """The best student by dev, with its card, the Record and the page, all in the run's folder."""
    report = Report((record,))
    best = max(outcomes["distilled"], key=lambda outcome: outcome.dev_score)
    put(best.model, folder / "student", card=report.markdown())
    record.save(folder / RECORD_FILE)
    report.save(folder / "report.html")
    network, tokenizer = reopen(folder / "student")
    return Result(network, tokenizer, record, report, folder)


def timing_cost(settings: MeasureSettings, models: int) -> float:
    """A process that times a model takes its seconds to start: about what 2,000 rows of MiniLM-L6 take."""
    return models * settings.repeats * 2e10 if settings.speed else 0.0


def passed(network: PreTrainedModel) -> float:
    """The parameters that a row passes through: looking up a word costs nothing, scoring all words does."""
    scores = network.get_output_embeddings()
    tied = scores is not None and any(scores.weight is table for table in tables_of(network))
    return float(count_parameters(network)[1] + (scores.weight.numel() if tied else 0))
