"""`limbeck distill`: the main job."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, Resume, begin, execute, gather, need_out, printable, show, try_it
from limbeck.jobs.settings import Run, write_run


@with_knobs(Run, objectives=True)
def distill(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Make a smaller student of a teacher, with and without distillation, and measure what was kept.

    limbeck distill --teacher DIR --data reviews.csv --out runs/small

    Other tasks: tag, answer, mask-fill, generate, translate, image. Each has options of its own:
    limbeck distill --task tag --help

    Every option is also a line of a run file (--student.layers 4 is layers = 4 in the table student); --print writes
    one.
    """
    run = Run(**gather(run_file, knobs, resume))
    if print_:
        typer.echo(write_run(printable(run)), nl=False)
        return
    need_out(run.out, "runs/small")
    models, small = (*(run.teachers or [""]), run.student_from), f"into {run.out}"
    column = f"the answers in column '{run.data.teacher_column}'" if run.data.teacher_column else ""
    whom = " and ".join(run.teachers) or column or "a teacher"
    begin(f"distilling {whom} with {run.data.source} {small}", run, models, run.out, resume)
    from limbeck.jobs.distill import distill as job

    result = execute(job, run=run, resume=resume)
    show(result.record, {"model": result.folder / "student", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)
