"""`limbeck methods`: what there is, and what each thing does."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from limbeck.core.card import METHODS, Card, discover
from limbeck.core.compress import PASSES
from limbeck.core.errors import KnobError
from limbeck.core.plugins import HELP, load_plugins
from limbeck.core.task import TaskInfo
from limbeck.recipes import RECIPES
from limbeck.recipes.choosing import SITUATIONS
from limbeck.recipes.recipe import Recipe, from_table
from limbeck.training.schedule import Schedule

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="a recipe, an objective or a pass, to be shown whole")]
Plugin = Annotated[str, typer.Option("--plugin", help=HELP, show_default=False)]


def methods(name: Name = None, plugin: Plugin = "") -> None:
    """List recipes, objectives and passes; with a NAME, its paper, formula and knobs.

    limbeck methods hinton
    """
    load_plugins(plugin)
    discover("limbeck.passes")
    console = Console()
    if name is None:
        _list(console)
        return
    known = dict.fromkeys([*RECIPES, *METHODS, *PASSES])
    if name not in known:
        raise KnobError(f"there is no method '{name}'", f"choose among {', '.join(known)}")
    if name in RECIPES:
        _show_recipe(console, RECIPES[name])
    if name in METHODS:
        _show_method(console, METHODS[name], "objective", f"--objective.{name}")
    if name in PASSES:
        _show_method(console, PASSES[name], "pass", f"--{name}")


def _list(console: Console) -> None:
    console.print("which to take (docs/choosing.md says why)", style="italic")
    which = Table("", Column("", no_wrap=True), box=None, pad_edge=False, show_header=False)
    for one in SITUATIONS:
        which.add_row(one.title, f"[bold]{escape(one.flags)}[/bold]")
    console.print(which, "")
    for title, rows in (
        ("recipes, for --recipe", [(r.name, r.summary, f"{r.paper.key}") for r in RECIPES.values()]),
        ("objectives, for --objective.NAME.…", [(c.name, c.summary, f"{c.paper.key}") for c in METHODS.values()]),
        ("passes, for `limbeck compress --passes`", [(c.name, c.summary, f"{c.paper.key}") for c in PASSES.values()]),
    ):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
        for row in rows:
            table.add_row(f"[bold]{row[0]}[/bold]", escape(row[1]), f"[dim]{row[2]}[/dim]")
        console.print(table, "")


def _show_recipe(console: Console, plan: Recipe) -> None:
    console.print(f"[bold]recipe {plan.name}[/bold]: {escape(plan.summary)}")
    console.print(escape(plan.text), "", highlight=False)
    task = TaskInfo(kind=plan.tasks[0], labels=("0", "1"))
    table = Table("stage", "objective", "epochs", box=None, pad_edge=False, header_style="dim")
    for name, stage in plan.stages(task).items():
        epochs = f"{stage.epochs:g}" if stage.epochs else "as main"
        table.add_row(name, escape(str(from_table(stage.objective))), epochs)
    main = plan.defaults.get("train", {}).get("epochs", Schedule().epochs)
    table.add_row("main", escape(str(plan.objective(task))), f"{main:g}")
    console.print(table)
    knobs = [f"--{room}.{name} {value}" for room, values in plan.defaults.items() for name, value in values.items()]
    if knobs:
        console.print(f"sets {', '.join(knobs)}", highlight=False, soft_wrap=True)
    console.print(f"serves --task {', '.join(plan.tasks)}", highlight=False, soft_wrap=True)
    console.print(f"{escape(str(plan.paper))}  {plan.paper.url}", "", highlight=False, soft_wrap=True)


def _show_method(console: Console, card: Card, what: str, flags: str) -> None:
    console.print(f"[bold]{what} {card.name}[/bold] ({card.cls.__name__} in Python)")
    console.print(escape(card.text), highlight=False)
    console.print(f"\n{escape(str(card.paper))}  {card.paper.url}", highlight=False, soft_wrap=True)
    columns = Column("knob", no_wrap=True), "default", "what it does", "source"
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for name, field in card.cls.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        flag = f"{flags}.{name}"
        table.add_row(flag, str(field.default), field.description or "", str(extra.get("source", "")))
    if what == "objective":
        table.add_row(f"{flags}.weight", "the recipe's", "share in the sum", "")
    console.print("", table)
