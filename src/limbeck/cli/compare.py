"""`limbeck compare`: many recipes side by side."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, Resume, begin, execute, gather, likely_kind, need_out, printable, show, try_it
from limbeck.jobs.compare_settings import CompareRun, columns_of
from limbeck.jobs.settings import write_run


@with_knobs(CompareRun)
def compare(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Set recipes side by side: one teacher, one data set, the same seeds, one table and one page.

    limbeck compare --teacher DIR --data train.tsv --recipes finetune,hinton --seeds 5 --out runs/compare

    Every student is also trained without a teacher, unless a column is that already. What differs between columns
    stands in a run file, in a table columns.NAME with a recipe and tables like columns.NAME.student; --print writes
    one. Other tasks (tag, answer, mask-fill, generate, translate) have options of their own:
    limbeck compare --task tag --help
    """
    run = CompareRun(**gather(run_file, knobs, resume))
    if print_:
        columns = {name: printable(column) for name, column in columns_of(run).items()}
        typer.echo(write_run(run.resolved_with(columns, likely_kind(run))), nl=False)
        return
    need_out(run.out, "runs/compare")
    names = ", ".join(columns_of(run))
    models = (*(run.teachers or [""]), run.student_from)
    begin(f"comparing {names} with {run.data.source} in {run.out}", run, models, run.out, resume)
    from limbeck.jobs.compare import compare as job

    result = execute(job, run=run, resume=resume)
    show(result.record, {"models": result.folder / "arms", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)
