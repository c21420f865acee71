"""`limbeck reproduce`: a paper's experiment, run again, its figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from limbeck.cli.verb import execute, show
from limbeck.experiments import EXPERIMENTS, Experiment, find
from limbeck.experiments.experiment import QUICK

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="the experiment; without one, all are listed")]
Seeds = Annotated[int, typer.Option("--seeds", min=0, help="seeds of everything; 0: as many as the list says")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="parts that run at a time, each with one thread")]


def reproduce(
    name: Name = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="the folder with its data")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder for everything (default runs/reproduce/NAME)")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="in minutes, on embedded data where --data names none")
    ] = False,
    seeds: Seeds = 0,
    workers: Workers = 2,
    model: Annotated[str, typer.Option("--model", help="the encoder to start from, where one is needed")] = "",
    network: Annotated[str, typer.Option("--network", help="lottery-mnist: lenet-300-100 or lenet5")] = "",
) -> None:
    """Run a paper's experiment again, and show its published figures beside yours; without NAME, list them all.

    limbeck reproduce pkd-sst2 --data sst2 --out runs/reproduce/pkd-sst2

    An experiment is made of ordinary jobs, each in a folder of its own in OUT. What is finished is not done again, so
    the same command goes on with an interrupted one.
    """
    if name is None:
        for plan in EXPERIMENTS.values():
            _describe(Console(), plan)
        return
    from limbeck.experiments.reproduce import conditions_of
    from limbeck.experiments.reproduce import reproduce as job

    plan = find(name)
    conditions = conditions_of(plan, data=data, out=out, quick=quick, seeds=seeds, model=model, network=network)
    doing = f"{plan.title}: {plan.quick_cost if quick else plan.cost} on two cores, into {conditions.out}"
    Console(stderr=True).print(f"· {doing}", markup=False, highlight=False, soft_wrap=True)
    record = execute(job, plan, conditions, workers)
    show(record, {"parts": conditions.out, "report": conditions.out / "report.html"})
    if quick:
        Console().print(QUICK, style="bold", highlight=False)


def _describe(console: Console, plan: Experiment) -> None:
    console.print(f"[bold]{plan.name}[/bold]  {escape(plan.title)}")
    embedded = f"; --quick has {plan.needs.embedded}" if plan.needs.embedded else ""
    for what, words in (
        ("paper", f"{plan.paper}"),
        ("shows", plan.shows),
        ("cost", f"{plan.cost} on two cores with {plan.seeds} seeds; --quick {plan.quick_cost}"),
        ("data", f"--data DIR with {plan.needs.title} ({', '.join(plan.needs.files)}){embedded}"),
        ("state", plan.state()),
    ):
        console.print(f"  [dim]{what:<6}[/dim] {escape(words)}", highlight=False, soft_wrap=True)
    console.print("")
