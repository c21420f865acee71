"""`limbeck eval`: how good a model is on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.jobs.settings import MeasuredKnobs, undot


@with_knobs(MeasuredKnobs)
def evaluate(
    model: Annotated[str, typer.Argument(help="a classifier, tagger, reader or language model: a folder or a hub id")],
    teacher: Annotated[str, typer.Option("--teacher", help="also say how close the model stays to this one")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and report.html")] = None,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure a model on labelled texts: accuracy, F1, calibration, per class, and agreement with a teacher.

    limbeck eval runs/small/student --data test.csv --teacher DIR

    A tagger or a reader, by F1: limbeck eval DIR --task answer --data squad.json

    A language model, on running text: limbeck eval DIR --task mask-fill --data corpus.txt

    A translator, in transformers or in CTranslate2, by BLEU and chrF:
    limbeck eval DIR --task translate --data test.en --target test.de
    """
    chosen = MeasuredKnobs(**undot(knobs or {}))
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.cli.distill import command_line
    from limbeck.cli.show import show_quality
    from limbeck.jobs.evaluate import evaluate as run_evaluate
    from limbeck.report import Report
    from limbeck.report.table import terminal_table

    with watching() as watcher:
        record = run_evaluate(model, teacher=teacher, run=chosen, watcher=watcher, command=command_line())
    console = Console()
    console.print(terminal_table(record))
    show_quality(console, record)
    if out:
        record.save(out / "record.json")
        console.print(f"report  {Report((record,)).save(out / 'report.html')}", highlight=False, soft_wrap=True)
