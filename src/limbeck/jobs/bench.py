"""Measure the speed, size and quality of models that are already there, teachers and exported files side by side.

Torch is imported only where one of the models needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from limbeck.core.errors import DataError
from limbeck.core.image_processor import ImageProcessor
from limbeck.core.progress import Silent, Watcher
from limbeck.core.record import Arm, DataCard, Record
from limbeck.core.task import IMAGE_KINDS, TEXT_KINDS, Kind, TaskInfo
from limbeck.data.image.encoded import timing_images
from limbeck.data.settings import ParallelSettings, WindowSettings
from limbeck.data.sources.parallel import timing_sources
from limbeck.data.span.questions import timing_questions
from limbeck.data.text.examples import timing_texts
from limbeck.data.token.sentences import timing_sentences
from limbeck.engines.ctranslate2 import read_facts
from limbeck.engines.onnx import exported_facts
from limbeck.jobs.arguments import documented, settings_of
from limbeck.jobs.bench_quality import score
from limbeck.jobs.measured import measured_record, model_arm
from limbeck.jobs.settings import BenchRun
from limbeck.measure.size import is_ctranslate2
from limbeck.measure.speed import MEASURING, measure_speed, measuring
from limbeck.students.load import kind_saved, load_saved
from limbeck.students.model_folder import model_in
from limbeck_runtime import is_exported

LENGTHS = "16,32,64,128"  # tokens


@documented(BenchRun)
def bench(
    models: Sequence[str | Path],
    data: str | Path | Sequence[str] | Sequence[tuple[str, str]] | None = None,
    *,
    task: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    beam: int | None = None,
    run: BenchRun | None = None,
    watcher: Watcher | None = None,
    command: str = "",
    **knobs: object,
) -> Record:
    """Size, load time, latency, throughput and memory of saved and exported models on the same texts, one process at a
    time; with a file of labels also their quality, and how often they agree with the first.

    `bench(["runs/teacher", "runs/small"], ["A text.", "Another one."])`, or with a file for the texts.
    """
    run, texts = settings_of(BenchRun, locals())
    watcher = watcher or Silent()
    names = [str(model) for model in models]
    kind = kind_timed(names, run)
    given = texts if isinstance(texts, Sequence) else ()
    rows = [(text, "") if isinstance(text, str) else text for text in given] or _texts(run, kind, names[0])
    width = run.beam if kind == "translate" else 0
    watcher.plan([measuring(len(names), run.measure)])
    arms = [_sized(name, run.trust_remote_code) for name in names]  # what cannot be loaded is refused at once
    scores = score(names, kind, run, watcher)
    folders = {name: Path(model_in(name)).expanduser() for name in names}
    lengths = [] if width else run.measure.token_counts(auto=LENGTHS)
    speeds = measure_speed(folders, rows, run.measure, run.data.max_length, watcher, width, lengths=lengths, loads=True)
    watcher.at(MEASURING, 1.0)
    written = {"models": names, "measure": run.measure.model_dump(), "max_length": run.data.max_length}
    return measured_record(
        "bench",
        "bench",
        command,
        scores.info or TaskInfo(kind=kind),
        scores.card or _card(rows, kind),
        [arm.model_copy(update={"speed": speeds[arm.name], "runs": scores.runs.get(arm.name, [])}) for arm in arms],
        written | ({"translate": {"test_beam": width}} if width else {}),
        notes=scores.notes,
    )


def kind_timed(models: Sequence[str], run: BenchRun) -> Kind:
    """The task of all models; classification where they are of several."""
    if run.data.task != "auto":
        return run.data.task
    found = {_kind(model, run.trust_remote_code) for model in models}
    if found <= {None, *TEXT_KINDS}:
        found -= {None}  # a classifier whose labels tell the rest
    return (found.pop() if len(found) == 1 else None) or "classify"  # type: ignore[return-value]


def _kind(model: str, trust_remote_code: bool) -> str | None:
    if is_exported(model):
        return exported_facts(model, check=False).kind
    return "translate" if is_ctranslate2(model) else kind_saved(model, trust_remote_code)


def _texts(run: BenchRun, kind: Kind, model: str) -> list[tuple[str, str]]:
    """Of the file, or our own. A token or span model may be timed on any text, unless its task is named."""
    data = run.data
    if kind in IMAGE_KINDS:
        return timing_images(data, ImageProcessor.from_pretrained(Path(model_in(model)).expanduser()))
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
    what = "images" if kind in IMAGE_KINDS else "pairs" if pairs else "texts"
    return DataCard(source=f"{len(rows)} {what}", columns=columns, read=len(rows))


def _sized(source: str, trust_remote_code: bool) -> Arm:
    if is_exported(source):
        exported_facts(source)  # or refuses a damaged one
        return model_arm(source, "model", str(Path(source).expanduser()), None)
    if is_ctranslate2(source):
        read_facts(source)  # or refuses: without them it may write something else
        return model_arm(source, "model", source, None)
    return model_arm(source, "model", model_in(source), load_saved(source, trust_remote_code=trust_remote_code)[0])
