"""Train a model without a teacher, to have one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import DataError, KnobError
from limbeck.core.fingerprint import fingerprint, tokenizer_fingerprint
from limbeck.core.progress import Silent, Watcher
from limbeck.core.task import LANGUAGE_KINDS
from limbeck.jobs.arguments import common_knobs, run_of
from limbeck.jobs.distill import Result
from limbeck.jobs.folder import RECORD_FILE, install, locked
from limbeck.jobs.pipeline import Pipeline, start
from limbeck.jobs.plan import ArmPlan, Start, Training
from limbeck.jobs.record import build_record
from limbeck.jobs.settings import TrainRun
from limbeck.measure.speed import MEASURING
from limbeck.recipes.recipe import MAIN
from limbeck.report import Report
from limbeck.students.sizes import shape_of
from limbeck.tasks.base import GOLD, Model, Setup, Task, task_of
from limbeck.tasks.seq2seq import Translation

FROM_SCRATCH = {"epochs": 20.0}  # a model without pre-trained weights has everything to learn


def train(
    model: str | Path = "",
    data: object = None,
    *,
    out: str | Path = "",
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    task: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    reading: dict[str, Any] | None = None,
    run: TrainRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: Any,
) -> Result:
    """Trains `model`, a folder or a hub id, on `data`; the trained model lies in `out`/model.

    An encoder gets a head for the labels; a language model learns running text; a seq2seq model may start from scratch.
    `train("bert-base-uncased", "reviews.csv", out="runs/teacher", epochs=3)`
    """
    common = common_knobs(locals())
    run = run_of(TrainRun, run, reading, common, knobs)
    named = {"model": str(model)} if model else {}
    if isinstance(data, str | Path):
        named["data"], data = run.data.but(train=str(data)), None  # type: ignore[assignment]
    run = run.but(**named, **({"out": str(out)} if out else {}))
    if not run.out:
        raise KnobError("no folder for the result was given", "name one with --out")
    watcher = watcher or Silent()
    with locked(run.out, resume=resume) as folder:
        run, arm, setup = _plan(run, data, watcher)
        finished = Pipeline(folder, watcher, callbacks, command or " ".join(sys.argv)).train(run, arm, setup)
        (result,) = finished.results[arm.name]
        install(result.model, folder / "model")
        trained = setup.task.load(str(folder / "model"))
        record = build_record(finished, watcher)
        record = record.but(fingerprints={"model": fingerprint(trained.network), **record.fingerprints})
        record.save(folder / RECORD_FILE)
        report = Report((record,))
        report.save(folder / "report.html")
        watcher.at(MEASURING, 1.0)
        return Result(trained.network, trained.processor, record, report, folder)


def _plan(run: TrainRun, data: object, watcher: Watcher) -> tuple[TrainRun, ArmPlan, Setup]:
    start(run)
    found = task_of(run, run.model)
    if run.data.task == "auto" and found.info.kind in LANGUAGE_KINDS:
        found = task_of(run, None)  # encoders are published with such a head, to be fine-tuned on labels
    if isinstance(found, Translation) and not run.model:  # as far as nobody set the schedule
        run = run.but(train={**FROM_SCRATCH, **run.train.model_dump(exclude_unset=True)})
    elif not run.model:
        raise KnobError("no model was given", "name one with --model: a folder or a hub id")
    found = replace(found, knobs=run)
    splits = found.read(data, None, watcher)
    found = found.settled(splits)
    model, build = _model(found, run, splits, watcher)
    encoded = found.encode_for_training(splits, model, watcher)
    if not encoded.has_gold:
        raise DataError(f"{encoded.card.source} has no labels to learn from", "give labelled rows")
    found = replace(found, info=encoded.info)
    run = run.spelled_out(found.info.kind)
    run = run.but(train=run.train.at_width(shape_of(model.network).hidden, found.info))
    prints = {"tokenizer": tokenizer_fingerprint(model.processor), **encoded.fingerprints}
    setup = Setup(found, None, splits, encoded, prints)
    step = Training(MAIN, found.supervised(), run.train, GOLD)
    origin = f"The model starts from {run.model}." if run.model else "The model starts from random weights."
    return (
        run,
        ArmPlan(
            "model",
            run,
            Start(model.network, origin, build),
            (step,),
            encoded,
            title="training",
            processor=model.processor,
        ),
        setup,
    )


def _model(task: Task, run: TrainRun, splits: Any, watcher: Watcher) -> tuple[Model, Any]:
    """The model to train, and how another of it is made for a seed."""
    if isinstance(task, Translation):
        model, notes = task.model_to_train(run.model, splits)
        for note in notes:
            watcher.say(note)
        if not run.model:
            return model, lambda: task.new_network(model.processor)
    else:
        model = task.load(run.model, new_head=True)

    def build() -> PreTrainedModel:
        return task.load(run.model, new_head=True).network

    return model, build
