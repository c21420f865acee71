"""Writes the pages that follow from the code and the Records, and the measured parts of the README.

.venv/bin/python docs/make.py           # write
.venv/bin/python docs/make.py --check   # say what is out of date, and fail
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from limbeck.core.card import METHODS
from limbeck.core.files import write_text
from limbeck.core.knob import Settings
from limbeck.core.record import Record
from limbeck.recipes import RECIPES
from limbeck.recipes.run import Run, TrainRun
from limbeck.report.card import markdown_table

HOME = Path(__file__).resolve().parent.parent
RESULTS = HOME / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- (?P<name>[\w-]+): made by docs/make.py -->\n).*?(<!-- end -->)", re.S)


def methods_page() -> str:
    lines = ["# Methods", "", "Made from the code; `limbeck methods NAME` shows the same.", "", "## Recipes", ""]
    lines += ["| recipe | what it does | paper |", "|---|---|---|"]
    lines += [f"| `{r.name}` | {r.summary} | [{r.paper.key}]({r.paper.url}) |" for r in RECIPES.values()]
    for card in METHODS.values():
        lines += [
            "",
            f"## {card.name}",
            "",
            f"`{card.cls.__name__}` in Python.",
            "",
            card.text,
            "",
            str(card.paper),
            "",
        ]
        lines += knob_table(card.cls, f"objective.{card.name}.")
    return "\n".join(lines) + "\n"


def knobs_page() -> str:
    lines = ["# Knobs", "", "Every knob is a flag (`--student.layers 4`) and a line in a run file. Made from the code."]
    for verb, schema in (("distill", Run), ("train", TrainRun)):
        lines += ["", f"## limbeck {verb}", "", *knob_table(schema, "")]
        for name, field in schema.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
                lines += ["", f"### {name}", "", *knob_table(field.annotation, f"{name}.")]
    return "\n".join(lines) + "\n"


def knob_table(schema: type[Settings], prefix: str) -> list[str]:
    rows = list(_knob_rows(schema, prefix))
    return ["| knob | default | what it does | source |", "|---|---|---|---|", *rows] if rows else ["No knobs."]


def _knob_rows(schema: type[Settings], prefix: str) -> Iterator[str]:
    for name, field in schema.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            continue
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        text = (field.description or "").replace("|", "\\|")
        default = str(field.default).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {f'`{default}`' if default else ''} | {text} | {extra.get('source', '')} |"


def results(name: str) -> str:
    """A marked part of the README, from the Record of the same name, or from those of all benchmarks."""
    if name == "benchmarks":
        return limits_table()
    record = Record.load(RESULTS / f"{name}.json")
    sentences = "\n\n".join(comparison.sentence for comparison in record.comparisons)
    return f"{markdown_table([record])}\n\n{sentences}\n"


def limits_table() -> str:
    """The figures that a benchmark holds to a limit."""
    lines = ["| what | measured | limit | command |", "|---|---:|---:|---|"]
    for path in sorted(RESULTS.glob("*.json")):
        record = Record.load(path)
        for figure, value in record.figures.items():
            if f"{figure}_limit" in record.figures:
                what, limit = figure.replace("_", " "), record.figures[f"{figure}_limit"]
                lines.append(f"| {what} | {value:.2f} | {limit:g} | `benchmarks/{record.name}.py` |")
    return "\n".join(lines) + "\n"


def readme() -> str:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    return MARKED.sub(lambda found: found[1] + results(found["name"]) + found[3], text)


def pages() -> dict[Path, str]:
    docs = HOME / "docs"
    return {docs / "methods.md": methods_page(), docs / "knobs.md": knobs_page(), HOME / "README.md": readme()}


def main() -> None:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit(f"out of date, run docs/make.py: {', '.join(path.name for path in stale)}" if stale else 0)
    for path, text in pages().items():
        write_text(path, text)


if __name__ == "__main__":
    main()
