"""Limbeck makes big transformers small, and proves what was kept.

import limbeck
from limbeck import Labels, Shrink, SoftTargets

result = limbeck.distill(
    teacher="my-classifier", data="reviews.csv", student=Shrink(layers=3),
    objective=0.5 * Labels() + 0.5 * SoftTargets(temperature=4),
)
result.save("small")
result.report.save("report.html")
"""

from __future__ import annotations

from functools import cache as _cache
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

# The front door. Type checkers and editors read these imports; at run time each is made when its name is first used, so
# that `import limbeck` and `limbeck --help` load no torch. Objectives are not listed: they come from their registry.
if TYPE_CHECKING:
    from limbeck.core.card import Paper as Paper
    from limbeck.core.card import method as method
    from limbeck.core.compress import Calibration as Calibration
    from limbeck.core.compress import Mask as Mask
    from limbeck.core.compress import Pass as Pass
    from limbeck.core.errors import LimbeckError as LimbeckError
    from limbeck.core.knob import knob as knob
    from limbeck.core.objective import Mean as Mean
    from limbeck.core.objective import Objective as Objective
    from limbeck.core.objective import Terms as Terms
    from limbeck.core.objective import TokenObjective as TokenObjective
    from limbeck.core.plugins import load_plugins as load_plugins
    from limbeck.core.record import Record as Record
    from limbeck.core.ticket import Ticket as Ticket
    from limbeck.core.trace import Batch as Batch
    from limbeck.core.trace import Chunk as Chunk
    from limbeck.core.trace import Trace as Trace
    from limbeck.core.trace import Want as Want
    from limbeck.jobs.bench import bench as bench
    from limbeck.jobs.cache import cache as cache
    from limbeck.jobs.compare import compare as compare
    from limbeck.jobs.compare_settings import CompareRun as CompareRun
    from limbeck.jobs.compress import compress as compress
    from limbeck.jobs.distill import distill as distill
    from limbeck.jobs.evaluate import evaluate as evaluate
    from limbeck.jobs.export import export as export
    from limbeck.jobs.predict import predict as predict
    from limbeck.jobs.result import Result as Result
    from limbeck.jobs.settings import CacheRun as CacheRun
    from limbeck.jobs.settings import Run as Run
    from limbeck.jobs.settings import TrainRun as TrainRun
    from limbeck.jobs.ticket_settings import TicketRun as TicketRun
    from limbeck.jobs.tickets import find_ticket as find_ticket
    from limbeck.jobs.train import train as train
    from limbeck.measure.quality import significance as significance
    from limbeck.objectives.loss import loss as loss
    from limbeck.passes.lowrank import LowRank as LowRank
    from limbeck.passes.magnitude import Magnitude as Magnitude
    from limbeck.passes.quantize import Quantize as Quantize
    from limbeck.passes.ticket import UseTicket as UseTicket
    from limbeck.passes.vocabulary import Vocabulary as Vocabulary
    from limbeck.recipes.recipe import Recipe as Recipe
    from limbeck.recipes.recipe import recipe as recipe
    from limbeck.report import Report as Report
    from limbeck.students.families import register as register
    from limbeck.students.load import load as load
    from limbeck.students.shrink import Shrink as Shrink
    from limbeck.students.shrink import shrink as shrink
    from limbeck.tasks.base import Model as Model
    from limbeck.teachers.teacher_cache import TeacherCache as TeacherCache
    from limbeck.training.callbacks import HoldMask as HoldMask
    from limbeck.training.distillation_trainer import DistillationTrainer as DistillationTrainer
    from limbeck.training.trainer_loss import trainer_loss as trainer_loss

__version__ = "0.1.0"


@_cache
def _homes() -> dict[str, str]:
    """Name → module, read from the imports above."""
    import ast
    from pkgutil import get_data

    body = ast.parse(get_data(__name__, "__init__.py") or b"").body
    block = next(node.body for node in body if isinstance(node, ast.If))
    return {each.name: str(node.module) for node in block if isinstance(node, ast.ImportFrom) for each in node.names}


def __getattr__(name: str) -> Any:
    if name in _homes():
        return getattr(_import_module(_homes()[name]), name)
    if name == "__all__":
        return [public for public in __dir__() if not public.startswith("_")]
    if name[:1].isupper():
        return getattr(_import_module("limbeck.objectives"), name)
    raise AttributeError(f"module 'limbeck' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_homes(), *dir(_import_module("limbeck.objectives")), "__version__"])
