"""`limbeck report`: many runs on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS", help="folders of finished runs, or record.json files")],
    out: Annotated[
        Path, typer.Option("--out", help="the page to write, .html or .md; .svg for the frontier alone")
    ] = Path("report.html"),
) -> None:
    """Put runs side by side on one self-contained page.

    limbeck report runs/* --out report.html
    """
    from limbeck.core.record import Record
    from limbeck.report import Report

    typer.echo(Report(tuple(Record.load(run) for run in runs)).save(out))
