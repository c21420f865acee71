"""A chain of passes: the model behind each is tested, saved and told as an Artifact; and its shape, to resume from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from limbeck.core.compress import Change
from limbeck.core.compressed import declare_layers
from limbeck.core.errors import DataError
from limbeck.core.files import write_text
from limbeck.core.layers import layers_of, rebuild
from limbeck.core.record import Artifact, Comparison
from limbeck.core.tap import uninstall
from limbeck.core.task import TaskInfo
from limbeck.jobs.plan import ArmPlan, PlannedStep, Training, Trial
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.quality import compare
from limbeck.recipes.recipe import Apply
from limbeck.students.model_folder import read_tokenizer

START, RECOVERY = "start", "recovery"  # steps of a chain that are no pass
SHAPE_FILE = "shape.json"
_OF_LAYERS = ("model_type", "compressed_layers")  # what a config says of them


def save_shape(model: PreTrainedModel, processor: Any, folder: Path) -> None:
    """All of a model but its weights, which passes may have given other shapes; and its tokenizer."""
    generation = getattr(model, "generation_config", None)
    shape = {
        "config": {key: value for key, value in model.config.to_dict().items() if key not in _OF_LAYERS},
        "generation": generation.to_dict() if generation else None,
        "layers": layers_of(model),
    }
    write_text(folder / SHAPE_FILE, json.dumps(shape, default=str))
    processor.save_pretrained(folder)


def read_shape(like: PreTrainedModel, folder: Path, trusted: bool) -> tuple[PreTrainedModel, Any]:
    """A model of the architecture of `like` in that shape, with weights to be loaded; and the tokenizer."""
    shape = json.loads((folder / SHAPE_FILE).read_text(encoding="utf-8"))
    attention = uninstall(like).config._attn_implementation
    ordinary: Any = getattr(type(like), "ordinary", type(like))  # without the layers that passes make
    with torch.random.fork_rng(devices=[]):
        model: PreTrainedModel = ordinary(ordinary.config_class.from_dict(shape["config"]))
    rebuild(model, shape["layers"])
    declare_layers(model)
    model.set_attn_implementation(attention)
    if shape["generation"] is not None:
        model.generation_config = type(like.generation_config).from_dict(shape["generation"])
    return model, read_tokenizer(folder, trusted, model)


def make_artifact(
    trial: Trial, number: int, name: str, change: Change, found: Evaluation, before: tuple[str, Evaluation] | None
) -> Artifact:
    """What a test found of the model behind a step; `before` is the one that the step began with, and its name."""
    arm = trial.arm
    fidelity = {} if found.fidelity is None else found.fidelity.model_dump(include={"agreement", "divergence"})
    return Artifact(
        name=name,
        arm=arm.name,
        seed=trial.seed,
        engine="torch",
        precision=_precision(arm, number),
        path="",
        note=change.note,
        figures={**{key: value for key, value in fidelity.items() if value is not None}, **change.figures},
        quality=found.scores,
        comparison=compared(arm.data.info, name, found, before, arm.run.measure.bootstrap) if before else None,
    )


def label_of(step: PlannedStep, arm: ArmPlan) -> str:
    """What a step is called in a chain."""
    if isinstance(step, Apply):
        return step.compress.name
    assert isinstance(step, Training)
    return RECOVERY if arm.run.kind == "compress" else step.name


def _precision(arm: ArmPlan, number: int) -> str:
    applied = [step.compress.precision for step in arm.steps[: number + 1] if isinstance(step, Apply)]
    return next(filter(None, reversed(applied)), "float32")


def compared(
    info: TaskInfo, name: str, found: Evaluation, before: tuple[str, Evaluation], rounds: int
) -> Comparison | None:
    """On the rows that both answer; blocks of text in other tokens are other rows."""
    than, old = before
    if not np.array_equal(old.uids, found.uids) or old.statistics.shape != found.statistics.shape:
        return None
    labels, has_label = found.labels, found.has_label
    if not len(has_label):
        labels = has_label = np.ones(len(found.statistics), dtype=bool)
    statistics = [found.statistics], [old.statistics]
    try:
        return compare(info, info.metric, name, than, *statistics, labels, has_label, rounds=rounds)
    except DataError:  # nothing that both have to compute it from
        return None
