"""What a paper prints, as data: tables beside the experiments, joined with what was measured here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from limbeck.core.metric import metric_of
from limbeck.core.record import Published, Record
from limbeck.report.figures import spread

Measured = Mapping[str, Sequence[float]]  # "ARM METRIC" → its values, a seed each, in the table's unit


def packaged(name: str) -> Path:
    """A run file or a table of the package."""
    return Path(str(files("limbeck.experiments").joinpath(name)))


def scores(record: Record) -> dict[str, list[float]]:
    """Every quality of every arm, shares in per cent."""
    found: dict[str, list[float]] = {}
    for arm in record.arms:
        for metric in dict.fromkeys(name for run in arm.runs for name in run.quality):
            factor = 100 if metric_of(record.task, metric).unit == "share" else 1
            found[f"{arm.name} {metric}"] = [factor * run.quality[metric] for run in arm.runs if metric in run.quality]
    return found


def beside(table: str, measured: Measured) -> list[Published]:
    """The figures of a published table, each with ours; `ours` in the table names what was measured for it."""
    entries = tomllib.loads(packaged(table).read_text(encoding="utf-8"))
    shared = {key: value for key, value in entries.items() if not isinstance(value, list)}
    return [_with_ours({**shared, **entry}, measured) for entry in entries["figure"]]


def _with_ours(entry: dict[str, object], measured: Measured) -> Published:
    found = spread(list(measured.get(str(entry.pop("ours", "")), ())))
    ours = {"ours": found.mean, "spread": found.sd, "seeds": len(found.values)} if found else {}
    return Published.model_validate({**entry, **ours})
