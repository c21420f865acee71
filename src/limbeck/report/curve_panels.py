"""How many arms learned: a small panel for each, all on one scale, with the same student without a teacher behind."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from limbeck.core.record import Record
from limbeck.report import numbers as n
from limbeck.report import svg
from limbeck.report.charts import PANEL, curves, dev_curve, has_curve, tones, wide_range
from limbeck.report.models import primary
from limbeck.report.scale import padded, span


def curve_panels(record: Record) -> list[Markup]:
    """The metric on the dev split as training goes on; in the order of the arms."""
    metric = primary(record)
    arms = [arm for arm in record.arms if arm.role != "teacher" and has_curve(arm, metric)]
    by_epoch = any(point.epoch for arm in arms for run in arm.runs for point in run.curve)
    values, tone = partial(dev_curve, metric=metric), tones(record)
    lines = {arm.name: curves(arm, tone[arm.name], by_epoch, values) for arm in arms}
    heights = [y for drawn in lines.values() for line in drawn for _, y in line.points]
    if not heights:
        return []
    log = wide_range(metric, heights)
    ends = span(heights, True) if log else padded(heights)
    before = {c.better: c.than for c in record.comparisons}
    return [
        svg.line_chart(
            [*_behind(lines.get(before.get(arm.name, ""), [])), *lines[arm.name]],
            [],
            "epoch" if by_epoch else "step",
            arm.title,
            PANEL,
            n.opening(f"{metric.title} of {arm.title} on the dev split"),
            whole=True,
            log=log,
            ends=ends,
        )
        for arm in arms
    ]


def _behind(lines: list[svg.Line]) -> list[svg.Line]:
    """The mean of a baseline, which is drawn last; of one seed, that seed."""
    return [svg.Line(lines[-1].points, lines[-1].tone)] if lines else []
