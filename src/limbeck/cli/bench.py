"""`limbeck bench`: how fast and how large models are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.jobs.settings import BenchRun, undot


@with_knobs(BenchRun)
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
    settings = BenchRun(**undot(knobs or {}))
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.cli.distill import command_line
    from limbeck.jobs.bench import bench as run_bench
    from limbeck.report import Report
    from limbeck.report.table import terminal_table

    with watching() as watcher:
        record = run_bench(models, run=settings, watcher=watcher, command=command_line())
    console = Console()
    console.print(terminal_table(record))
    if out:
        record.save(out / "record.json")
        console.print(f"report  {Report((record,)).save(out / 'report.html')}", highlight=False, soft_wrap=True)
