"""The charts of a Record. Each is drawn twice, for a desk and for a phone, so that its letters keep their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from markupsafe import Markup

from limbeck.core.metric import Metric
from limbeck.core.record import Arm, Record, SeedResult
from limbeck.report import numbers as n
from limbeck.report import svg
from limbeck.report.models import models, primary
from limbeck.report.summary import Spread, quality, subject_of, teacher_of
from limbeck.report.units import decoding, timed

WIDE, NARROW, PANEL = svg.Size(480, 300), svg.Size(310, 260), svg.Size(300, 190)
OTHERS = ("other-1", "other-2", "other-3", "other-4", "other-5", "other-6")
_ROLE_NAMES = (
    ("teacher", "teacher"),
    ("student", "distilled"),
    ("baseline", "without a teacher"),
    ("other-1", "model"),
)


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    wide: Markup
    narrow: Markup
    legend: tuple[tuple[Markup, str], ...] = ()


def tones(record: Record) -> dict[str, str]:
    """A colour and shape for each arm: that of its role, or a spare one when the role has one already."""
    if record.kind == "compare":  # more arms than colours: the role is shown, and names tell the arms apart
        return {arm.name: "student" if arm.role == "model" else arm.role for arm in models(record)}
    chosen: dict[str, str] = {}
    for arm in models(record):
        wanted = "student" if arm.role == "model" else arm.role
        spare = [tone for tone in OTHERS if tone not in chosen.values()] or [OTHERS[-1]]
        chosen[arm.name] = wanted if wanted not in chosen.values() else spare[0]
    return chosen


def legend(record: Record, arms: Sequence[Arm]) -> tuple[tuple[Markup, str], ...]:
    return tuple((svg.swatch(tones(record)[arm.name]), arm.title) for arm in arms)


def trade_offs(records: Sequence[Record]) -> list[Figure]:
    """Size against quality and latency against quality, all models of all records; a pair for each kind of quality."""
    figures = []
    for kind in dict.fromkeys(map(_measured, records)):
        same = [record for record in records if _measured(record) == kind]
        metric = primary(same[0])
        shared = any(metric.name == record.metric and kind != _measured(record) for record in records)
        name = f"{metric.title} ({kind[1]})" if shared else metric.title
        for title, x_title, x_of in (
            (f"Size against {name}", "megabytes on disk", _megabytes),
            (f"Latency against {name}", f"milliseconds per {same[0].task.units.input}, median", _milliseconds),
        ):
            points = [p for record in same for p in _points(record, x_of, alone=len(records) == 1)]
            if len(points) > 1:  # a single one shows nothing that the table does not
                timing = _timing(same) if x_of is _milliseconds and same[0].task.level == "vocabulary" else ""
                figures.append(_trade(title, x_title, metric, points, same, timing))
    return figures


def _measured(record: Record) -> tuple[str, str]:
    """The perplexity of masked tokens and that of next tokens share a name and no scale."""
    return record.metric, record.task.tag if record.task.level != "text" else ""


def _timing(records: Sequence[Record]) -> str:
    how = f", {decoding(records)}" if records[0].task.units.decoded else ""
    return f" Timed: one {timed(records)}{how}."


def _megabytes(arm: Arm) -> float | None:
    return arm.size.bytes_on_disk / 1e6 if arm.size else None


def _milliseconds(arm: Arm) -> float | None:
    return arm.speed.p50_ms if arm.speed else None


def _trade(
    title: str, x_title: str, metric: Metric, points: Sequence[svg.Point], records: Sequence[Record], timing: str
) -> Figure:
    single = len(records) == 1 and not any(p.chain for p in points)
    alone = single and records[0].kind != "compare"
    draw = partial(svg.scatter, points, x_title, axis_title(metric), title=_told(title, points), apart=alone)
    draw = partial(draw, log=wide_range(metric, (p.y for p in points)))
    caption = f"Better lies {'up' if metric.higher_is_better else 'down'} and to the left. "
    caption += "Faint dots are single seeds. " if any(p.seeds for p in points) else ""
    if alone or not single:
        caption += "Whiskers are one standard deviation over seeds." if any(p.sd for p in points) else "One seed each."
    else:
        caption += "Marks are means over seeds; the best of each size is named, the others when pointed at."
    caption += timing
    shown = {p.tone for p in points}
    names = tuple((svg.swatch(tone), name) for tone, name in _ROLE_NAMES if tone in shown)
    key = legend(records[0], [a for a in models(records[0]) if quality(a, metric.name)]) if alone else names
    return Figure(title, caption, draw(size=WIDE), draw(size=NARROW), key)


def _points(record: Record, x_of: Callable[[Arm], float | None], alone: bool) -> list[svg.Point]:
    """A point for each model. Beside other runs, colour tells the role and the name tells the run."""
    points, metric = [], primary(record)
    for arm in models(record):
        x, y = x_of(arm), quality(arm, record.metric)
        if x is None or y is None:
            continue
        sure = n.score_with_sd(metric, y.mean, y.sd)
        unit = n.megabytes(x * 1e6) if x_of is _megabytes else n.milliseconds(x)
        many = scaled(metric, y)
        point = svg.Point(
            x, many.mean, tones(record)[arm.name], _short(arm.title), f"{arm.title}\n{sure} · {unit}", sd=many.sd
        )
        if alone and record.kind == "compare":
            point = replace(point, sd=None)
        elif alone:
            point = replace(point, seeds=many.values if len(many.values) > 1 else ())
        else:
            role = "other-1" if arm.role == "model" else arm.role
            name = {"baseline": "", "teacher": "teacher"}.get(arm.role if len(record.arms) > 1 else "", record.name)
            if arm.role == "student" and arm is not subject_of(record):
                name = ""
            chain = record.name if arm is subject_of(record) or arm is teacher_of(record) else ""
            point = replace(point, tone=role, label=_short(name), tip=f"{record.name}: {point.tip}", chain=chain)
        points.append(point)
    return _sparse(points, metric) if alone and record.kind == "compare" else points


def _sparse(points: Sequence[svg.Point], metric: Metric) -> list[svg.Point]:
    """Names for the best of each size only: arms of one shape share an x, and their names would have no room."""
    pick = max if metric.higher_is_better else min
    best = {p.x: pick((q for q in points if q.x == p.x), key=lambda q: q.y) for p in points}
    return [p if p is best[p.x] else replace(p, label="") for p in points]


def _short(name: str, longest: int = 28) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def scaled(metric: Metric, values: Spread) -> Spread:
    return Spread(tuple(100 * v for v in values.values)) if metric.is_share else values


def axis_title(metric: Metric) -> str:
    title = f"{metric.title}, %" if metric.is_share else metric.title
    return title if metric.higher_is_better else f"{title}, lower is better"


def wide_range(metric: Metric, values: Iterable[float]) -> bool:
    """Whether an axis needs logarithms: a perplexity may begin a thousand times higher than it ends."""
    found = list(values)
    return metric.unit == "perplexity" and bool(found) and max(found) > 5 * min(found) > 0


def _told(title: str, points: Sequence[svg.Point]) -> str:
    """The chart in words, for those who cannot see it."""
    return f"{title}. " + "; ".join(p.tip.replace("\n", " ") for p in points[:12])


def learning(record: Record) -> Figure | None:
    """The metric on the dev set as training goes on."""
    metric, teacher = primary(record), teacher_of(record)
    arms = [arm for arm in record.arms if has_curve(arm, metric) and (arm is not teacher or len(record.arms) == 1)]
    if not arms:
        return None
    by_epoch = any(point.epoch for arm in arms for run in arm.runs for point in run.curve)
    tone, lines = tones(record), []
    for arm in arms:
        lines += curves(arm, tone[arm.name], by_epoch, partial(dev_curve, metric=metric))
    level = _teacher_level(record, teacher) if teacher and teacher not in arms else None
    title = n.opening(f"{metric.title} on the dev split")
    draw = partial(
        svg.line_chart,
        lines,
        [level] if level else [],
        "epoch" if by_epoch else "step",
        axis_title(metric),
        title=f"{title}, for {', '.join(arm.title for arm in arms)}",
        whole=True,
        log=wide_range(metric, [y for line in lines for _, y in line.points] + ([level.y] if level else [])),
    )
    caption = "Strong: mean over seeds; faint: each seed. " if any(len(arm.runs) > 1 for arm in arms) else ""
    caption += "Rings mark the checkpoint that was kept." if any(line.ring for line in lines) else ""
    return Figure(title, caption.strip(), draw(size=WIDE), draw(size=NARROW), legend(record, arms))


def dev_curve(run: SeedResult, metric: Metric) -> dict[int, float]:
    factor = 100 if metric.is_share else 1
    return {p.step: factor * p.dev[metric.name] for p in run.curve if n.known(p.dev.get(metric.name))}


def has_curve(arm: Arm, metric: Metric) -> bool:
    return any(len(dev_curve(run, metric)) > 1 for run in arm.runs)


def _teacher_level(record: Record, teacher: Arm) -> svg.Level | None:
    metric = primary(record)
    best = max if metric.higher_is_better else min
    curves = [(run, at) for run in teacher.runs if (at := dev_curve(run, metric))]
    on_dev = [at.get(run.best_step, best(at.values())) for run, at in curves]
    if on_dev:
        return svg.Level(Spread(tuple(on_dev)).mean, "teacher", "teacher")
    tested = quality(teacher, record.metric)
    return svg.Level(scaled(metric, tested).mean, "teacher, on the test split", "teacher") if tested else None


def curves(arm: Arm, tone: str, by_epoch: bool, values_of: Callable[[SeedResult], dict[int, float]]) -> list[svg.Line]:
    """One faint line for each seed and a strong one for their mean over the steps that all of them reached."""
    at = {p.step: p.epoch if by_epoch else float(p.step) for run in arm.runs for p in run.curve}
    found = [(run, values) for run in arm.runs if len(values := values_of(run)) > 1]
    lines = []
    for run, values in found:
        path = tuple((at[step], values[step]) for step in sorted(values))
        ring = (at[run.best_step], values[run.best_step]) if run.best_step in values else None
        tip = f"{arm.title}, seed {run.seed}\nbest at step {run.best_step}"
        lines.append(svg.Line(path, tone, faint=len(found) > 1, tip=tip, ring=ring))
    if len(found) > 1:
        common = sorted(set.intersection(*(set(values) for _, values in found)))
        mean = tuple((at[step], sum(values[step] for _, values in found) / len(found)) for step in common)
        lines += [svg.Line(mean, tone)] if len(mean) > 1 else []
    return lines


def loss(record: Record) -> Figure | None:
    """The loss that training lowers, as weighted."""
    arms, draw = _losses(record, "")
    if draw is None:
        return None
    caption = "As weighted; two objectives share no scale, so only the course of each line tells."
    return Figure(
        "Training loss", caption if len(arms) > 1 else "", draw(size=WIDE), draw(size=NARROW), legend(record, arms)
    )


def loss_terms(record: Record) -> list[Markup]:
    """One small panel for each term of the objective: their sizes differ, so they share no axis."""
    names = dict.fromkeys(name for arm in record.arms for run in arm.runs for p in run.curve for name in p.terms)
    drawn = {name: _losses(record, name)[1] for name in names} if len(names) > 1 else {}
    return [draw(size=PANEL) for draw in drawn.values() if draw]


def _losses(record: Record, name: str) -> tuple[list[Arm], Callable[..., Markup] | None]:
    """The arms that have this term (or, unnamed, the whole loss), and how to draw it."""
    by_epoch = any(point.epoch for arm in record.arms for run in arm.runs for point in run.curve)
    values_of, tone, arms, lines = partial(_term, name=name), tones(record), [], []
    for arm in record.arms:
        found = (
            curves(arm, tone[arm.name], by_epoch, values_of) if arm.role != "teacher" or len(record.arms) == 1 else []
        )
        if found:
            arms.append(arm)
            lines += [replace(line, ring=None) for line in found]
    x_title = "epoch" if by_epoch else "step"
    title = f"Training loss, {f'term {name}' if name else 'as weighted'}, for {', '.join(arm.title for arm in arms)}"
    return arms, partial(svg.line_chart, lines, [], x_title, name or "loss", title=title, whole=True) if lines else None


def _term(run: SeedResult, name: str) -> dict[int, float]:
    values = {p.step: p.terms.get(name) if name else p.loss for p in run.curve}
    return {step: value for step, value in values.items() if value is not None and n.known(value)}
