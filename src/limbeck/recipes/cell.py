"""One model, one seed: built, trained, asked about the test set, and kept. A finished cell is never trained again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from transformers import EvalPrediction, PreTrainedModel, TrainerCallback, set_seed

from limbeck.core.files import atomic, explained, write_text
from limbeck.core.objective import Objective
from limbeck.core.progress import Watcher
from limbeck.core.record import SeedResult
from limbeck.core.task import Task
from limbeck.core.teacher import Teacher
from limbeck.data.encode import Collator, Encoded, batches
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
    splits: dict[str, Encoded]


@dataclass(frozen=True)
class Outcome:
    """What is kept of a finished cell."""

    result: SeedResult
    logits: np.ndarray  # [test rows, outputs]
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
    name_outputs(model.config, cell.task)
    trainer = Distiller(
        model,
        objective=cell.objective,
        teacher=cell.teacher,
        task=cell.task,
        schedule=cell.schedule,
        train=cell.splits["train"],
        dev=cell.splits["dev"],
        tokenizer=cell.tokenizer,
        folder=home / "checkpoints",
        seed=cell.seed,
        score=scorer(cell.task),
        callbacks=[Watch(watcher, cell.title, cell.task.metric), *callbacks],
    )
    with explained(home), quiet():
        trainer.train(resume_from_checkpoint=trainer.last_complete_checkpoint())
        _keep(cell, home, trainer, seconds=trainer.seconds)
        shutil.rmtree(home / "checkpoints", ignore_errors=True)


def _keep(cell: Cell, home: Path, trainer: Distiller, seconds: float) -> None:
    """Model, answers and figures; the result comes last, so that what has one is whole."""
    model, test, state = trainer.model.cpu().eval(), cell.splits["test"], trainer.state
    model.save_pretrained(home / "model")
    cell.tokenizer.save_pretrained(home / "model")
    logits = predict_split(model, cell.tokenizer, cell.task, test)
    with atomic(home / "test.safetensors") as part:
        save_file({"uids": test.examples.uids, "logits": logits}, part)
    scores, per_class = score_split(cell.task, logits, test)
    seen = state.epoch * len(cell.splits["train"])
    result = SeedResult(
        seed=cell.seed,
        quality=scores,
        per_class=per_class,
        curve=trainer.curve(),
        seconds=seconds,
        best_step=state.best_global_step or state.global_step,
        sentences_per_second=seen / seconds,
    )
    kept = {"result": result.model_dump(), "dev_score": state.best_metric or 0.0}
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
