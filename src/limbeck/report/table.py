"""The end of a run in the terminal: one table, and the honest sentences under it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limbeck.core.record import Record
from limbeck.report import numbers as n
from limbeck.report.columns import BRIEF, columns
from limbeck.report.summary import caveats, headline, subject_of, verdict
from limbeck.report.units import timed

_SHORT = {"agrees with teacher": "agrees", "parameters": "params", "sentences/s": "sent/s"}


def terminal_table(record: Record) -> RenderableType:
    """Teacher, plain student and distilled student side by side; it fits 80 columns. Text is never read as markup."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    table.add_column("", overflow="fold", min_width=10)
    shown = columns([record], BRIEF)
    for column in shown:
        table.add_column(
            _SHORT.get(column.title, column.title.removesuffix(" correlation")), justify="right", no_wrap=True
        )
    subject = subject_of(record)
    for arm in record.arms:
        cells = [Text(column.cell(record, arm).text.replace(n.GAP, " ")) for column in shown]
        style = "bold" if arm is subject and len(record.arms) > 1 else ""
        table.add_row(Text(arm.title), *cells, style=style)
    sentences = [Text(headline(record), style="bold"), Text(verdict(record))]
    doubts = [Text(f"· {sentence}", style="dim") for sentence in (*caveats(record), *_timing(record))]
    parts: list[RenderableType] = [table, Text(""), *(line for line in [*sentences, *doubts] if line.plain)]
    return Padding(Group(*parts), (1, 1, 0, 1))


def _timing(record: Record) -> list[str]:
    """What a block is, where speed is of blocks."""
    if not record.task.of_tokens or not any(arm.speed for arm in record.arms):
        return []
    return [f"Speed is that of reading: a {timed([record])} at once."]
