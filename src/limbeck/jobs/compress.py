"""Compression: one pass after another, of a model in hand, or as a run that measures what each bought and cost."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from torch import nn
from transformers import TrainerCallback

from limbeck.core.compress import NO_CALIBRATION, Calibration, Mask, Pass
from limbeck.core.errors import KnobError
from limbeck.core.progress import Silent, Watcher
from limbeck.jobs import pipeline
from limbeck.jobs.arguments import AnyModel, Arguments, documented, parse_arguments
from limbeck.jobs.compress_settings import NONE, SELF, CompressRun
from limbeck.jobs.exporting import record_with_exports
from limbeck.jobs.folder import locked, publish
from limbeck.jobs.result import Result, make_result
from limbeck.jobs.settings import Options, check_names
from limbeck.measure.speed import MEASURING
from limbeck.report import Report
from limbeck.students.families import has_layers
from limbeck.students.model_folder import find_folder
from limbeck.tasks.base import Model

M = TypeVar("M", bound=nn.Module)
COMPRESSED = "compressed"  # the arm
_SIZES = ("model_type", "num_hidden_layers", "n_layers", "hidden_size", "dim", "embedding_size")  # of a config


@overload
def compress(model: M, passes: Sequence[Pass], calibration: Calibration = NO_CALIBRATION) -> M: ...
@overload
def compress(
    model: AnyModel = "",
    passes: str | Sequence[Pass] = "",
    *,
    data: object = None,
    run: CompressRun | None = None,
    **knobs: Any,
) -> Result: ...
@documented(CompressRun)
def compress(
    model: Any = "",
    passes: str | Sequence[Pass] = "",
    calibration: Calibration = NO_CALIBRATION,
    *,
    data: object = None,
    teacher: AnyModel = "",
    out: str | Path = "",
    epochs: float | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    max_steps: int | None = None,
    seed: int | None = None,
    task: str | None = None,
    metric: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    device: str | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: CompressRun | None = None,
    resume: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> nn.Module | Result:
    """A smaller copy of a model in hand, after each of the passes in turn; or, with `data`, a run that measures them.

    Of a model in hand some passes look at rows (`calibration`). Weights that are 0 are pruned already: they stay 0 and
    count as gone. To train the copy and keep it sparse, hold `Mask.of(small)` with the callback `HoldMask`.

    With `data` every pass is measured before and after, on texts that no pass saw:
    `compress("my-classifier", "vocabulary,lowrank,quantize", data="reviews.csv", teacher="self", out="runs/small")`.
    A `teacher` (a folder, a hub id, a model, or "self": the untouched model) mends what passes cost by distillation.
    The knobs of a pass stand in a table of its name, as in `lowrank={"energy": 0.9}`, or are those of a Pass itself:
    `[LowRank(energy=0.9)]`. The result's `student` is the last model; it lies in `out`/model.

    Example:

        import limbeck
        from torch import nn

        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
        small = limbeck.compress(model, [limbeck.Magnitude(0.5)])
        assert limbeck.Mask.of(small).remaining == 40
        assert limbeck.Mask.of(model).remaining == 80
    """
    if data is None and run is None and isinstance(model, nn.Module):
        return _in_hand(model, passes, calibration)
    words, tables = _in_words(passes)
    student, layers = None, None
    named = {"passes": words, "teacher": str(teacher) if isinstance(teacher, str | Path) else ""}
    if isinstance(model, str | Path):
        named["model"] = str(model)
    else:
        student, named["recover"] = model, "auto" if teacher else NONE
        teacher = model if teacher in ("", SELF) else teacher
    knobs = {**tables, **{name: value for name, value in named.items() if value}, **knobs}
    arguments = parse_arguments(CompressRun, locals())
    arguments = replace(arguments, run=_with_hidden(arguments))
    check_names(arguments.run)
    watcher = watcher or Silent()
    with locked(arguments.run.out, resume=resume) as folder:
        finished = pipeline.run(arguments, {COMPRESSED: arguments.run}, folder, watcher, callbacks)
        record = record_with_exports(finished, command, watcher)
        publish(finished.best()[1].model, folder / "model", card=Report((record,)).markdown())
        result = make_result(finished, record, folder / "model", arguments.temporary)
        watcher.at(MEASURING, 1.0)
        return result


def _in_hand(model: M, passes: str | Sequence[Pass], calibration: Calibration) -> M:
    small = copy.deepcopy(model)
    mask = Mask.of(small)
    for one in passes:
        if not isinstance(one, Pass):
            raise KnobError(
                f"{one!r} is not a pass", "give passes, as in [Magnitude(0.5)]; names are for runs with data"
            )
        change = one.apply(small, mask, calibration)
        if change.processor is not None:
            raise KnobError(
                f"the pass '{one.name}' makes a new tokenizer too, which a model in hand cannot hold",
                "give data, and the result has both; or apply it yourself: Change.processor is the tokenizer",
            )
        mask = change.mask
    return small


def _in_words(passes: str | Sequence[Pass]) -> tuple[str, dict[str, Any]]:
    """Names, comma-separated, and the knobs of each."""
    if isinstance(passes, str):
        return passes, {}
    tables: dict[str, Any] = {}
    for one in passes:
        if tables.setdefault(one.name, one.model_dump()) != one.model_dump():
            raise KnobError(f"the pass '{one.name}' stands twice with other knobs", "run it in two compressions")
    return ",".join(one.name for one in passes), tables


def _with_hidden(arguments: Arguments[CompressRun]) -> CompressRun:
    """Hidden states are compared where both models have as many, as wide: before anything is loaded."""
    run = arguments.run
    ours, theirs = _config(arguments.student, run.model), _config(arguments.teacher, run.teacher)
    alike = all(ours.get(key) == theirs.get(key) for key in _SIZES)
    return run if alike and has_layers(str(ours.get("model_type"))) else run.but(hidden=0.0)


def _config(model: Model | None, source: str) -> dict[str, Any]:
    found: dict[str, Any]
    if model is not None:
        found = model.network.config.to_dict()
    else:
        found = json.loads((find_folder(source) / "config.json").read_text(encoding="utf-8"))
    return found
