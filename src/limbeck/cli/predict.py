"""`limbeck predict`: what a model says of new texts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from limbeck.cli.answers import show, table
from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import begin, gather
from limbeck.core.errors import DataError, KnobError
from limbeck.core.task import IMAGE_KINDS, TEXT_KINDS
from limbeck.jobs.preflight import check_models
from limbeck.jobs.settings import PredictRun

SHOWN = 20  # rows of a table for the eye


@with_knobs(PredictRun)
def predict(
    model: Annotated[str, typer.Argument(help="a model's folder, a run's folder, an exported folder, or a hub id")],
    text: Annotated[str, typer.Argument(help="one text, or a question")] = "",
    second: Annotated[str, typer.Argument(help="the second text of a pair, or the context of a question")] = "",
    knobs: dict[str, Any] | None = None,
) -> None:
    """Answer new texts with a model: one text, a file, or standard input, a text per line.

    limbeck predict runs/small "a lovely film"

    limbeck predict runs/small --data new.csv --out answers.csv

    cat texts.txt | limbeck predict runs/small > answers.tsv

    A model of images takes an IDX file of images, or a folder with MNIST's files, of which it answers those of test.
    The file keeps its own columns; the answers stand beside them. A pair or a question with its context is a row of a
    file, two arguments, or a line with a tab between them.
    """
    run = PredictRun(**gather(None, knobs))
    if text and run.data.train:
        raise KnobError("both a text and --data are given", "leave out one of the two")
    data: list[Any] | None = [(text, second) if second else text] if text else None
    piped = not text and not run.data.train
    if piped and sys.stdin.isatty():
        raise DataError(
            "no text was given", "give one in quotes, a file with --data, or lines: cat texts.txt | limbeck predict …"
        )
    if run.data.train:
        begin(f"answering {run.data.train} with {model}", run, [model])
    else:
        check_models([model])
    from limbeck.cli.display import watching
    from limbeck.jobs.predict import Predictor
    from limbeck.jobs.predict import predict as job

    predictor = Predictor.of(run, model)
    lines = _lines(sys.stdin, predictor.kind in (*TEXT_KINDS, "answer"))
    if run.out:
        with watching() as watcher:
            answers = job(model, list(lines) if piped else data, run=run, watcher=watcher)
        typer.echo(f"answers {run.out} ({len(answers):,} rows)")
        return
    if piped or text:
        some = _chunks(lines, run.batch_size) if piped else [data]
        rows = (predictor.new_rows(part)[1] for part in some)
        show((row, answer) for part in rows for row, answer in zip(part, predictor.answers(part), strict=True))
        return
    _, every = predictor.new_rows(data)
    images = predictor.kind in IMAGE_KINDS
    names = [(str(number),) for number in range(len(every))] if images else every
    with watching() as watcher:
        found = zip(names, predictor.answers(every, watcher), strict=True)
        shown = list(islice(found, SHOWN)) if sys.stdout.isatty() else []
        if not shown:
            show(found)
    if shown:
        table(shown, "image" if images else "text")
        if len(every) > SHOWN:
            typer.echo(f"… and {len(every) - SHOWN:,} rows more; --out answers.csv writes all of them")


def _lines(stream: Iterable[str], may_pair: bool) -> Iterator[str | tuple[str, ...]]:
    """A text per line; of a task that may have pairs, two texts where the first line has a tab."""
    pairs = False
    for number, line in enumerate(stream, 1):
        line = line.removesuffix("\n").removesuffix("\r")
        pairs = may_pair and "\t" in line if number == 1 else pairs
        parts = tuple(line.split("\t"))
        if pairs and len(parts) != 2:
            raise DataError(f"line {number} has {len(parts)} parts between tabs, but line 1 has two", "mend that line")
        yield parts if pairs else line


def _chunks(lines: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while some := list(islice(lines, size)):
        yield some
