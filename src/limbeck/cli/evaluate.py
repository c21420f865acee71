"""`limbeck eval`: how good a model is on a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from limbeck.cli.flags import with_knobs
from limbeck.cli.verb import RecordFolder, begin, execute, gather, save, show
from limbeck.core.metric import metric_of
from limbeck.core.record import Record
from limbeck.jobs.settings import MeasuredKnobs


@with_knobs(MeasuredKnobs)
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="the model to measure: a folder or a hub id")],
    teacher: Annotated[
        str, typer.Option("--teacher", help="also measure the fidelity to this model: agreement, KL")
    ] = "",
    out: RecordFolder = None,
    knobs: dict[str, Any] | None = None,
) -> None:
    """Measure a model on labelled texts: accuracy, F1, calibration, per class, and agreement with a teacher.

    limbeck eval runs/small/student --data test.csv --teacher DIR

    Other tasks: token classification and extractive QA by F1, language models by perplexity, translators
    (in transformers or in CTranslate2) by BLEU and chrF:
    limbeck eval DIR --task translate --data test.en --target test.de
    """
    run = MeasuredKnobs(**gather(None, knobs))
    begin(f"evaluating {model} on {run.data.train}", run, (model, teacher), out)
    from limbeck.jobs.evaluate import evaluate as job

    record = execute(job, model, teacher=teacher, run=run)
    show(record, save(record, out), _figures(record))


def _figures(record: Record) -> Table:
    """Every figure of the model that was asked for, with its meaning."""
    from limbeck.report import figures

    table = Table("figure", "value", "floor", "meaning", box=None, pad_edge=False, header_style="dim")
    run, floor = record.arms[-1].runs[0], record.floor.quality if record.floor else {}
    for name in run.quality:
        metric = metric_of(record.task, name)
        found = run.quality[name], floor.get(name)
        texts = [
            figures.score(metric, one) if name == "perplexity" else "" if one is None else f"{one:.4f}" for one in found
        ]
        table.add_row(name, *texts, metric.meaning)
    for score in run.per_class:
        table.add_row(f"F1 of {score.label}", f"{score.f1:.4f}", "", f"{score.rows:,} rows")
    return table
