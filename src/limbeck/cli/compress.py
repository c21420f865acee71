"""`limbeck compress`: passes that make a model smaller, each measured."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import Print, Resume, begin, execute, gather, need_out, printable, show, try_it
from limbeck.core.errors import KnobError
from limbeck.jobs.compress_settings import CompressRun
from limbeck.jobs.preflight import no_model
from limbeck.jobs.settings import write_run

Source = Annotated[str | None, typer.Argument(metavar="MODEL", help="a folder or a hub id; or a run file, RUN.toml")]


@with_knobs(CompressRun, objectives=True)
def compress(
    source: Source = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Make a model smaller by passes, one after another: each is measured on test before and after.

    limbeck compress DIR --data reviews.csv --passes vocabulary,lowrank,quantize --out runs/small

    With a teacher the model is trained by distillation after each pass that costs it something; --teacher self is the
    model itself, before any pass:
    limbeck compress DIR --data reviews.csv --passes lowrank --teacher self --export onnx-int8 --out runs/small

    Every pass has a table of its own, as in --lowrank.energy 0.9; `limbeck methods lowrank` explains it.
    """
    run_file = source if source and source.endswith(".toml") else None
    table = gather(run_file, knobs, resume)
    if source and not run_file:
        if table.get("model", source) != source:
            raise KnobError(f"two models are named, {source} and {table['model']}", "leave out one of the two")
        table["model"] = source
    run = CompressRun(**table)
    if not run.model:
        raise no_model()
    if print_:
        typer.echo(write_run(printable(run)), nl=False)
        return
    need_out(run.out, "runs/small")
    models = (run.model, run.teacher)
    begin(f"compressing {run.model} by {run.passes} with {run.data.train} into {run.out}", run, models, run.out, resume)
    from limbeck.jobs.compress import compress as job

    result = execute(job, run=run, resume=resume)
    show(result.record, {"model": result.folder / "model", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)
