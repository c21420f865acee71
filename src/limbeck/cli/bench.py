"""`limbeck bench`: how fast and how large models are."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.core.errors import DataError
from limbeck.core.knob import Settings, knob
from limbeck.core.task import SEQ2SEQ_KINDS, Kind
from limbeck.data.seq2seq.settings import ParallelSettings
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes.run import undot


class BenchKnobs(Settings):
    data: DataSettings = knob(DataSettings(), "the texts to time the models on")
    windows: WindowSettings = knob(WindowSettings(), "words and answers in texts, for --task tag and answer")
    parallel: ParallelSettings = knob(ParallelSettings(), "sources and targets, for --task translate")
    beam: int = knob(5, "of translators: hypotheses kept open; 1 is greedy", at_least=1, short="--beam")
    measure: MeasureSettings = knob(MeasureSettings(), "how they are timed")


@with_knobs(BenchKnobs)
def bench(
    models: Annotated[
        list[str],
        typer.Argument(help="folders of saved classifiers, taggers, readers, language models or translators"),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and report.html")] = None,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure latency, throughput, memory and size of saved models, each alone in a process of its own.

    limbeck bench teacher runs/small/student --data reviews.csv

    Translators, in transformers and in CTranslate2: limbeck bench DIR runs/small/student-int8 --task translate
    """
    settings = BenchKnobs(**undot(knobs or {}))
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.cli.distill import command_line
    from limbeck.recipes.evaluate import bench as run_bench
    from limbeck.recipes.evaluate import kind_timed
    from limbeck.report import Report
    from limbeck.report.table import terminal_table

    kind = kind_timed(models, settings.data.task)
    texts = _texts(settings, kind)
    with watching() as watcher:
        record = run_bench(
            models,
            texts,
            settings.measure,
            kind=kind,
            max_length=settings.data.max_length,
            beam=settings.beam if kind in SEQ2SEQ_KINDS else 0,
            watcher=watcher,
            command=command_line(),
        )
    console = Console()
    console.print(terminal_table(record))
    if out:
        record.save(out / "record.json")
        console.print(f"report  {Report((record,)).save(out / 'report.html')}", highlight=False, soft_wrap=True)


def _texts(settings: BenchKnobs, kind: Kind) -> list[tuple[str, str]]:
    """What the models are timed on. A tagger or reader may be timed on any text, unless a person named its task."""
    from limbeck.data.sources.parallel import timing_sources
    from limbeck.data.span.corpus import timing_questions
    from limbeck.data.text.examples import timing_texts
    from limbeck.data.token.corpus import timing_sentences

    if settings.data.train and kind == "translate":
        return timing_sources(settings.data, settings.parallel)
    if not settings.data.train or not (kind == "tag" or kind == "answer"):
        return timing_texts(settings.data)
    try:
        texts = timing_sentences if kind == "tag" else timing_questions
        return texts(settings.data, settings.windows)
    except DataError:
        if settings.data.task == "auto":
            with suppress(DataError):
                return timing_texts(settings.data)
        raise
