"""A paper's figures beside ours: the rows of the table that page, card and terminal show."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from limbeck.core.record import Published, Record
from limbeck.report import figures as n

QUICK = "A quick run: its figures say nothing about the paper."
HEAD = ("published", "ours", "seeds", "difference")


@dataclass(frozen=True)
class PublishedTable:
    what: str  # the one thing that is measured; "" where each row says
    rows: list[list[str]]  # whose; where they differ, what; then the cells of HEAD
    sources: str

    @property
    def head(self) -> list[str]:
        return ["", *(() if self.what else ("figure",)), *HEAD]

    @property
    def texts(self) -> int:
        """How many cells of a row are words."""
        return len(self.head) - len(HEAD)


def table_of(record: Record) -> PublishedTable | None:
    found = record.published
    if not found:
        return None
    what = n.in_common([one.column for one in found], "")
    rows = [[one.row, *(() if what else (one.column,)), *_cells(one)] for one in found]
    sources = dict.fromkeys(one.source for one in found if one.source)
    return PublishedTable(what, rows, "; ".join(sources))


def _cells(one: Published) -> list[str]:
    digits = max(1, len(f"{one.published:g}".partition(".")[2])) + (abs(one.published) < 1)
    unit = f"{n.GAP}{one.unit}" if one.unit else ""
    printed = f"{one.published:,g}".replace("-", n.MINUS)
    if one.ours is None or one.difference is None:
        return [f"{printed}{unit}", "not measured", n.NOTHING, n.NOTHING]
    spread = f" ± {one.spread:.{digits}f}" if one.spread is not None else ""
    ours, apart = (round(value, digits) + 0.0 for value in (one.ours, one.difference))  # no negative zero
    cells = [f"{printed}{unit}", f"{ours:,.{digits}f}{spread}{unit}", str(one.seeds), f"{apart:+,.{digits}f}"]
    return [cell.replace("-", n.MINUS) for cell in cells]


def terminal_published(found: PublishedTable) -> Table:
    """Rows that fit 80 columns: names fold, figures do not."""
    named = f"Published beside ours: {found.what}" if found.what else "Published beside ours"
    table = Table(title=named, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for place, title in enumerate(found.head):
        words = place < found.texts
        table.add_column(title, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in found.rows:
        table.add_row(*(Text(cell.replace(n.GAP, " ")) for cell in row))
    return table


def markdown_published(found: PublishedTable) -> str:
    rules = ["---"] * found.texts + ["---:"] * len(HEAD)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in found.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (found.head, rules, *cells))
