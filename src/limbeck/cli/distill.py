"""`limbeck distill`: the main job."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.core.errors import KnobError
from limbeck.jobs.settings import CUSTOM, Run, overlay, read_run, undot, write_run

Resume = Annotated[bool, typer.Option("--resume", help="resume the interrupted run in --out")]
Print = Annotated[
    bool, typer.Option("--print", help="write the complete run file, every default spelled out, and stop")
]
File = Annotated[str | None, typer.Argument(metavar="[RUN.toml]", help="a run file; flags override what it says")]


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
    run = Run(**gather(run_file, knobs or {}, resume))
    if print_:
        typer.echo(write_run(printable(run)), nl=False)
        return
    if not run.out:
        raise KnobError("no place for the result was given", "name a folder with --out, as in --out runs/small")
    from limbeck.cli.display import watching
    from limbeck.cli.show import show_result
    from limbeck.jobs.distill import distill as run_distill

    with watching() as watcher:
        result = run_distill(run=run, resume=resume, watcher=watcher, command=command_line())
    show_result(result, model="student")


def gather(run_file: str | None, knobs: dict[str, Any], resume: bool) -> dict[str, Any]:
    """Defaults, then the run file, then flags. A bare `--resume --out DIR` takes the run file that lies in DIR."""
    flags = undot(knobs)
    kept = Path(str(flags.get("out", ""))) / "run.toml"
    if run_file is None and resume and flags.get("out") and kept.exists():
        run_file = str(kept)
    written = read_run(run_file) if run_file else {}
    if flags.get("recipe", CUSTOM) not in (CUSTOM, written.get("recipe")):
        for spelled in ("objective", "stages"):  # of the recipe that the flag replaces
            written.pop(spelled, None)
    return overlay(written, flags)


def printable(run: Run) -> Run:
    """The recipe spelled out, as far as it is known before the data is read."""
    from limbeck.core.task import TaskInfo
    from limbeck.jobs.settings import resolve

    kind = "classify" if run.data.task == "auto" else run.data.task
    return resolve(run, TaskInfo(kind=kind))


def command_line() -> str:
    return "limbeck " + shlex.join(sys.argv[1:])
