"""What a person sees at the end."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from limbeck.core.metric import metric_of
from limbeck.core.record import Record
from limbeck.jobs.distill import Result
from limbeck.report import numbers
from limbeck.report.table import terminal_table


def show_result(result: Result, model: str) -> None:
    console = Console()
    console.print(terminal_table(result.record))
    console.print(f"model   {result.folder / model}", highlight=False, soft_wrap=True)
    console.print(f"report  {result.folder / 'report.html'}", highlight=False, soft_wrap=True)


def show_quality(console: Console, record: Record) -> None:
    """Every figure of the model that was asked for, with its meaning."""
    table = Table("figure", "value", "meaning", box=None, pad_edge=False, header_style="dim")
    run = record.arms[-1].runs[0]
    for name, value in run.quality.items():
        metric = metric_of(record.task, name)
        table.add_row(name, numbers.score(metric, value) if name == "perplexity" else f"{value:.4f}", metric.meaning)
    for score in run.per_class:
        table.add_row(f"F1 of {score.label}", f"{score.f1:.4f}", f"{score.rows:,} rows")
    console.print(table)
