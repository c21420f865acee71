"""Where a student starts: cut from its teacher or from another model, as a model is, or from random weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from transformers import PreTrainedModel

from limbeck.core.compress import NO_CALIBRATION, Calibration
from limbeck.core.files import portable
from limbeck.data.batches import Split, batches
from limbeck.students.families import is_family
from limbeck.students.inherit import reinit
from limbeck.students.shrink import Shrink
from limbeck.students.sizes import strided
from limbeck.tasks.base import ALL, EncodedData, Model, Setup, Task

FRESH = "fresh weights"
CALIBRATION_ROWS, CALIBRATION_BATCH = 4096, 32


@dataclass(frozen=True)
class Start:
    """Where the student of every seed starts. It does not hold on to the teacher."""

    network: PreTrainedModel
    origin: str  # a sentence for the report
    words: str  # the same in few words, for a table: "layers 0, 3 of the teacher"
    build: Callable[[], PreTrainedModel]  # a fresh one; weights that are not inherited come from torch's seed
    layers: Sequence[int] = ()  # of the teacher: the layer that each one starts from, counted from 0


def start_of(shape: Shrink, task: Task, setup: Setup, given: Model | None, owner: Model) -> Start:
    """`given` is a model to start from, if there is one; `owner` the model whose weights a student inherits."""
    if given is None and (setup.teacher is None or task.new_students):  # the shape alone is looked at here
        with torch.random.fork_rng(devices=[]):
            network = task.new_network(owner.processor)
        origin = "The student starts from random weights."
        return Start(network, origin, FRESH, partial(task.new_network, owner.processor))

    def reload() -> PreTrainedModel:
        return task.load(owner.source, new_head=True).network

    name = given.source or "the given model" if given else "the teacher"
    if given is not None and is_unchanged(shape, given.network):
        build = reload if given.source else partial(copy.deepcopy, given.network)
        return Start(given.network, f"The student starts from {name}.", portable(name), build)
    pairs = setup.data.pairs
    rows = calibration_rows(shape, setup.data)
    network, inheritance = shape.build(owner.network, owner.processor, pairs, rows)
    origin = f"From {name}. {inheritance.sentence()}" if given else inheritance.sentence()
    words = inheritance.words(portable(name))
    if given is None or not given.source:
        layers = () if given else inheritance.layers
        return Start(network, origin, words, partial(reinit, network, inheritance.fresh), layers)

    def shrunk() -> PreTrainedModel:
        return shape.build(reload(), owner.processor, pairs, rows)[0]

    return Start(network, origin, words, shrunk)


def calibration_rows(shape: Shrink, data: EncodedData) -> Calibration:
    """Training rows for a student that is cut by what they show; none where they are not known yet, or not needed."""
    if data.info.over_vocabulary or not shape.looks_at_rows:
        return NO_CALIBRATION
    rows = cast(Split, data.train(ALL))
    chosen = rows.take(strided(len(rows), min(CALIBRATION_ROWS, len(rows))))
    return Calibration(list(batches(chosen, data.evaluator.collate, CALIBRATION_BATCH)))


def is_unchanged(shape: Shrink, network: PreTrainedModel) -> bool:
    """Whether a model stays as it is. To keep the first or last layers changes nothing where all are kept."""
    keep = "spread" if shape.keep in ("first", "last") else shape.keep
    family = "same" if is_family(network.config.model_type, shape.family) else shape.family
    return shape.but(keep=keep, family=family) == Shrink(family="same")
