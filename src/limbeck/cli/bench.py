"""`limbeck bench`: how fast and how large models are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.core.knob import Settings, knob
from limbeck.core.task import OF_PLACES
from limbeck.data.place_settings import PlaceSettings
from limbeck.data.settings import DataSettings
from limbeck.measure.settings import MeasureSettings
from limbeck.recipes.run import undot


class BenchKnobs(Settings):
    data: DataSettings = knob(DataSettings(), "the texts to time the models on")
    places: PlaceSettings = knob(PlaceSettings(), "words and answers in texts, for --task tag and answer")
    measure: MeasureSettings = knob(MeasureSettings(), "how they are timed")


@with_knobs(BenchKnobs)
def bench(
    models: Annotated[
        list[str], typer.Argument(help="folders of saved classifiers, taggers, readers or language models")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and report.html")] = None,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure latency, throughput, memory and size of saved models, each alone in a process of its own.

    limbeck bench teacher runs/small/student --data reviews.csv
    """
    settings = BenchKnobs(**undot(knobs or {}))
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.cli.distill import command_line
    from limbeck.data.place_single import load_place_texts
    from limbeck.data.single import load_texts
    from limbeck.recipes.evaluate import bench as run_bench
    from limbeck.report import Report
    from limbeck.report.table import terminal_table

    kind = settings.data.task if settings.data.task in OF_PLACES else "classify"
    if settings.data.train and (kind == "tag" or kind == "answer"):
        texts = load_place_texts(settings.data, settings.places, kind)
    else:
        texts = load_texts(settings.data)
    with watching() as watcher:
        record = run_bench(
            models,
            texts,
            settings.measure,
            kind=kind,
            max_length=settings.data.max_length,
            watcher=watcher,
            command=command_line(),
        )
    console = Console()
    console.print(terminal_table(record))
    if out:
        record.save(out / "record.json")
        console.print(f"report  {Report((record,)).save(out / 'report.html')}", highlight=False, soft_wrap=True)
