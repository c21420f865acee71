"""Records of models that are already there; nothing here imports torch."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limbeck.core.files import portable_command, portable_knobs, portable_texts
from limbeck.core.record import Arm, DataCard, Record, SeedResult
from limbeck.core.task import TaskInfo
from limbeck.engines.onnx import engine_name, exported_facts
from limbeck.measure.machine import machine
from limbeck.measure.size import converted_size, size_of
from limbeck.report.figures import layers
from limbeck.students.sizes import shape_of
from limbeck_runtime import is_exported

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def measured_record(
    kind: str,
    name: str,
    command: str,
    info: TaskInfo,
    card: DataCard,
    arms: Sequence[Arm],
    knobs: Mapping[str, object],
    **more: object,
) -> Record:
    """What every Record says; `more` are its other fields."""
    fields: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "created": now(),
        "command": portable_command(command),
        "machine": machine(),
        "seeds": [],
        "knobs": portable_knobs(knobs),
        "fingerprints": {},
        "task": info,
        "metric": info.metric,
        "data": portable_texts(card.model_dump()),
        "arms": arms,
    }
    return Record(**fields | more)


def model_arm(
    name: str, role: str, source: str, network: PreTrainedModel | None, runs: Sequence[SeedResult] = ()
) -> Arm:
    """Of a saved model or one in hand; one that another engine runs has no network."""
    folder = Path(source)
    if network is None:
        engine = engine_name(exported_facts(folder, check=False)) if is_exported(folder) else "CTranslate2"
        title, size = f"{folder.name}, in {engine}", converted_size(folder)
        return Arm(name=name, title=title, role=role, runs=list(runs), size=size)
    title = f"{folder.name or type(network).__name__}, {describe(network)}"
    size = size_of(network, folder if source and folder.is_dir() else None)
    return Arm(name=name, title=title, role=role, shape=shape_of(network), runs=list(runs), size=size)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def describe(network: PreTrainedModel) -> str:
    shape = shape_of(network)
    return shape.text or f"{layers(shape)} × {shape.hidden}"
