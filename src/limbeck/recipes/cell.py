"""One model, one seed: built, trained, asked about the test set, and kept. A finished cell is never trained again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors.numpy import load_file, save_file
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.files import atomic, explained, write_text
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import ClassScore, Fidelity, SeedResult
from limbeck.core.task import Task
from limbeck.core.teacher import Teacher
from limbeck.data.encode import Collator, Encoded, batches
from limbeck.data.tokens import Tokens
from limbeck.measure.predict import predict
from limbeck.measure.quality import quality
from limbeck.students.open import name_outputs, quiet
from limbeck.train.schedule import Schedule
from limbeck.train.trainer import Distiller, Watch


@dataclass(frozen=True)
class Cell:
    """What is trained, on what, and towards what."""

    name: str  # "distilled-seed0": also the folder
    title: str  # "student with teacher, seed 0": also the stage
    seed: int
    build: Callable[[], PreTrainedModel]
    tokenizer: Any
    task: Task
    objective: Objective
    teacher: Teacher
    schedule: Schedule
    train: Encoded | Tokens
    exam: Exam


@dataclass(frozen=True)
class Answers:
    """What a trained model made of the test split."""

    uids: np.ndarray
    logits: np.ndarray  # [test rows, outputs]; of a language model, sums per block
    quality: dict[str, float]
    per_class: Sequence[ClassScore] = ()
    fidelity: Fidelity | None = None


class Exam(Protocol):
    """How models of one task are asked, and what their answers are worth."""

    @property
    def dev(self) -> Encoded | Tokens: ...

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]: ...

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        """The dev metrics, as Distiller asks for them: `score` or `gauge`."""

    def test(self, model: PreTrainedModel) -> Answers: ...


@dataclass(frozen=True)
class TextExam:
    """One answer for each text."""

    task: Task
    tokenizer: Any
    splits: dict[str, Encoded]

    @property
    def dev(self) -> Encoded:
        return self.splits["dev"]

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        return Collator(self.tokenizer, self.task)(rows)

    def watched(self) -> dict[str, Callable[[Any], dict[str, float]]]:
        return {"score": scorer(self.task)}

    def test(self, model: PreTrainedModel) -> Answers:
        split = self.splits["test"]
        logits = predict_split(model, self.tokenizer, self.task, split)
        return Answers(split.examples.uids, logits, *score_split(self.task, logits, split))


@dataclass(frozen=True)
class Outcome:
    """What is kept of a finished cell."""

    result: SeedResult
    logits: np.ndarray  # [test rows, outputs]; of a language model, sums per block
    dev_score: float  # by which the best seed is chosen, so that the test set stays unseen
    model: Path


def train_cell(cell: Cell, folder: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback] = ()) -> Outcome:
    home = folder / cell.name
    if not (home / "result.json").exists():
        _train(cell, home, watcher, callbacks)
    watcher.at(cell.title, 1.0)
    kept = json.loads((home / "result.json").read_text(encoding="utf-8"))
    logits = load_file(home / "test.safetensors")["logits"]
    return Outcome(SeedResult(**kept["result"]), logits, kept["dev_score"], home / "model")


def _train(cell: Cell, home: Path, watcher: Watcher, callbacks: Sequence[TrainerCallback]) -> None:
    set_seed(cell.seed)
    model = cell.build()
    if not cell.task.of_tokens:
        name_outputs(model.config, cell.task)
    trainer = Distiller(
        model,
        objective=cell.objective,
        teacher=cell.teacher,
        task=cell.task,
        schedule=cell.schedule,
        train=cell.train,
        dev=cell.exam.dev,
        collate=cell.exam.collate,
        folder=home / "checkpoints",
        seed=cell.seed,
        **cell.exam.watched(),
        callbacks=[Watch(watcher, cell.title, cell.task.metric), *callbacks],
    )
    with explained(home), quiet():
        trainer.train(resume_from_checkpoint=trainer.last_complete_checkpoint())
        _keep(cell, home, trainer, seconds=trainer.seconds)
        shutil.rmtree(home / "checkpoints", ignore_errors=True)


def _keep(cell: Cell, home: Path, trainer: Distiller, seconds: float) -> None:
    """Model, answers and figures; the result comes last, so that what has one is whole."""
    model, state = trainer.model.cpu().eval(), trainer.state
    model.save_pretrained(home / "model")
    cell.tokenizer.save_pretrained(home / "model")
    answers = cell.exam.test(model)
    with atomic(home / "test.safetensors") as part:
        save_file({"uids": answers.uids, "logits": answers.logits}, part)
    seen = state.epoch * len(cell.train)
    result = SeedResult(
        seed=cell.seed,
        quality=answers.quality,
        per_class=list(answers.per_class),
        fidelity=answers.fidelity,
        curve=trainer.curve(),
        seconds=seconds,
        best_step=state.best_global_step or state.global_step,
        sentences_per_second=seen / seconds,
    )
    dev_score = (state.best_metric or 0.0) * (1 if cell.task.higher_is_better else -1)
    kept = {"result": result.model_dump(), "dev_score": dev_score}
    write_text(home / "result.json", json.dumps(kept))


def predict_split(
    model: PreTrainedModel, tokenizer: Any, task: Task, split: Encoded, on_batch: Callable[[int], None] | None = None
) -> np.ndarray:
    asked = batches(split, Collator(tokenizer, task), 64)
    return predict(model, asked, split.examples.uids, on_batch=on_batch)


def score_split(task: Task, logits: np.ndarray, split: Encoded) -> tuple[dict[str, float], list[Any]]:
    return quality(task, logits, split.examples.labels, split.examples.labelled)


def scorer(task: Task) -> Callable[[EvalPrediction], dict[str, float]]:
    """The dev metrics, as Trainer asks for them."""

    def score(prediction: EvalPrediction) -> dict[str, float]:
        labels, labelled = prediction.label_ids
        return quality(task, prediction.predictions, labels, labelled.astype(bool))[0]

    return score
