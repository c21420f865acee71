"""`limbeck compare`: many recipes side by side."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.distill import File, Print, Resume, command_line, gather
from limbeck.cli.flags import with_knobs
from limbeck.core.errors import KnobError
from limbeck.jobs.comparison import CompareRun, columns_of
from limbeck.jobs.settings import Run, write_run


@with_knobs(CompareRun)
def compare(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Set recipes side by side: one teacher, one data set, the same seeds, one table and one page.

    limbeck compare --teacher DIR --data train.tsv --recipes finetune,hinton --seeds 5 --out runs/compare

    Every student is also trained without a teacher, unless a column is that already. What differs between columns
    stands in a run file, in a table columns.NAME with a recipe and tables like columns.NAME.student with
    knobs; --print shows one. In brackets: the default.
    """
    run = CompareRun(**gather(run_file, knobs or {}, resume))
    if print_:
        typer.echo(write_run(printable(run)), nl=False)
        return
    if not run.out:
        raise KnobError("no place for the result was given", "name a folder with --out, as in --out runs/compare")
    from rich.console import Console

    from limbeck.cli.display import watching
    from limbeck.jobs.compare import compare as run_compare
    from limbeck.report.table import terminal_table

    with watching() as watcher:
        result = run_compare(run=run, resume=resume, watcher=watcher, command=command_line())
    console = Console()
    console.print(terminal_table(result.record))
    console.print(f"models  {result.folder / 'arms'}", highlight=False, soft_wrap=True)
    console.print(f"report  {result.folder / 'report.html'}", highlight=False, soft_wrap=True)


def printable(run: CompareRun) -> Run:
    """Every recipe spelled out, as far as it is known before the data is read."""
    from limbeck.cli.distill import printable as complete

    kind = "classify" if run.data.task == "auto" else run.data.task
    return run.resolved_with({name: complete(column) for name, column in columns_of(run).items()}, kind)
