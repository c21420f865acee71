"""One self-contained HTML page for one Record or many. It asks nothing of the network, and reads without its script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from limbeck.core.errors import DataError
from limbeck.core.record import Record
from limbeck.report import charts, numbers, summary
from limbeck.report.columns import columns
from limbeck.report.sections import LONG_TEXT, arm_rows, section


def page(records: Sequence[Record]) -> str:
    """The page: a single run in full, or all runs on shared charts and a section for each."""
    if not records:
        raise DataError("a report needs at least one record", "give the folder of a finished run, or its record.json")
    records = told_apart(records)
    style, script = _read("style.css"), _read("page.js")
    style += _read("writers.css") if any(record.task.units.decoded for record in records) else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    runs = [section(record, anchor) for record, anchor in zip(records, anchors(records), strict=True)]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            runs=runs,
            many=len(runs) > 1,
            title=records[0].name if len(runs) == 1 else f"{len(runs)} runs",
            style=Markup(style),
            script=Markup(script),
            script_digest=digest,
            figures=charts.trade_offs(records) if len(runs) > 1 else [],
            columns=columns(records),
            rows=arm_rows(records),
        )
    )


def _read(name: str) -> str:
    return files("limbeck.report").joinpath(name).read_text("utf-8")


def told_apart(records: Sequence[Record]) -> list[Record]:
    """Runs of one name get numbers: a run is known by its name in charts and tables."""
    names = Counter(record.name for record in records)
    seen: Counter[str] = Counter()
    apart = []
    for record in records:
        seen[record.name] += 1
        alone = names[record.name] == 1
        apart.append(record if alone else record.but(name=f"{record.name} {seen[record.name]}"))
    return apart


def anchors(records: Sequence[Record]) -> list[str]:
    """A name for each run that a link can point to, all different."""
    return [
        f"run-{i}-{re.sub('[^a-z0-9]+', '-', record.name.lower()).strip('-')}" for i, record in enumerate(records, 1)
    ]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("limbeck.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(n=numbers, summary=summary, long_text=LONG_TEXT)
    return made
