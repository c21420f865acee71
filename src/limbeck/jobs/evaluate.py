"""Measure models that are already there on a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limbeck.core.errors import ModelError
from limbeck.core.fingerprint import fingerprint
from limbeck.core.progress import ProgressItem, Silent, Watcher
from limbeck.core.record import Record, Sample
from limbeck.core.task import TEXT_KINDS
from limbeck.data.seq2seq.pairs import Parallel
from limbeck.engines.onnx import OnnxNetwork, open_exported
from limbeck.jobs.arguments import AnyModel, documented, model_of, settings_of
from limbeck.jobs.measured import measured_record, model_arm
from limbeck.jobs.settings import MeasuredKnobs, Options
from limbeck.measure.machine import threads_to_use
from limbeck.students.model_folder import explained_opening, quiet, read_config, read_tokenizer
from limbeck.tasks.base import Model, Task, evaluating, task_of
from limbeck_runtime import is_exported

SHOWN = 20  # generated texts that the report shows


@documented(MeasuredKnobs)
def evaluate(
    model: AnyModel,
    data: object = None,
    teacher: AnyModel = "",
    *,
    task: str | None = None,
    metric: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    tokenizer: Any = None,
    reading: Options | None = None,
    run: MeasuredKnobs | None = None,
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Record:
    """The quality of `model` on all of `data`, and with a `teacher` how close it is to that.

    `evaluate("runs/small/student", "test.csv", teacher="runs/teacher/model").arms[-1].runs[0].quality`
    """
    run, data = settings_of(MeasuredKnobs, locals())
    watcher = watcher or Silent()
    (mine, my_source), (theirs, their_source) = (model_of(one, tokenizer) for one in (model, teacher))
    found = task_of(run, mine or my_source)
    mine, theirs = mine or _opened(found, my_source), theirs or (_opened(found, their_source) if their_source else None)
    splits = found.read(data, mine, watcher, only_test=True)
    found = found.settled(splits)
    role = "student" if theirs else "model"
    models = {"teacher": theirs, role: mine} if theirs else {role: mine}
    networks = {role: each.network for role, each in models.items() if hasattr(each.network, "state_dict")}
    costs = {role: float(network.num_parameters()) for role, network in networks.items()}
    watcher.plan([ProgressItem(evaluating(each), costs.get(role, 1.0)) for role, each in models.items()])
    info, measured, floor = found.evaluate(mine, splits, watcher, theirs)
    evaluations = dict(zip((role, "teacher"), measured, strict=False))
    for each in models.values():
        watcher.at(evaluating(each), 1.0)
    written = {role: one.texts for role, one in evaluations.items() if len(one.texts)}
    # Of running text there is a card for each tokenizer.
    card = splits.card if hasattr(splits, "card") else next(iter(splits.corpora.values())).card
    return measured_record(
        "eval",
        Path(mine.source).name or type(mine.network).__name__,
        command,
        info,
        card,
        [
            model_arm(role, role, each.source, networks.get(role), [evaluations[role].result()])
            for role, each in models.items()
        ],
        {
            "model": mine.source,
            "teacher": theirs.source if theirs else "",
            **run.spelled_out(found.info.kind).model_dump(),
        },
        fingerprints={role: fingerprint(network) for role, network in networks.items()},
        floor=floor,
        disagreements=evaluations[role].disagreements,
        samples=_samples(splits.test, written) if written else [],
    )


def _opened(task: Task, source: str) -> Model:
    """A saved model, or an exported one in the place of its network."""
    if not is_exported(source):
        return task.load(source)
    model, folder = open_exported(source, threads_to_use()), Path(source).expanduser()
    if task.info.kind != model.kind and not {task.info.kind, model.kind} <= {*TEXT_KINDS}:  # labels may tell otherwise
        raise ModelError(f"{source} is exported for --task {model.kind}, not {task.info.kind}", "leave out --task")
    with quiet(), explained_opening(source):
        tokenizer, config = read_tokenizer(folder, False), read_config(folder, False)
    tokenizer.model_max_length = min(tokenizer.model_max_length, model.facts.max_length)
    network: Any = OnnxNetwork(model, config)
    return Model(network, tokenizer, source)


def _samples(texts: Parallel, written: Mapping[str, Sequence[str]]) -> list[Sample]:
    """Some of what models wrote, spread over the file."""
    rows = np.linspace(0, len(texts) - 1, min(SHOWN, len(texts))).round().astype(int).tolist()
    return [
        Sample(
            source=texts.sources[row],
            reference=texts.targets[row],
            written={role: lines[row] for role, lines in written.items()},
        )
        for row in rows
    ]
