"""Charts that set arms beside each other: standings, closeness to the teacher, calibration, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from limbeck.core.metric import Metric, metric_of, metrics_of
from limbeck.core.record import Arm, Fidelity, Record
from limbeck.report import dots, svg
from limbeck.report import numbers as n
from limbeck.report.charts import NARROW, WIDE, Figure, axis_title, scaled, tones, wide_range
from limbeck.report.models import models, primary
from limbeck.report.summary import Spread, by_quality, quality, spread, teacher_of

SHARE = Metric("share", "share", "", "share")
MANY = 5  # arms from which a list in order reads better than a cloud of marks

Groups = list[tuple[str, list[svg.Bar]]]


def standing(record: Record) -> Figure | None:
    """The models in order of their quality, where there are many; texts without labels give none."""
    metric = primary(record)
    scored = [(arm, found) for arm in by_quality(record, models(record)) if (found := quality(arm, metric.name))]
    if not scored or (len(scored) < MANY and record.kind != "compare"):
        return None
    tone, rows = tones(record), []
    for arm, found in scored:
        told, drawn = n.score_with_sd(metric, found.mean, found.sd), scaled(metric, found)
        rows.append(dots.Row(arm.title, drawn.mean, told, tone[arm.name], drawn.values, drawn.sd))
    teacher = teacher_of(record)
    level = scaled(metric, found).mean if teacher and (found := quality(teacher, metric.name)) else None
    told = n.opening(f"{metric.title} of every model, the best first: ") + ", ".join(
        f"{r.label} {r.text}" for r in rows
    )
    log = wide_range(metric, (row.value for row in rows))
    draw = partial(dots.dots, rows, axis_title(metric), title=told, level=level, log=log)
    caption = "The best first. "
    caption += "Faint dots are single seeds. " if any(len(row.seeds) > 1 for row in rows) else "One seed each. "
    caption += "The dashes are the teacher." if level is not None else ""
    title = n.opening(f"{metric.title} of every model")
    return Figure(title, caption.strip(), draw(width=WIDE.width), draw(width=NARROW.width))


def closeness(record: Record) -> Figure | None:
    """How close students stay to their teacher: by distributions over a vocabulary, or by right and wrong."""
    return _by_distribution(record) if record.task.level == "vocabulary" else _right_and_wrong(record)


def _right_and_wrong(record: Record) -> Figure | None:
    """How a student does where its teacher is right, and where it is wrong."""
    groups = [*_where(record, "right"), *_where(record, "wrong")]
    caption = f"A copy of the teacher would read 100{n.GAP}% and 0{n.GAP}%; what lies above 0 is the student’s own."
    return _figure("Accuracy by whether the teacher is right", caption, groups)


def _by_distribution(record: Record) -> Figure | None:
    near = [arm for arm in record.arms if arm.role != "teacher"]
    alike = _bars(record, near, lambda f: f.agreement, _percents)
    apart = _bars(record, near, lambda f: f.divergence, _nats)
    agreement, divergence = (metric_of(record.task, name) for name in ("agreement", "divergence"))
    groups: Groups = [(n.opening(agreement.meaning.removeprefix("share of ")), alike)] if alike else []
    groups += _where(record, "right")
    if apart:
        # Nats have no natural end: the longest bar is the arm furthest away.
        longest = max(bar.value for bar in apart) or 1.0
        shares = [svg.Bar(bar.label, bar.value / longest, bar.text, bar.tone) for bar in apart]
        groups.append((f"{divergence.title}, per token: shorter is closer", shares))
    copied = [f"100{n.GAP}%"] * (len(groups) - bool(apart)) + ["0 nats"] * bool(apart)
    caption = (
        f"A copy of the teacher would read {', '.join(copied[:-1])}{' and ' * (len(copied) > 1)}{copied[-1]}."
        if copied
        else ""
    )
    return _figure("How close to the teacher", caption, groups)


def _where(record: Record, which: str) -> Groups:
    """The accuracy of the arms where the teacher is right, or wrong."""
    near = [arm for arm in record.arms if arm.role != "teacher"]
    group = _bars(record, near, lambda f: getattr(f, f"accuracy_teacher_{which}"), _percents)
    counted = max(
        (getattr(run.fidelity, f"teacher_{which}_rows") for arm in near for run in arm.runs if run.fidelity), default=0
    )
    over = f" ({n.plural(counted, record.task.units.prediction)})" if counted else ""
    return [(f"Where the teacher is {which}{over}", group)] if group else []


def _percents(found: Spread) -> str:
    return n.score_with_sd(SHARE, found.mean, found.sd)


def _nats(found: Spread) -> str:
    return f"{n.figure(found.mean)}{n.GAP}nats"


def _bars(
    record: Record, arms: Sequence[Arm], value: Callable[[Fidelity], float | None], write: Callable[[Spread], str]
) -> list[svg.Bar]:
    tone = tones(record)
    found = [(arm, spread(arm, lambda run: value(run.fidelity) if run.fidelity else None)) for arm in arms]
    return [svg.Bar(arm.title, values.mean, write(values), tone[arm.name]) for arm, values in found if values]


def _figure(title: str, caption: str, groups: Groups) -> Figure | None:
    if not groups:
        return None
    told = f"{title}. " + ". ".join(
        f"{name}: " + ", ".join(f"{b.label} {b.text}" for b in group) for name, group in groups
    )
    draw = partial(svg.bars, groups, 1.0, title=told)
    return Figure(title, caption, draw(width=WIDE.width), draw(width=NARROW.width))


def calibration(record: Record) -> Figure | None:
    metric = next((metric for name, metric in metrics_of(record.task).items() if name.endswith("ece")), None)
    scored = [(arm, error) for arm in record.arms if metric and (error := quality(arm, metric.name))]
    if not metric or not scored:
        return None
    tone, title = tones(record), "Calibration"
    group = [
        svg.Bar(arm.title, error.mean, n.score_with_sd(metric, error.mean, error.sd), tone[arm.name])
        for arm, error in scored
    ]
    told = "Expected calibration error: " + ", ".join(f"{bar.label} {bar.text}" for bar in group)
    draw = partial(svg.bars, [("", group)], max(0.05, max(bar.value for bar in group)), title=told)
    meaning = metric.meaning.replace("; lower is better", "")
    caption = f"Expected calibration error: {meaning}. Shorter is better."
    return Figure(title, caption, draw(width=WIDE.width), draw(width=NARROW.width))


def differences(record: Record) -> Figure | None:
    """The comparisons, each with its interval; one that holds zero proves nothing."""
    titles = {arm.name: arm.title for arm in record.arms}  # the best first, as in the table
    found = sorted(record.comparisons, key=lambda c: [*titles, c.better].index(c.better))
    if not found:
        return None
    tone, rows = tones(record), []
    first = found[0]
    metric = metric_of(record.task, first.metric)
    for c in (c for c in found if c.metric == first.metric):
        factor = 100 if metric.is_share else 1
        told = n.difference(metric, c.difference)
        alone = record.kind == "compare"  # the title says against whom
        name = titles.get(c.better, c.better) + ("" if alone else f" − {titles.get(c.than, c.than)}")
        middle, low, high = (factor * v for v in (c.difference, c.low, c.high))
        rows.append(svg.Interval(name, middle, low, high, told, tone.get(c.better, "student")))
    unit = "points of " if metric.is_share else ""
    told = "; ".join(f"{row.label}: {row.text}, from {row.low:.2f} to {row.high:.2f}" for row in rows)
    draw = partial(svg.intervals, rows, f"{unit}{metric.title}", title=f"Paired differences. {told}")
    over = n.plural(first.rows, f"test {record.task.units.row}")
    caption = (
        f"Paired difference on {over}, {n.plural(first.seeds, 'seed')}, "
        f"with its {100 * first.confidence:.4g}{n.GAP}% interval. An interval that holds 0 proves nothing."
    )
    if not metric.higher_is_better:
        caption += f" Lower {metric.title} is better: left of 0, the first one wins."
    title = {"distill": "Did distillation help?", "compare": "Gain over no teacher"}.get(
        record.kind, "Paired differences"
    )
    return Figure(title, caption, draw(width=WIDE.width), draw(width=NARROW.width))
