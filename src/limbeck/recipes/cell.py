"""One model, one seed: built, trained, asked about the test set, and kept. A finished cell is never trained again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_model, save_model
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.files import atomic, explained, write_text
from limbeck.core.progress import Watcher
from limbeck.core.record import ClassScore, CurvePoint, Fidelity, SeedResult
from limbeck.core.tap import install, uninstall
from limbeck.core.task import TaskInfo
from limbeck.core.teacher import NoTeacher, Teacher
from limbeck.data.batches import batches
from limbeck.data.padding import Collator
from limbeck.data.rows import Collate, Dataset
from limbeck.data.text.encode import Encoded
from limbeck.measure.fidelity import fidelity
from limbeck.measure.predict import collect, predict
from limbeck.measure.quality import quality
from limbeck.recipes.phases import Phase, Plan
from limbeck.students.open import name_outputs, quiet
from limbeck.training.bridges import add_bridges, drop_bridges
from limbeck.training.switching import switching
from limbeck.training.trainer import Distiller, Watch


@dataclass(frozen=True)
class Cell:
    """What is trained, on what, and towards what."""

    arm: str  # "distilled"
    title: str  # "student with teacher, seed 0": also the stage
    seed: int
    build: Callable[[], PreTrainedModel]
    tokenizer: Any
    task: TaskInfo
    plan: Plan
    train: Dataset
    exam: Exam
    others: Mapping[str, Dataset] = field(default_factory=dict)  # rows of phases with other targets, by their name

    @property
    def name(self) -> str:
        """Also the folder's."""
        return f"{self.arm}-seed{self.seed}"

    def rows(self, phase: Phase) -> Dataset:
        return self.others.get(phase.targets, self.train)


@dataclass(frozen=True)
class Answers:
    """What a trained model made of the test split."""

    uids: np.ndarray
    logits: np.ndarray  # [test rows, outputs]; sums per block of a language model, per sentence or question of places
    quality: dict[str, float]
    per_class: Sequence[ClassScore] = ()
    fidelity: Fidelity | None = None
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))  # beside the logits, as metrics take them
    has_label: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))


class Exam(Protocol):
    """How models of one task are asked, and what their answers are worth."""

    @property
    def dev(self) -> Dataset: ...

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]: ...

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        """The dev metrics, as Distiller asks for them: `score` or `gauge`."""

    def test(self, model: PreTrainedModel) -> Answers: ...


class TaughtExam(Exam, Protocol):
    """One that students of the same teacher take beside it."""

    @property
    def collator(self) -> Collate: ...

    def beside(self, teacher: Teacher) -> Self:
        """The same, comparing with the teacher. Where dev has no labels, its answers stand for them."""

    def of_teacher(self) -> Answers:
        """What the teacher made of the test split."""


@dataclass(frozen=True)
class TextExam:
    """One answer for each text."""

    task: TaskInfo
    tokenizer: Any
    splits: Mapping[str, Encoded]
    teacher: Teacher = field(default_factory=NoTeacher)

    @property
    def dev(self) -> Encoded:
        return self.splits["dev"]

    @property
    def collator(self) -> Collator:
        return Collator.of(self.tokenizer, self.task)

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return self.collator(rows)

    def beside(self, teacher: Teacher) -> TextExam:
        exam = replace(self, teacher=teacher)
        if self.dev.has_label.any():
            return exam
        said = exam._taught("dev")
        if self.task.kind == "classify":
            labels = said.argmax(-1)
        else:
            labels = (said > 0).astype(np.float32) if self.task.kind == "multilabel" else said[:, 0]
        return replace(exam, splits={**self.splits, "dev": self.dev.with_labels(labels)})

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        return {"score": scorer(self.task)}

    def test(self, model: PreTrainedModel) -> Answers:
        split = self.splits["test"]
        answers = self._judged(predict_split(model, self.tokenizer, self.task, split))
        if isinstance(self.teacher, NoTeacher):
            return answers
        near = fidelity(self.task, answers.logits, self._taught_test, split.labels, split.has_label)
        return replace(answers, fidelity=near)

    def of_teacher(self) -> Answers:
        return self._judged(self._taught_test)

    def _judged(self, logits: np.ndarray) -> Answers:
        split = self.splits["test"]
        scores, per_class = quality(self.task, logits, split.labels, split.has_label)
        return Answers(split.uids, logits, scores, per_class, None, split.labels, split.has_label)

    @cached_property
    def _taught_test(self) -> np.ndarray:
        return self._taught("test")

    def _taught(self, name: str) -> np.ndarray:
        split = self.splits[name]
        asked = batches(split, self.collator, 64)
        return collect(lambda batch: self.teacher.answer(batch).logits, asked, split.uids, self.task.outputs)


@dataclass(frozen=True)
class Outcome:
    """What is kept of a finished cell."""

    result: SeedResult
    logits: np.ndarray  # as in Answers
    dev_score: float  # by which the best seed is chosen, so that the test set stays unseen
    model: Path


def train_cell(cell: Cell, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback] = ()) -> Outcome:
    home = folder / cell.name
    if not (home / "result.json").exists():
        _train(cell, home, watcher, callbacks)
    for leftover in (*home.glob("checkpoints*"), *home.glob("stage-*")):  # also of one killed right before this
        shutil.rmtree(leftover, ignore_errors=True)
    watcher.at(cell.title, 1.0)
    kept = json.loads((home / "result.json").read_text(encoding="utf-8"))
    logits = load_file(home / "test.safetensors")["logits"]
    return Outcome(SeedResult(**kept["result"]), logits, kept["dev_score"], home / "model")


