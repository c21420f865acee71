"""`limbeck tickets`: find which weights of a model suffice."""

from __future__ import annotations

from typing import Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, Resume, begin, execute, gather, need_out, show
from limbeck.jobs.settings import write_run
from limbeck.jobs.ticket_settings import TicketRun


@with_knobs(TicketRun, objectives=("labels",))
def tickets(
    run_file: File = None, resume: Resume = False, print_: Print = False, knobs: dict[str, Any] | None = None
) -> None:
    """Find a winning ticket: train, prune the smallest weights, take the rest back to their start, round after round.

    limbeck tickets --model DIR_OR_ID --data reviews.csv --rounds 9 --out runs/ticket

    OUT/ticket.safetensors is the ticket of the last round, a file of its own; OUT/model what it learned. The report
    shows the quality at every sparsity. A network of images starts from random weights: --task image, --network mlp.
    Another task starts from a ticket with
    limbeck train --model DIR_OR_ID --data other.csv --ticket runs/ticket/ticket.safetensors --out runs/other
    """
    run = TicketRun(**gather(run_file, knobs, resume))
    if print_:
        typer.echo(write_run(run), nl=False)
        return
    need_out(run.out, "runs/ticket")
    whose = f"{run.model or 'a new network'} with {run.data.train}"
    begin(f"finding a ticket of {whose} in {run.rounds} rounds into {run.out}", run, [run.model], run.out, resume)
    from limbeck.jobs.tickets import TICKET, find_ticket

    result = execute(find_ticket, run=run, resume=resume)
    places = {"ticket": result.folder / TICKET, "model": result.folder / "model"}
    show(result.record, {**places, "report": result.folder / "report.html"})
