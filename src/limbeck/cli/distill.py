"""`limbeck distill`: the main job."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, Resume, execute, gather, need_out, printable, show
from limbeck.jobs.settings import Run, write_run


@with_knobs(Run, objectives=True)
def distill(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Make a smaller student of a teacher, with and without distillation, and measure what was kept.

    limbeck distill --teacher DIR --data reviews.csv --out runs/small

    A tagger or a reader:
    limbeck distill --task tag --teacher DIR --data train.conll --out runs/small

    A language model, from its cached outputs or live:
    limbeck distill --task mask-fill --teacher DIR --cache cache/ --data corpus.txt --out runs/small

    A translator, by what it writes:
    limbeck distill --task translate --teacher DIR --data train.en --target train.de --out runs/small

    Every knob is a flag and a line in a run file: --student.layers 4 is `layers = 4` in the
    run file's table `student`. In brackets: the default.
    """
    run = Run(**gather(run_file, knobs, resume))
    if print_:
        typer.echo(write_run(printable(run)), nl=False)
        return
    need_out(run.out, "runs/small")
    from limbeck.jobs.distill import distill as job

    result = execute(job, run=run, resume=resume)
    show(result.record, {"model": result.folder / "student", "report": result.folder / "report.html"})