def _train(cell: Cell, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> None:
    set_seed(cell.seed)
    model = cell.build()
    if not cell.task.over_vocabulary:
        name_outputs(model.config, cell.task)
    add_bridges(model, cell.plan.bridges)
    if cell.plan.taps_student:
        install(model)
    past = Past()
    with explained(home), quiet():
        for phase in cell.plan.phases[:-1]:
            past = _pass(cell, phase, model, home, past, watcher, callbacks)
        trainer = _trainer(cell, cell.plan.phases[-1], model, home / "checkpoints", past, watcher, callbacks)
        trainer.train(resume_from_checkpoint=trainer.last_complete_checkpoint())
        _keep(cell, home, trainer, past)


@dataclass(frozen=True)
class Past:
    """What the phases before took, and what they logged."""

    seconds: float = 0.0
    epochs: float = 0.0
    steps: int = 0
    curve: tuple[CurvePoint, ...] = ()


def _pass(
    cell: Cell,
    phase: Phase,
    model: PreTrainedModel,
    home: Path,
    past: Past,
    watcher: Watcher,
    callbacks: Sequence[TrainerCallback],
) -> Past:
    """Trains one phase, or takes what it left behind. Its last file tells that all is there."""
    folder = home / f"stage-{phase.name}"
    done, weights = folder / "done.json", folder / "weights.safetensors"
    if done.exists():
        load_model(model, weights)
    else:
        trainer = _trainer(cell, phase, model, home / f"checkpoints-{phase.name}", past, watcher, callbacks)
        trainer.train(resume_from_checkpoint=trainer.last_complete_checkpoint())
        folder.mkdir(parents=True, exist_ok=True)
        with atomic(weights) as part:
            save_model(trainer.model, str(part))
        curve = [point.model_dump() for point in trainer.curve()]
        took = {"seconds": trainer.seconds, "epochs": trainer.state.epoch, "steps": trainer.state.global_step}
        write_text(done, json.dumps({**took, "curve": curve}))
        shutil.rmtree(home / f"checkpoints-{phase.name}", ignore_errors=True)
    found = json.loads(done.read_text(encoding="utf-8"))
    return Past(
        past.seconds + found["seconds"],
        past.epochs + found["epochs"],
        past.steps + found["steps"],
        (*past.curve, *_later([CurvePoint(**point) for point in found["curve"]], past)),
    )


def _later(curve: Sequence[CurvePoint], past: Past) -> list[CurvePoint]:
    """A phase's log, counted on from the phases before."""
    return [point.but(step=point.step + past.steps, epoch=point.epoch + past.epochs) for point in curve]


def _trainer(
    cell: Cell,
    phase: Phase,
    model: PreTrainedModel,
    folder: Path,
    past: Past,
    watcher: Watcher,
    callbacks: Sequence[TrainerCallback],
) -> Distiller:
    part = (past.epochs / cell.plan.epochs, phase.schedule.epochs / cell.plan.epochs)
    return Distiller(
        model,
        objective=phase.objective,
        teacher=phase.teacher,
        task=cell.task,
        schedule=phase.schedule,
        train=cell.rows(phase),
        dev=cell.exam.dev,
        collate=cell.exam.collate,
        folder=folder,
        seed=cell.seed,
        ask=phase.of_student,
        focus=phase.focus,
        best=phase.watched,
        **(cell.exam.watched() if phase.watched else {}),
        callbacks=[Watch(watcher, cell.title, cell.task.metric, part), *switching(phase.teacher), *callbacks],
    )


def _keep(cell: Cell, home: Path, trainer: Distiller, past: Past) -> None:
    """Model, answers and figures; the result comes last, so that what has one is whole."""
    model, state, seconds = trainer.model.cpu().eval(), trainer.state, past.seconds + trainer.seconds
    drop_bridges(model)
    uninstall(model)
    model.save_pretrained(home / "model")
    cell.tokenizer.save_pretrained(home / "model")
    answers = cell.exam.test(model)
    with atomic(home / "test.safetensors") as part:
        save_file({"uids": answers.uids, "logits": answers.logits}, part)
    seen = (past.epochs + state.epoch) * len(cell.train)
    result = SeedResult(
        seed=cell.seed,
        quality=answers.quality,
        per_class=list(answers.per_class),
        fidelity=answers.fidelity,
        curve=[*past.curve, *_later(trainer.curve(), past)],
        seconds=seconds,
        best_step=past.steps + (state.best_global_step or state.global_step),
        sentences_per_second=seen / seconds,
    )
    dev_score = (state.best_metric or 0.0) * (1 if cell.task.higher_is_better else -1)
    kept = {"result": result.model_dump(), "dev_score": dev_score}
    write_text(home / "result.json", json.dumps(kept))


def predict_split(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TaskInfo,
    split: Encoded,
    on_batch: Callable[[int], None] | None = None,
) -> np.ndarray:
    asked = batches(split, Collator.of(tokenizer, task), 64)
    return predict(model, asked, split.uids, on_batch=on_batch)


def scorer(task: TaskInfo) -> Callable[[EvalPrediction], dict[str, float]]:
    """The dev metrics, as Trainer asks for them."""

    def score(prediction: EvalPrediction) -> dict[str, float]:
        labels, has_label = prediction.label_ids
        return quality(task, prediction.predictions, labels, has_label.astype(bool))[0]

    return score
