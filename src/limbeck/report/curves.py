"""The curves of a Record: what was seen on the dev split and in the loss as training went on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from markupsafe import Markup

from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Record, SeedResult
from limbeck.report import figures as n
from limbeck.report import plots
from limbeck.report.charts import CANVASES, Figure, axis_of, factor, figure_of, legend_of, tones
from limbeck.report.svg import Canvas

PANEL = Canvas(300, 190)

Curves = list[tuple[Arm, list[plots.Line]]]


def learning(record: Record) -> Figure | None:
    """The metric on the dev set as training goes on."""
    metric, teacher = _dev_metric(record), n.teacher_of(record)
    curves = _curves(record, partial(_dev_curve, metric=metric))
    if not curves:
        return None
    arms, lines = [arm for arm, _ in curves], [line for _, of_arm in curves for line in of_arm]
    level = _teacher_level(teacher, metric) if teacher and teacher not in arms else None
    title, x_title = n.opening(f"{metric.title} on the dev split"), _x_title(record)
    words = f"{title}, for {', '.join(arm.title for arm in arms)}"
    axis = axis_of(metric, "dev", [y for line in lines for _, y in line.points] + ([level.at] if level else []))
    caption = "Strong: mean over seeds; faint: each seed. " if any(len(arm.runs) > 1 for arm in arms) else ""
    caption += "Rings mark the checkpoint that was kept." if any(line.ring for line in lines) else ""
    return figure_of(
        title,
        caption,
        [plots.line_chart(lines, level, x_title, axis, canvas, words) for canvas in CANVASES],
        legend_of(record, arms),
    )


def curve_panels(record: Record) -> list[Markup]:
    """How many arms learned: a small panel for each, all on one scale, with the same student without a teacher behind;
    in the order of the arms."""
    metric = _dev_metric(record)
    curves = _curves(record, partial(_dev_curve, metric=metric))
    heights = [y for _, lines in curves for line in lines for _, y in line.points]
    if not heights:
        return []
    axis, than = axis_of(metric, "dev", heights), {c.better: c.than for c in record.comparisons}
    ends = axis.span(heights, 0.12)
    # The mean over seeds is the last line of an arm; of one seed, that seed.
    behind = {arm.name: [plots.Line(lines[-1].points, lines[-1].tone)] for arm, lines in curves}
    return [
        plots.line_chart(
            [*behind.get(than.get(arm.name, ""), []), *lines],
            None,
            _x_title(record),
            replace(axis, title=arm.title),
            PANEL,
            n.opening(f"{metric.title} of {arm.title} on the dev split"),
            ends,
        )
        for arm, lines in curves
    ]


def _dev_metric(record: Record) -> Metric:
    """The primary one; agreement with the teacher where dev has no labels."""
    seen = {name for arm in record.arms for run in arm.runs for point in run.curve for name in point.dev}
    return n.metric_named(record, "agreement" if "agreement" in seen and record.metric not in seen else record.metric)


def _teacher_level(teacher: Arm, metric: Metric) -> plots.ReferenceLine | None:
    """The teacher's own dev figure. Its test figure has no place on this axis."""
    best = max if metric.higher_is_better else min
    curves = [(run, at) for run in teacher.runs if (at := _dev_curve(run, metric))]
    on_dev = n.spread([at.get(run.best_step, best(at.values())) for run, at in curves])
    return plots.ReferenceLine(on_dev.mean, "teacher", "teacher") if on_dev else None


def _dev_curve(run: SeedResult, metric: Metric) -> dict[int, float]:
    values = {p.step: p.dev.get(metric.name) for p in run.curve}
    return {step: factor(metric) * value for step, value in values.items() if n.known(value)}


def loss(record: Record) -> Figure | None:
    """The loss that training lowers, as weighted."""
    curves = _curves(record, partial(_loss_curve, term=""), rings=False)
    if not curves:
        return None
    caption = "As weighted; two objectives share no scale, so only the course of each line tells."
    return figure_of(
        "Training loss",
        caption if len(curves) > 1 else "",
        [_loss_chart(record, curves, "", canvas) for canvas in CANVASES],
        legend_of(record, [arm for arm, _ in curves]),
    )


def loss_terms(record: Record) -> list[Markup]:
    """One small panel for each term of the objective: their sizes differ, so they share no axis."""
    names = dict.fromkeys(name for arm in record.arms for run in arm.runs for p in run.curve for name in p.terms)
    terms = {name: _curves(record, partial(_loss_curve, term=name), rings=False) for name in names}
    return [_loss_chart(record, curves, name, PANEL) for name, curves in terms.items() if curves and len(terms) > 1]


def _loss_chart(record: Record, curves: Curves, term: str, canvas: Canvas) -> Markup:
    what, titles = f"term {term}" if term else "as weighted", ", ".join(arm.title for arm, _ in curves)
    lines = [line for _, of_arm in curves for line in of_arm]
    words = f"Training loss, {what}, for {titles}"
    return plots.line_chart(lines, None, _x_title(record), plots.Axis(term or "loss"), canvas, words)


def _loss_curve(run: SeedResult, term: str) -> dict[int, float]:
    values = {p.step: p.terms.get(term) if term else p.loss for p in run.curve}
    return {step: value for step, value in values.items() if n.known(value)}


def _x_title(record: Record) -> str:
    return "epoch" if any(p.epoch for arm in record.arms for run in arm.runs for p in run.curve) else "step"


def _curves(record: Record, values_of: Callable[[SeedResult], dict[int, float]], rings: bool = True) -> Curves:
    """The arms that have such a curve: one faint line for each seed and a strong one for their mean over the steps that
    all of them reached. The teacher is left out, unless it is the only arm."""
    tone, by_epoch, curves = tones(record), _x_title(record) == "epoch", []
    for arm in record.arms:
        runs = [(run, values) for run in arm.runs if len(values := values_of(run)) > 1]
        if not runs or (arm.role == "teacher" and len(record.arms) > 1):
            continue
        at = {p.step: p.epoch if by_epoch else float(p.step) for run in arm.runs for p in run.curve}
        lines = []
        for run, values in runs:
            path = tuple((at[step], values[step]) for step in sorted(values))
            ring = (at[run.best_step], values[run.best_step]) if rings and run.best_step in values else None
            tip = f"{arm.title}, seed {run.seed}\nbest at step {run.best_step}"
            lines.append(plots.Line(path, tone[arm.name], faint=len(runs) > 1, tip=tip, ring=ring))
        common = sorted(set.intersection(*(set(values) for _, values in runs)))
        if len(runs) > 1 and len(common) > 1:
            mean = tuple((at[step], sum(values[step] for _, values in runs) / len(runs)) for step in common)
            lines.append(plots.Line(mean, tone[arm.name]))
        curves.append((arm, lines))
    return curves
