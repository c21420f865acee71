"""What verbs share: the run file under their flags, the display while they run, the table at the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, RenderableType

from limbeck.cli.answers import try_line
from limbeck.core.errors import KnobError
from limbeck.core.process import is_main
from limbeck.core.record import Record
from limbeck.core.task import Kind, TaskInfo
from limbeck.data.settings import TaskKnobs
from limbeck.jobs.settings import CUSTOM, EXPORTS, Run, overlay, read_run, resolve, undot

R = TypeVar("R")
Resume = Annotated[bool, typer.Option("--resume", help="resume the interrupted run in --out")]
Print = Annotated[bool, typer.Option("--print", help="write the complete run file and stop")]
File = Annotated[str | None, typer.Argument(metavar="RUN.toml", help="a run file; flags override what it says")]
RecordFolder = Annotated[Path | None, typer.Option("--out", help="folder for record.json and report.html")]


def gather(run_file: str | None, knobs: dict[str, Any] | None, resume: bool = False) -> dict[str, Any]:
    """Defaults, then the run file, then flags. A bare `--resume --out DIR` takes the run file that lies in DIR."""
    flags = undot(knobs or {})
    earlier = Path(str(flags.get("out", ""))) / "run.toml"
    if run_file is None and resume and flags.get("out"):
        if earlier.exists():
            run_file = str(earlier)
        elif flags.keys().isdisjoint(("teacher", "model", "data", "directions")):
            raise KnobError(
                f"there is no run to resume: nothing was begun in {earlier.parent}",
                "start it with the full command; with --resume too it may be run again whenever it is interrupted",
            )
    tables = read_run(run_file) if run_file else {}
    if flags.get("recipe", CUSTOM) not in (CUSTOM, tables.get("recipe")):
        for replaced in ("objective", "stages"):  # of the recipe that the flag replaces
            tables.pop(replaced, None)
    return overlay(tables, flags)


def printable(run: Run) -> Run:
    """The recipe spelled out, as far as it is known before the data is read."""
    return resolve(run, TaskInfo(kind=likely_kind(run)))


def likely_kind(run: Run) -> Kind:
    return "classify" if run.data.task == "auto" else run.data.task


def need_out(out: str, example: str) -> None:
    if not out:
        raise KnobError("no place for the result was given", f"name a folder with --out, as in --out {example}")


def begin(
    doing: str, run: TaskKnobs, models: Sequence[str] = (), out: str | Path | None = None, resume: bool = False
) -> None:
    """Refuses what can be refused at once, and says what is about to be done, before anything heavy is imported."""
    from limbeck.jobs.preflight import check_run, find_models

    if not is_main():
        return
    check_run(run, models, out=str(out or ""), resume=resume)
    Console(stderr=True).print(f"· {doing}", markup=False, highlight=False, soft_wrap=True)
    find_models(run, models)


def execute(job: Callable[..., R], *arguments: Any, **settings: Any) -> R:
    """Runs a job with one display, and with this command line for its Record."""
    from limbeck.cli.display import watching

    with watching() as watcher:
        return job(*arguments, **settings, watcher=watcher, command=command_line())


def command_line() -> str:
    return "limbeck " + shlex.join(sys.argv[1:])


def show(record: Record, places: dict[str, Path], *more: RenderableType) -> None:
    """What a person sees at the end: the table, perhaps more, and where things are."""
    from limbeck.report.table import terminal_table

    console = Console()
    for part in (terminal_table(record), *more):
        console.print(part)
    for name, path in places.items():
        console.print(f"{name:<8}{path}", highlight=False, soft_wrap=True)


def save(record: Record, out: Path | None) -> dict[str, Path]:
    """Writes record.json and report.html where a verb that needs no folder has one."""
    from limbeck.report import Report

    if out is None:
        return {}
    record.save(out / "record.json")
    return {"report": Report((record,)).save(out / "report.html")}


def try_it(record: Record, folder: Path) -> None:
    """The line that answers a text with the smallest file, where one was exported."""
    made = [one for one in record.artifacts if one.path.startswith(f"{EXPORTS}/")]
    if made:
        smallest = min(made, key=lambda one: one.size.bytes_in_all if one.size else 0)
        line = try_line(folder / smallest.path, record.task.kind)
        Console().print(f"try it  {line}", markup=False, highlight=False, soft_wrap=True)
