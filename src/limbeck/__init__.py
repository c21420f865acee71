"""Limbeck makes big transformers small, and proves what was kept.

import limbeck
from limbeck import Labels, Shrink, SoftTargets

result = limbeck.distill(
    teacher="my-classifier", data="reviews.csv", student=Shrink(layers=3),
    objective=0.5 * Labels() + 0.5 * SoftTargets(temperature=4),
)
result.student.save_pretrained("small")
result.report.save("report.html")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limbeck.core.compress import Mask
    from limbeck.core.errors import LimbeckError
    from limbeck.core.record import Record
    from limbeck.jobs.bench import bench
    from limbeck.jobs.cache import cache
    from limbeck.jobs.compare import Compared, compare
    from limbeck.jobs.comparison import CompareRun
    from limbeck.jobs.distill import Result, distill
    from limbeck.jobs.evaluate import evaluate
    from limbeck.jobs.settings import CacheRun, Run, TrainRun
    from limbeck.jobs.train import train
    from limbeck.objectives import (
        CKA,
        PKD,
        ConfusingAnswers,
        Cosine,
        GeneralisedJSD,
        Labels,
        LanguageModeling,
        LogitRegression,
        MiniLM,
        MiniLMv2,
        MobileBERTTransfer,
        NextSentence,
        SampledTargets,
        SoftTargets,
        TinyBERT,
        Truncated,
        WordKD,
    )
    from limbeck.passes.magnitude import Magnitude
    from limbeck.report import Report
    from limbeck.students.families import register
    from limbeck.students.shrink import Shrink, shrink
    from limbeck.tasks.base import Model

__version__ = "0.1.0"

# Loaded on first use: `import limbeck` and `limbeck --help` load no torch.
_HOMES = {
    "Magnitude": "passes.magnitude",
    "Mask": "core.compress",
    "bench": "jobs.bench",
    "evaluate": "jobs.evaluate",
    "CKA": "objectives",
    "CacheRun": "jobs.settings",
    "CompareRun": "jobs.comparison",
    "Compared": "jobs.compare",
    "ConfusingAnswers": "objectives",
    "Cosine": "objectives",
    "SampledTargets": "objectives",
    "GeneralisedJSD": "objectives",
    "Labels": "objectives",
    "LanguageModeling": "objectives",
    "LimbeckError": "core.errors",
    "LogitRegression": "objectives",
    "MiniLM": "objectives",
    "MiniLMv2": "objectives",
    "Model": "tasks.base",
    "NextSentence": "objectives",
    "PKD": "objectives",
    "Record": "core.record",
    "Report": "report",
    "Result": "jobs.distill",
    "Run": "jobs.settings",
    "Shrink": "students.shrink",
    "SoftTargets": "objectives",
    "TinyBERT": "objectives",
    "TrainRun": "jobs.settings",
    "MobileBERTTransfer": "objectives",
    "Truncated": "objectives",
    "WordKD": "objectives",
    "cache": "jobs.cache",
    "compare": "jobs.compare",
    "distill": "jobs.distill",
    "train": "jobs.train",
    "register": "students.families",
    "shrink": "students.shrink",
}
__all__ = [
    "CKA",
    "PKD",
    "CacheRun",
    "CompareRun",
    "Compared",
    "ConfusingAnswers",
    "Cosine",
    "GeneralisedJSD",
    "Labels",
    "LanguageModeling",
    "LimbeckError",
    "LogitRegression",
    "Magnitude",
    "Mask",
    "MiniLM",
    "MiniLMv2",
    "MobileBERTTransfer",
    "Model",
    "NextSentence",
    "Record",
    "Report",
    "Result",
    "Run",
    "SampledTargets",
    "Shrink",
    "SoftTargets",
    "TinyBERT",
    "TrainRun",
    "Truncated",
    "WordKD",
    "bench",
    "cache",
    "compare",
    "distill",
    "evaluate",
    "register",
    "shrink",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'limbeck' has no attribute {name!r}")
    return getattr(import_module(f"limbeck.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
