"""How good models are on the file that they are timed on, and how often they say what the first of them says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from limbeck.core.errors import LimbeckError
from limbeck.core.metric import check_metric
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import DataCard, SeedResult
from limbeck.core.task import TEXT_KINDS, WHOLE_KINDS, WINDOW_KINDS, Kind, TaskInfo
from limbeck.data.batches import Collator, batches
from limbeck.data.text.examples import Corpus, Examples, encode, read_texts, relabel
from limbeck.data.text.labels import permutation
from limbeck.engines.onnx import open_exported
from limbeck.jobs.settings import BenchRun
from limbeck.measure.evaluator import TEXT_BATCH
from limbeck.measure.fidelity import fidelity
from limbeck.measure.machine import threads_to_use
from limbeck.measure.predictions import predict
from limbeck.measure.quality import confusion, quality, reliability
from limbeck.students.load import labels_in, load_saved
from limbeck_runtime import is_exported


@dataclass
class Scores:
    runs: dict[str, list[SeedResult]] = field(default_factory=dict)  # by model
    notes: list[str] = field(default_factory=list)  # why there are none
    info: TaskInfo | None = None
    card: DataCard | None = None


def score(names: Sequence[str], kind: Kind, run: BenchRun, watcher: Watcher) -> Scores:
    """Of classifiers, taggers and readers. What cannot be scored is timed all the same, and a note says why."""
    scores = Scores()
    if not run.quality or not run.data.train or kind not in (*WHOLE_KINDS, *WINDOW_KINDS):
        return scores
    watcher.say(f"scoring {len(names)} model{'s' if len(names) > 1 else ''} on {run.data.train}")
    if kind not in TEXT_KINDS:
        _score_by_task(names, run, scores)
        return scores
    try:
        data = run.data.but(task=kind if _is_known(names, run) else "auto")
        corpus = read_texts(data, None, Silent(), only_test=True)
        check_metric(run.metric, [corpus.task.kind], len(corpus.task.labels))
    except LimbeckError as error:
        scores.notes.append(f"Quality was not measured: {error.problem}.")
        return scores
    scores.card = corpus.card
    first: tuple[Sequence[str], np.ndarray] | None = None
    for name in names:
        try:
            labels, logits = _logits(name, corpus.test, run)
            mine = corpus if corpus.task.kind == "regress" else relabel(corpus, labels, whose="it")
            scores.runs[name] = [_result(mine, logits, run.metric, labels, first)]
        except LimbeckError as error:
            scores.notes.append(f"{name} was not scored: {error.problem}.")
            continue
        first = first or (labels, logits)
        scores.info = scores.info or replace(mine.task, metric=run.metric)
    return scores


def _is_known(names: Sequence[str], run: BenchRun) -> bool:
    """Whether a person or an exported file says what labels mean; else they tell it themselves."""
    return run.data.task != "auto" or any(map(is_exported, names))


def _score_by_task(names: Sequence[str], run: BenchRun, scores: Scores) -> None:
    from limbeck.jobs.evaluate import evaluate

    for name in names:
        try:
            found = evaluate(name, teacher=names[0] if name != names[0] else "", run=run)
        except LimbeckError as error:
            scores.notes.append(f"{name} was not scored: {error.problem}.")
            continue
        scores.runs[name] = found.arms[-1].runs
        scores.info, scores.card = scores.info or found.task, scores.card or found.data


def _logits(name: str, rows: Examples, run: BenchRun) -> tuple[Sequence[str], np.ndarray]:
    """The labels of a model, and its logits in their order."""
    longest = run.data.max_length
    if is_exported(name):
        model = open_exported(name, run.measure.threads or threads_to_use())
        found = model.logits(rows.texts, rows.pairs or None, max_length=longest, batch_size=TEXT_BATCH)
        return model.labels, found
    network, tokenizer = load_saved(name, trust_remote_code=run.trust_remote_code)
    labels, every = labels_in(network.config), encode(rows, tokenizer, longest)
    collate: Any = Collator.of(tokenizer, TaskInfo(kind="classify", labels=labels))
    return labels, predict(network, batches(every, collate, TEXT_BATCH), every.uids)


def _result(
    corpus: Corpus,
    logits: np.ndarray,
    metric: str,
    labels: Sequence[str],
    first: tuple[Sequence[str], np.ndarray] | None,
) -> SeedResult:
    info, rows = replace(corpus.task, metric=metric), (corpus.test.labels, corpus.test.has_label)
    scores, per_class = quality(info, logits, *rows)
    close = None
    if first is not None:
        order = [0] if info.kind == "regress" else permutation(list(labels), list(first[0]))
        close = fidelity(info, logits, first[1][:, order], *rows) if order else None
    return SeedResult(
        seed=0,
        quality=scores,
        per_class=per_class,
        confusion=confusion(info, logits, *rows),
        reliability=reliability(info, logits, *rows),
        fidelity=close,
    )
