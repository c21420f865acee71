"""The end of a run in the terminal: one table, and the honest sentences under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limbeck.core.record import Record
from limbeck.report import numbers as n
from limbeck.report.columns import brief, columns
from limbeck.report.gains import failure_text, together
from limbeck.report.models import models
from limbeck.report.summary import caveats, conclusion, headline, subject_of
from limbeck.report.units import decoding, timed
from limbeck.report.writers import sentences

_SHORT = {
    "agrees with teacher": "agrees",
    "parameters": "params",
    "sentences/s": "sent/s",
    "over no teacher": "gain (interval)",
}
_FIRST_TO_GO = ("shape", "verdict", "gain")  # of translators; the others stay, and names are folded
_LAST_TO_GO = ("quality", "gain", "verdict", "p50", "training", "shape", "parameters", "agreement", "bytes")

WIDEST = 24  # characters of a name before it is folded


def terminal_table(record: Record) -> RenderableType:
    """All models side by side; it fits 80 columns. Text is never read as markup."""
    many = record.kind == "compare"
    said = [Text(headline(record), style="bold"), Text(conclusion(record)), *map(Text, sentences(record))]
    failed = [Text(f"× {failure_text(record, failure)}") for failure in record.failed]
    honest = (together(record), *caveats(record), *_timing(record))
    doubts = [Text(f"· {sentence}", style="dim") for sentence in honest if sentence]
    table = Fitting(record) if many else _table(record, brief([record]))
    lines = [line for line in [*said, *failed, *doubts] if line.plain]
    return Padding(Group(table, Text(""), *lines), (1, 1, 0, 1))


@dataclass(frozen=True)
class Fitting:
    """The table of a comparison with as many columns as the terminal is wide enough for."""

    record: Record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(brief([self.record]))
        going = _FIRST_TO_GO if self.record.task.units.decoded else tuple(reversed(_LAST_TO_GO))
        table = _table(self.record, kept)
        for key in going:
            if Measurement.get(console, options.update(max_width=1000), table).maximum <= options.max_width:
                break
            kept.remove(key)
            table = _table(self.record, kept)
        yield table


def _table(record: Record, keys: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    table.add_column("", overflow="fold", min_width=10, max_width=WIDEST if record.kind == "compare" else None)
    shown = columns([record], keys)
    for column in shown:
        table.add_column(
            _SHORT.get(column.title, column.title.removesuffix(" correlation")), justify="right", no_wrap=True
        )
    subject = subject_of(record)
    for arm in models(record):
        cells = [Text(column.cell(record, arm).text.replace(n.GAP, " ")) for column in shown]
        style = "bold" if arm is subject and len(record.arms) > 1 else ""
        table.add_row(Text(arm.title), *cells, style=style)
    return table


def _timing(record: Record) -> list[str]:
    """How long a block is, or how wide the beam: milliseconds over a vocabulary mean little without it."""
    if record.task.level != "vocabulary" or not any(model.speed for model in models(record)):
        return []
    how = decoding([record]) if record.task.units.decoded else "in one forward pass"
    return [f"Speed is that of a {timed([record])}, {how}."]
