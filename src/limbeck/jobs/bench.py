"""Measure the speed and size of models that are already there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Arm, DataCard, Record
from limbeck.core.task import TEXT_KINDS, Kind, TaskInfo
from limbeck.data.settings import ParallelSettings, WindowSettings
from limbeck.data.sources.parallel import timing_sources
from limbeck.data.span.questions import timing_questions
from limbeck.data.text.examples import timing_texts
from limbeck.data.token.sentences import timing_sentences
from limbeck.engines.ctranslate2 import read_facts
from limbeck.jobs.arguments import documented, settings_of
from limbeck.jobs.record import measured_record, model_arm
from limbeck.jobs.settings import BenchRun
from limbeck.measure.size import is_ctranslate2
from limbeck.measure.speed import MEASURING, measure_speed, measuring
from limbeck.students.load import load_saved
from limbeck.students.model_folder import model_in
from limbeck.tasks.base import kind_of_model


@documented(BenchRun)
def bench(
    models: Sequence[str | Path],
    data: str | Path | Sequence[str] | Sequence[tuple[str, str]] | None = None,
    *,
    task: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    beam: int | None = None,
    run: BenchRun | None = None,
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Record:
    """Size, latency, throughput and memory of saved models on the same texts, one process at a time.

    `bench(["runs/teacher", "runs/small"], ["A text.", "Another one."])`, or with a file for the texts.
    """
    run, texts = settings_of(BenchRun, locals())
    watcher = watcher or Silent()
    names = [str(model) for model in models]
    kind = kind_timed(names, run)
    given = texts if isinstance(texts, Sequence) else ()
    rows = [(text, "") if isinstance(text, str) else text for text in given] or _texts(run, kind)
    width = run.beam if kind == "translate" else 0
    watcher.plan([measuring(len(names), run.measure)])
    arms = [_sized(name, run.trust_remote_code) for name in names]  # what cannot be loaded is refused at once
    folders = {name: Path(model_in(name)) for name in names}
    speeds = measure_speed(folders, rows, run.measure, run.data.max_length, watcher, width)
    watcher.at(MEASURING, 1.0)
    written = {"models": names, "measure": run.measure.model_dump(), "max_length": run.data.max_length}
    return measured_record(
        "bench",
        "bench",
        command,
        TaskInfo(kind=kind),
        _card(rows, kind),
        [arm.model_copy(update={"speed": speeds[arm.name]}) for arm in arms],
        written | ({"translate": {"test_beam": width}} if width else {}),
    )


def kind_timed(models: Sequence[str], run: BenchRun) -> Kind:
    """The task of all models; classification where they are of several."""
    if run.data.task != "auto":
        return run.data.task
    found = {kind_of_model(model, run.trust_remote_code) for model in models}
    return (found.pop() if len(found) == 1 else None) or "classify"  # type: ignore[return-value]


def _texts(run: BenchRun, kind: Kind) -> list[tuple[str, str]]:
    """Of the file, or our own. A token or span model may be timed on any text, unless its task is named."""
    data = run.data
    if data.train and kind == "translate":
        return timing_sources(data, run.table(ParallelSettings))
    if not data.train or kind not in ("tag", "answer"):
        return timing_texts(data)
    try:
        read = timing_sentences if kind == "tag" else timing_questions
        return read(data, run.table(WindowSettings))
    except DataError:
        if data.task == "auto":
            with suppress(DataError):
                return timing_texts(data)
        raise


def _card(rows: Sequence[tuple[str, str]], kind: Kind) -> DataCard:
    pairs = kind in TEXT_KINDS and any(pair for _, pair in rows)
    columns = {"text": "the first", "pair": "the second"} if pairs else {}
    return DataCard(source=f"{len(rows)} {'pairs' if pairs else 'texts'}", columns=columns, read=len(rows))


def _sized(source: str, trust_remote_code: bool) -> Arm:
    if is_ctranslate2(source):
        read_facts(source)  # or refuses: without them it may write something else
        return model_arm(source, "model", source, None)
    return model_arm(source, "model", model_in(source), load_saved(source, trust_remote_code=trust_remote_code)[0])
