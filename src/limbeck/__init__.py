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
    from limbeck.core.errors import LimbeckError
    from limbeck.core.record import Record
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
    from limbeck.recipes.cache import cache
    from limbeck.recipes.compare import Compared, compare
    from limbeck.recipes.compare_run import CompareRun
    from limbeck.recipes.distill import distill
    from limbeck.recipes.fit import fit
    from limbeck.recipes.job import Result
    from limbeck.recipes.prepare import Model
    from limbeck.recipes.run import CacheRun, Run, TrainRun
    from limbeck.report import Report
    from limbeck.students.families import register
    from limbeck.students.shrink import Shrink, shrink

__version__ = "0.1.0"

# Loaded on first use: `import limbeck` and `limbeck --help` load no torch.
_HOMES = {
    "CKA": "objectives",
    "CacheRun": "recipes.run",
    "CompareRun": "recipes.compare_run",
    "Compared": "recipes.compare",
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
    "Model": "recipes.prepare",
    "NextSentence": "objectives",
    "PKD": "objectives",
    "Record": "core.record",
    "Report": "report",
    "Result": "recipes.job",
    "Run": "recipes.run",
    "Shrink": "students.shrink",
    "SoftTargets": "objectives",
    "TinyBERT": "objectives",
    "TrainRun": "recipes.run",
    "MobileBERTTransfer": "objectives",
    "Truncated": "objectives",
    "WordKD": "objectives",
    "cache": "recipes.cache",
    "compare": "recipes.compare",
    "distill": "recipes.distill",
    "fit": "recipes.fit",
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
    "cache",
    "compare",
    "distill",
    "fit",
    "register",
    "shrink",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'limbeck' has no attribute {name!r}")
    return getattr(import_module(f"limbeck.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
