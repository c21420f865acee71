"""What the jobs share: what a person gets, where students start, what stages cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from limbeck.core.record import Record
from limbeck.measure.settings import MeasureSettings
from limbeck.report import Report
from limbeck.students.open import shape_of
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


def blueprint(shape: Shrink, teacher: PreTrainedModel) -> Shrink:
    """The shape asked for; with nothing asked, half the layers."""
    if shape.but(keep="spread", family="auto") != Shrink() or shape.keep not in ("spread", "first", "last"):
        return shape
    return shape.but(layers=max(shape_of(teacher).layers // 2, 1))


def timing_cost(settings: MeasureSettings, models: int) -> float:
    """A process that times a model takes its seconds to start: about what 2,000 rows of MiniLM-L6 take."""
    return models * settings.repeats * 2e10 if settings.speed else 0.0


def passed(network: PreTrainedModel) -> float:
    embedded = sum(p.numel() for m in network.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters())
    return sum(p.numel() for p in network.parameters()) - embedded
