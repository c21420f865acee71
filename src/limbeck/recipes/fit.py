"""Fine-tune an encoder on labels, to have a teacher."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainerCallback

from limbeck.core.errors import KnobError
from limbeck.core.progress import Silent, Stage, Watcher
from limbeck.core.record import Arm, Citation, Record
from limbeck.core.teacher import NoTeacher
from limbeck.data.corpus import Corpus, load
from limbeck.measure.machine import machine
from limbeck.measure.size import size_of
from limbeck.objectives import Labels
from limbeck.objectives.papers import DEVLIN_2019
from limbeck.recipes.cell import Cell, Outcome, train_cell
from limbeck.recipes.distill import MEASURING, Result, passed, timing_cost
from limbeck.recipes.folder import RECORD_FILE, agree, claimed, put
from limbeck.recipes.prepare import data_fingerprint, encode_splits, labels_fingerprint
from limbeck.recipes.run import TrainRun
from limbeck.recipes.tell import describe, measure_speed, now, texts_of
from limbeck.report import Report
from limbeck.students.open import fingerprint, open_classifier, open_encoder, shape_of, tokenizer_fingerprint
from limbeck.train.trainer import check_loggers

FITTING = "fine-tuning"


def fit(
    run: TrainRun,
    *,
    data: object = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
) -> Result:
    """Trains `run.model` on the labels of `run.data`; the model folder is `out/model`."""
    if not run.model:
        raise KnobError("no model was given", "name an encoder with --model: a folder or a hub id")
    if not run.out:
        raise KnobError("no place for the result was given", "name a folder with --out")
    with claimed(run.out, resume=resume) as folder:
        return _fit(run, folder, data, callbacks, watcher or Silent(), command or " ".join(sys.argv))


def _fit(
    run: TrainRun, folder: Path, data: object, callbacks: Sequence[TrainerCallback], watcher: Watcher, command: str
) -> Result:
    if run.train.threads:
        torch.set_num_threads(run.train.threads)
    check_loggers(run.train)
    corpus = load(run.data, data, watcher)
    network, tokenizer = open_encoder(run.model, corpus.task, run.trust_remote_code)
    run = run.but(train=run.train.at_width(shape_of(network).hidden))
    prints = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "data": data_fingerprint(corpus, run.data.max_length),
        "labels": labels_fingerprint(corpus),
    }
    agree(folder, run, prints)
    splits = encode_splits(corpus, tokenizer, run.data.max_length)
    passes = 3 * run.train.epochs * len(corpus.train) * passed(network)
    watcher.plan([Stage(FITTING, passes), Stage(MEASURING, timing_cost(run.measure, models=1))])
    cell = Cell(
        name=f"model-seed{run.seed}",
        title=FITTING,
        seed=run.seed,
        build=lambda: open_encoder(run.model, corpus.task, run.trust_remote_code)[0],
        tokenizer=tokenizer,
        task=corpus.task,
        objective=1.0 * Labels(),
        teacher=NoTeacher(),
        schedule=run.train,
        splits=splits,
    )
    outcome = train_cell(cell, folder / "arms", watcher, callbacks)
    place = folder / "model"
    put(outcome.model, place)
    network, tokenizer = open_classifier(place)
    record = Record(
        kind="train",
        name=folder.name,
        created=now(),
        command=command,
        machine=machine(),
        seeds=[run.seed],
        knobs=run.model_dump(),
        fingerprints={"model": fingerprint(network), **prints},
        task=corpus.task,
        metric=corpus.task.metric,
        data=corpus.card.but(truncated=sum(split.truncated for split in splits.values())),
        arms=[_arm(run, network, place, outcome, corpus, watcher)],
        seconds={FITTING: outcome.result.seconds},
        citations=[Citation(text=str(DEVLIN_2019), bibtex=DEVLIN_2019.bibtex())],
    )
    record.save(folder / RECORD_FILE)
    report = Report((record,))
    report.save(folder / "report.html")
    if run.measure.speed:
        watcher.at(MEASURING, 1.0)
    return Result(network, tokenizer, record, report, folder)


def _arm(
    run: TrainRun, network: PreTrainedModel, place: Path, outcome: Outcome, corpus: Corpus, watcher: Watcher
) -> Arm:
    """The trained model with its size and, if asked for, its speed."""
    texts, longest = texts_of(corpus.test), run.data.max_length
    timed = run.measure.speed
    speeds = measure_speed({"model": place}, texts, run.measure, longest, watcher, MEASURING) if timed else {}
    return Arm(
        name="model",
        title=f"{describe(network)}, fine-tuned",
        role="model",
        objective="1 * Labels()",
        shape=shape_of(network),
        runs=[outcome.result],
        size=size_of(network, place),
        speed=speeds.get("model"),
    )
