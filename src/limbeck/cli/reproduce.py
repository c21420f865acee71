"""`limbeck reproduce`: a paper's experiment, run again, its figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from limbeck.cli.verb import command_line, execute, show
from limbeck.core.errors import KnobError
from limbeck.experiments import EXPERIMENTS, Experiment, find
from limbeck.experiments.experiment import QUICK

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="the experiment; without one, all are listed")]
Seeds = Annotated[int, typer.Option("--seeds", min=0, help="seeds of everything; 0: as many as the list says")]
Knobs = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a knob of the experiment; more than once")
]
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
    knobs: Knobs = None,
    so_far: Annotated[bool, typer.Option("--so-far", help="run nothing: Record and page of what is finished")] = False,
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
    from limbeck.experiments import reproduce as jobs

    plan, asked = find(name), {"model": model, "network": network}
    conditions = jobs.conditions_of(
        plan, data=data, out=out, quick=quick, seeds=seeds, knobs=_knobs(knobs or []), **asked
    )
    if so_far:
        show(jobs.so_far(plan, conditions, command_line()), {"report": conditions.out / "report.html"})
        return
    doing = f"{plan.title}: {plan.quick_cost if quick else plan.cost} on two cores, into {conditions.out}"
    Console(stderr=True).print(f"· {doing}", markup=False, highlight=False, soft_wrap=True)
    record = execute(jobs.reproduce, plan, conditions, workers)
    show(record, {"parts": conditions.out, "report": conditions.out / "report.html"})
    if quick:
        Console().print(QUICK, style="bold", highlight=False)


def _knobs(said: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in said]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise KnobError(f"--set {wrong[0]} has no value", "write it as in --set epochs=1")
    return {name.strip().replace("-", "_"): value.strip() for name, _, value in pairs}


def _describe(console: Console, plan: Experiment) -> None:
    console.print(f"[bold]{plan.name}[/bold]  {escape(plan.title)}")
    embedded = f"; --quick has {plan.needs.embedded}" if plan.needs.embedded else ""
    for what, words in (
        ("paper", f"{plan.paper}"),
        ("shows", plan.shows),
        ("cost", f"{plan.cost} on two cores with {plan.seeds} seeds; --quick {plan.quick_cost}"),
        ("data", f"--data DIR with {plan.needs.title} ({', '.join(plan.needs.files)}){embedded}"),
        *((("knobs", own),) if (own := _own_knobs(plan)) else ()),
        ("state", plan.state()),
    ):
        console.print(f"  [dim]{what:<6}[/dim] {escape(words)}", highlight=False, soft_wrap=True)
    console.print("")


def _own_knobs(plan: Experiment) -> str:
    fields = plan.knobs.model_fields.items()
    return "; ".join(f"--set {name}={field.default}: {field.description}" for name, field in fields)
