"""Measure models that are already there on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.fingerprint import fingerprint
from limbeck.core.progress import ProgressItem, Silent, Watcher
from limbeck.core.record import Arm, Record, Sample
from limbeck.jobs.arguments import AnyModel, common_knobs, model_of, run_of
from limbeck.jobs.record import describe, measured_arm, measured_record
from limbeck.jobs.settings import MeasuredKnobs
from limbeck.measure.evaluator import Evaluation
from limbeck.measure.size import converted_size, is_ctranslate2, size_of
from limbeck.tasks.base import Model, Task, evaluating, task_of

SHOWN = 20  # generated texts that the report shows


def evaluate(
    model: AnyModel,
    data: object = None,
    teacher: AnyModel = "",
    *,
    task: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    tokenizer: Any = None,
    run: MeasuredKnobs | None = None,
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: Any,
) -> Record:
    """The quality of `model` on all of `data`, and with a `teacher` how close it is to that.

    `evaluate("runs/small/student", "test.csv", teacher="runs/teacher/model").arms[-1].runs[0].quality`
    """
    common = common_knobs(locals())
    run = run_of(MeasuredKnobs, run, None, common, knobs)
    if isinstance(data, str | Path):
        run, data = run.but(data=run.data.but(train=str(data))), None
    watcher = watcher or Silent()
    ours, theirs = (_named(one, tokenizer) for one in (model, teacher))
    found = task_of(run, ours)
    one, other = _load(found, ours), _load(found, theirs) if theirs else None
    splits = found.read(data, one, watcher, only_test=True)
    found = found.settled(splits)
    roles = {"teacher": other, "student": one} if other else {"model": one}
    watcher.plan([ProgressItem(evaluating(each), _weight(each)) for each in roles.values()])
    info, measured = found.evaluate(one, splits, watcher, other)
    evaluations = dict(zip((list(roles)[-1], "teacher"), measured, strict=False))
    for each in roles.values():
        watcher.at(evaluating(each), 1.0)
    arms = [_arm(role, each, evaluations[role]) for role, each in roles.items()]
    mine = evaluations[list(roles)[-1]]
    run = run.spelled_out(found.info.kind)
    return measured_record(
        "eval",
        Path(one.source).name or type(one.network).__name__,
        command,
        info,
        splits_card(splits, found),
        arms,
        knobs={"model": one.source, "teacher": other.source if other else "", **run.model_dump()},
        fingerprints={role: fingerprint(each.network) for role, each in roles.items() if _is_network(each)},
        disagreements=[each.model_dump() for each in mine.disagreements],
        samples=[sample.model_dump() for sample in _samples(splits, evaluations)],
    )


def splits_card(splits: Any, task: Task) -> Any:
    """The data card of what was evaluated on; running text has one per tokenizer."""
    return splits.card if hasattr(splits, "card") else next(iter(splits.corpora.values())).card


def _named(model: AnyModel, tokenizer: Any) -> Model | str:
    hand, source = model_of(model, tokenizer)
    return hand or source


def _load(task: Task, model: Model | str) -> Model:
    return model if isinstance(model, Model) else task.load(model)


def _is_network(model: Model) -> bool:
    return hasattr(model.network, "state_dict")


def _weight(model: Model) -> float:
    return float(model.network.num_parameters()) if _is_network(model) else 1.0


def _arm(role: str, model: Model, found: Evaluation) -> Arm:
    folder = Path(model.source)
    runs = [found.result()]
    if model.source and is_ctranslate2(folder):
        return measured_arm(role, role, f"{folder.name}, in CTranslate2", None, converted_size(folder), runs)
    size = size_of(model.network, folder if model.source and folder.is_dir() else None)
    name = folder.name or type(model.network).__name__
    return measured_arm(role, role, f"{name}, {describe(model.network)}", model.network, size, runs)


def _samples(splits: Any, evaluations: dict[str, Evaluation]) -> list[Sample]:
    """Of generated texts, some, spread over the file."""
    written = {role: one.texts for role, one in evaluations.items() if len(one.texts)}
    if not written:
        return []
    texts = splits.test
    rows = np.linspace(0, len(texts) - 1, min(SHOWN, len(texts))).round().astype(int).tolist()
    return [
        Sample(
            source=texts.sources[row],
            reference=texts.targets[row],
            written={role: lines[row] for role, lines in written.items()},
        )
        for row in rows
    ]
