"""What came of a run, for people: an HTML page, a Markdown model card, a table for the terminal.

Everything here is made from Records, and nothing here measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from limbeck.core.errors import KnobError
from limbeck.core.files import write_text
from limbeck.core.record import Record

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """One run in full, or many on one page."""

    records: tuple[Record, ...]

    def html(self) -> str:
        from limbeck.report.page import page

        return page(self.records)

    def _repr_html_(self) -> str:
        """The head of the report, for notebooks; of several runs, one below the other."""
        from limbeck.report.page import head

        return "".join(map(head, self.records))

    def markdown(self) -> str:
        """The model card of a single run or the card of a comparison; of several runs, the table of all arms."""
        from limbeck.report.card import comparison_card, model_card
        from limbeck.report.table import markdown_table

        if len(self.records) > 1:
            return markdown_table(self.records)
        record = self.records[0]
        return comparison_card(record) if record.kind == "compare" else model_card(record)

    def frontier(self) -> str:
        """Size and latency against quality as one picture, an SVG file."""
        from limbeck.report.frontier import picture

        return picture(self.records)

    def __str__(self) -> str:
        """The tables of the terminal, plain and 80 columns wide."""
        import io

        from rich.console import Console

        from limbeck.report.table import terminal_table

        console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False, legacy_windows=False)
        with console.capture() as written:
            for record in self.records:
                console.print(terminal_table(record))
        return "\n".join(line.rstrip() for line in written.get().strip("\n").splitlines())

    def save(self, path: Path | str) -> Path:
        """Writes the page (.html, or report.html in a folder), the Markdown (.md) or the frontier of size, latency and
        quality alone (.svg), whole or not at all."""
        path = Path(path)
        if path.is_dir() or not path.suffix:
            path = path / "report.html"
        if path.suffix in (".html", ".htm"):
            return write_text(path, self.html())
        if path.suffix == ".md":
            return write_text(path, self.markdown())
        if path.suffix == ".svg":
            return write_text(path, self.frontier())
        raise KnobError(
            f"a report cannot be written as {path.name}", "end the name in .html, .md or .svg, or give a folder"
        )
