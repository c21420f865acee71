"""A search for a ticket: quality at every sparsity, where training was best, and the sparsest model that matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Level, Record, Stopped
from limbeck.report import figures as n
from limbeck.report import plots
from limbeck.report.charts import CANVASES, Figure, axis_of, factor, figure_of, legend_of, tested, tones

PRUNED = "weights pruned, %"
BANDED = 3  # seeds from which their range is a band


@dataclass(frozen=True)
class Round:
    """All seeds at one sparsity."""

    pruned: float  # the share that went
    quality: n.Spread
    best_step: n.Spread


def searches(record: Record) -> list[Arm]:
    return [arm for arm in record.arms if any(run.levels for run in arm.runs)]


def rounds(record: Record, arm: Arm) -> list[Round]:
    """From the whole model on, as far as all seeds went."""
    found = []
    for levels in zip(*(run.levels for run in arm.runs), strict=False):
        quality = n.spread([level.quality[record.metric] for level in levels if record.metric in level.quality])
        steps = n.spread([float(level.best_step) for level in levels])
        if quality and steps:
            found.append(Round(1 - levels[0].share, quality, steps))
    return found


def matching(record: Record, arm: Arm) -> Round | None:
    """The sparsest within one standard deviation of the whole model's mean; none of a model at the floor."""
    whole, *pruned = rounds(record, arm)
    metric, floor = n.primary(record), n.floor_score(record)
    sign = 1 if metric.higher_is_better else -1
    if whole.quality.sd is None or (floor is not None and sign * (whole.quality.mean - floor) <= whole.quality.sd):
        return None
    least = sign * whole.quality.mean - whole.quality.sd
    enough = [one for one in pruned if sign * one.quality.mean >= least]
    return max(enough, key=lambda one: one.pruned, default=None)


def headline(record: Record, arm: Arm) -> str:
    metric, (whole, *pruned) = n.primary(record), rounds(record, arm)
    if not pruned:
        return ""
    found = matching(record, arm) or pruned[-1]
    scores = [n.score(metric, one.quality.mean, one.quality.sd) for one in (found, whole)]
    return (
        f"With {n.percent(1 - found.pruned, 0)} of its weights the model reaches {metric.title} {scores[0]}, "
        f"with all of them {scores[1]}."
    )


def sentence(record: Record, arm: Arm) -> str:
    """Down to what share the model matches, and how that is meant."""
    whole = rounds(record, arm)[0]
    if whole.quality.sd is None:
        return "One seed says nothing of the spread, so which sparsity matches the whole model is not known."
    meant = "within one standard deviation of the whole model's mean"
    if found := matching(record, arm):
        return f"The sparsest model that matches has lost {n.percent(found.pruned, 0)} of its weights ({meant})."
    floor, sign = n.floor_score(record), 1 if n.primary(record).higher_is_better else -1
    if floor is not None and sign * (whole.quality.mean - floor) <= whole.quality.sd:
        return f"The whole model is not clearly above {n.floor_words(record)}, so no sparsity can be said to match it."
    return f"No sparsity that was tried matches the whole model ({meant})."


def charts_of(record: Record) -> list[Figure]:
    """Quality against what was pruned, and the step at which dev was best."""
    arms = [arm for arm in searches(record) if len(rounds(record, arm)) > 1]
    if not arms:
        return []
    metric = n.primary(record)
    charts = [_chart(record, arms, _quality(metric), n.opening(f"{metric.title} against sparsity"), metric)]
    if all(level.stopped for arm in arms for run in arm.runs for level in run.levels):
        title = f"{n.opening(metric.title)} at the early-stopping iteration"
        charts.append(_chart(record, arms, _stopped(metric), title, metric))
        charts.append(
            _chart(record, arms, lambda level: float(_stop(level).step), "The early-stopping iteration", None)
        )
    else:
        charts.append(_chart(record, arms, lambda level: float(level.best_step), "Where dev was best", None))
    return charts


def _quality(metric: Metric) -> Callable[[Level], float]:
    return lambda level: factor(metric) * level.quality.get(metric.name, 0.0)


def _stopped(metric: Metric) -> Callable[[Level], float]:
    return lambda level: factor(metric) * _stop(level).quality.get(metric.name, 0.0)


def _stop(level: Level) -> Stopped:
    assert level.stopped
    return level.stopped


def _lines(arm: Arm, tone: str, value: Callable[[Level], float]) -> list[plots.Line]:
    """One seed with its dots; of two each faint beside their mean; of more the mean, and a band over all of them."""
    of_seeds = [[(100 * (1 - level.share), value(level)) for level in run.levels] for run in arm.runs]
    if len(of_seeds) == 1:
        return [plots.Line(tuple(of_seeds[0]), tone, tip=f"{arm.title}, seed {arm.runs[0].seed}", dots=True)]
    steps = list(zip(*of_seeds, strict=False))
    means = tuple((at[0][0], sum(y for _, y in at) / len(at)) for at in steps)
    if len(of_seeds) < BANDED:
        faint = [
            plots.Line(tuple(path), tone, faint=True, tip=f"{arm.title}, seed {run.seed}")
            for run, path in zip(arm.runs, of_seeds, strict=True)
        ]
        return [*faint, plots.Line(means, tone, tip=f"{arm.title}, mean", dots=True)]
    band = tuple((at[0][0], min(y for _, y in at), max(y for _, y in at)) for at in steps)
    return [plots.Line(means, tone, tip=f"{arm.title}, mean", dots=True, band=band)]


def _chart(
    record: Record, arms: Sequence[Arm], value: Callable[[Level], float], title: str, metric: Metric | None
) -> Figure:
    tone = tones(record)
    lines = [line for arm in arms for line in _lines(arm, tone[arm.name], value)]
    whole = [line.points[0][1] for line in lines if line.points[0][0] == 0 and not line.faint]
    level = plots.ReferenceLine(whole[0], "all weights", "teacher") if metric and whole else None
    heights = [y for line in lines for _, y in line.points]
    axis = axis_of(metric, tested(record), heights) if metric else plots.Axis("step of the training")
    caption = "One seed."
    if any(line.faint for line in lines):
        caption = "Strong: mean over seeds; faint: each seed."
    elif any(line.band for line in lines):
        caption = "Mean over the seeds, and a band from the lowest to the highest of them."
    draw = [plots.line_chart(lines, level, PRUNED, axis, canvas, title) for canvas in CANVASES]
    return figure_of(title, caption, draw, legend_of(record, arms))
