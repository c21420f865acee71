"""`limbeck cache`: run a language model once."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import File, Print, begin, gather
from limbeck.jobs.settings import CacheRun, write_run

InfoOf = Annotated[str, typer.Option("--info", metavar="DIR", help="show what a cache holds, check it, and stop")]


@with_knobs(CacheRun)
def cache(run_file: File = None, info: InfoOf = "", print_: Print = False, knobs: dict[str, Any] | None = None) -> None:
    """Run a language model over every block of a text, once, and cache the top of its distributions.

    limbeck cache --teacher DIR --data corpus.txt --top 50 --out cache/

    Says how long it will take and how much disk, resumes where it was interrupted, and may run in
    several processes at once. Then: limbeck distill --task mask-fill --cache cache/ --data corpus.txt
    """
    from rich.console import Console

    console = Console()
    if info:
        from limbeck.teachers.topk import TopKCache

        show_info(console, info, TopKCache.open(info).info())
        return
    run = CacheRun(**gather(run_file, knobs))
    if print_:
        typer.echo(write_run(run), nl=False)
        return
    begin(f"caching the outputs of {run.teacher} on {run.data.train} in {run.out}", run, [run.teacher])
    from limbeck.cli.display import watching
    from limbeck.jobs.cache import cache as fill_cache

    with watching() as watcher:
        found = fill_cache(run, watcher=watcher)
    show_info(console, run.out, found)


def show_info(console: Any, folder: str, found: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    about = found.manifest
    what = f"{about.k} draws" if about.kind == "sampled" else f"the {about.k} most probable"
    rows = {
        "folder": folder,
        "outputs": f"{found.tokens:,} tokens of {found.examples:,} blocks",
        "of each token": f"{what} of {about.vocabulary:,} tokens, temperature {about.temperature:g}",
        "size": f"{found.bytes / 1e6:,.1f} MB in {found.shards} files, {found.bytes_per_token:.1f} bytes per token",
        "made": f"{found.created}, format {found.version}",
        **{f"fingerprint of {name}": value for name, value in about.fingerprints.items()},
        **{name: value if isinstance(value, str) else json.dumps(value) for name, value in about.notes.items()},
    }
    if found.damaged:
        rows["damaged, set aside"] = ", ".join(found.damaged) + " (run `limbeck cache` again to mend)"
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows.items():
        table.add_row(f"[dim]{name}[/dim]", escape(str(value)))
    console.print(table)
