"""`limbeck train`: train a model without a teacher, to have one."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, Resume, begin, execute, gather, need_out, show, try_it
from limbeck.jobs.settings import TrainRun, write_run


@with_knobs(TrainRun, objectives=("labels",))
def train(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Fine-tune an encoder on labelled texts. The result, in OUT/model, can be a teacher.

    limbeck train --model DIR_OR_ID --data reviews.csv --out runs/teacher

    Other tasks: tag, answer, mask-fill (an encoder without a head gets one, tied to its embeddings), generate,
    translate (without --model a new one, its shape in the table seq2seq), image (a new network, its shape in the
    table network). Each has options of its own:
    limbeck train --task translate --help
    """
    run = TrainRun(**gather(run_file, knobs, resume))
    if print_:
        typer.echo(write_run(run), nl=False)
        return
    need_out(run.out, "runs/teacher")
    begin(
        f"training {run.model or 'a new model'} with {run.data.train} into {run.out}", run, [run.model], run.out, resume
    )
    from limbeck.jobs.train import train as job

    result = execute(job, run=run, resume=resume)
    show(result.record, {"model": result.folder / "model", "report": result.folder / "report.html"})
    try_it(result.record, result.folder)
