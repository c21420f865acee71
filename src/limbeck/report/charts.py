"""The charts of a Record. Each is drawn twice, for a desk and for a phone, so that its letters keep their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from markupsafe import Markup

from limbeck.core.metric import Metric, metrics_of
from limbeck.core.record import Arm, Record, SeedResult
from limbeck.report import figures as n
from limbeck.report import plots
from limbeck.report.figures import Spread
from limbeck.report.svg import Canvas, span, swatch

WIDE, NARROW, PANEL = Canvas(480, 300), Canvas(310, 260), Canvas(300, 190)
OTHERS = ("other-1", "other-2", "other-3", "other-4", "other-5", "other-6")
_ROLE_NAMES = {
    "teacher": "teacher",
    "student": "distilled",
    "baseline": "without a teacher",
    "other-1": "model",
}
SHARE = Metric("share", "share", "", "share")
MANY = 5  # arms from which a list in order reads better than a cloud of marks

Legend = tuple[tuple[Markup, str], ...]
Groups = list[tuple[str, list[plots.Value]]]
Curves = list[tuple[Arm, list[plots.Line]]]


@dataclass(frozen=True)
class Figure:
    title: str
    caption: str
    wide: Markup
    narrow: Markup
    legend: Legend = ()


def _figure(title: str, caption: str, draw: Callable[[Canvas], Markup], legend: Legend = ()) -> Figure:
    return Figure(title, caption.strip(), draw(WIDE), draw(NARROW), legend)


def tones(record: Record) -> dict[str, str]:
    """A colour and shape for each arm: that of its role, or a spare one when the role has one already."""
    roles: dict[str, str] = {arm.name: "student" if arm.role == "model" else arm.role for arm in n.models(record)}
    if record.kind == "compare":  # more arms than colours: the role is shown, and names tell the arms apart
        return roles
    chosen: dict[str, str] = {}
    for name, role in roles.items():
        spare = [tone for tone in OTHERS if tone not in chosen.values()] or [OTHERS[-1]]
        chosen[name] = role if role not in chosen.values() else spare[0]
    return chosen


def swatches(record: Record) -> dict[str, Markup]:
    return {name: swatch(tone) for name, tone in tones(record).items()}


def _legend(record: Record, arms: Sequence[Arm]) -> Legend:
    marks = swatches(record)
    return tuple((marks[arm.name], arm.title) for arm in arms)


def axis_title(metric: Metric) -> str:
    title = f"{metric.title}, %" if metric.unit == "share" else metric.title
    return title if metric.higher_is_better else f"{title}, lower is better"


def wide_range(metric: Metric, values: Sequence[float]) -> bool:
    """Whether an axis needs logarithms: a perplexity may begin a thousand times higher than it ends."""
    return metric.unit == "perplexity" and bool(values) and max(values) > 5 * min(values) > 0


def _factor(metric: Metric) -> int:
    """Shares are drawn in per cent."""
    return 100 if metric.unit == "share" else 1


def _scaled(metric: Metric, figure: Spread) -> Spread:
    return Spread(tuple(_factor(metric) * value for value in figure.values))


# What was traded for what.


def trade_offs(records: Sequence[Record]) -> list[Figure]:
    """Size against quality and latency against quality, all models of all records; a pair for each kind of quality."""
    figures = []
    for kind in dict.fromkeys(map(_kind_of_quality, records)):
        same = [record for record in records if _kind_of_quality(record) == kind]
        metric = n.primary(same[0])
        shared = any(metric.name == record.metric and kind != _kind_of_quality(record) for record in records)
        name = f"{metric.title} ({kind[1]})" if shared else metric.title
        for cost, x_title in (
            ("Size", "megabytes on disk"),
            ("Latency", f"milliseconds per {n.units(same[0]).input}, median"),
        ):
            points = [point for record in same for point in _points(record, cost, alone=len(records) == 1)]
            if len(points) > 1:  # a single one shows nothing that the table does not
                timing = _timing(same) if cost == "Latency" else ""
                figures.append(_trade_off(f"{cost} against {name}", x_title, metric, points, same, timing))
    return figures


def _kind_of_quality(record: Record) -> tuple[str, str]:
    """The perplexity of masked tokens and that of next tokens share a name and no scale."""
    return record.metric, record.task.tag if record.task.level != "text" else ""


def _timing(records: Sequence[Record]) -> str:
    if records[0].task.level != "vocabulary":
        return ""
    how = f", {n.decoding(records)}" if n.units(records[0]).decoded else ""
    return f" Timed: one {n.timed(records)}{how}."


def _points(record: Record, cost: str, alone: bool) -> list[plots.Point]:
    """A point for each model. Beside other runs, colour tells the role and the name tells the run."""
    points, metric, tone, subject = [], n.primary(record), tones(record), n.subject_of(record)
    for arm in n.models(record):
        y = n.quality(arm, record.metric)
        if y is None:
            continue
        if cost == "Size" and arm.size:
            x, unit = arm.size.bytes_on_disk / 1e6, n.megabytes(arm.size.bytes_on_disk)
        elif cost == "Latency" and arm.speed:
            x, unit = arm.speed.p50_ms, n.milliseconds(arm.speed.p50_ms)
        else:
            continue
        drawn, tip = _scaled(metric, y), f"{arm.title}\n{n.score(metric, y.mean, y.sd)} · {unit}"
        point = plots.Point(x, drawn.mean, tone[arm.name], _short(arm.title), tip, sd=drawn.sd)
        if alone and record.kind == "compare":
            point = replace(point, sd=None)
        elif alone:
            point = replace(point, seeds=drawn.values if len(drawn.values) > 1 else ())
        else:
            role = "other-1" if arm.role == "model" else arm.role
            name = {"baseline": "", "teacher": "teacher"}.get(arm.role if len(record.arms) > 1 else "", record.name)
            if arm.role == "student" and arm is not subject:
                name = ""
            chain = record.name if arm is subject or arm is n.teacher_of(record) else ""
            point = replace(point, tone=role, label=_short(name), tip=f"{record.name}: {tip}", chain=chain)
        points.append(point)
    return _sparse(points, metric) if alone and record.kind == "compare" else points


def _sparse(points: Sequence[plots.Point], metric: Metric) -> list[plots.Point]:
    """Names for the best of each size only: arms of one shape share an x, and their names would have no room."""
    pick = max if metric.higher_is_better else min
    best = {p.x: pick((q for q in points if q.x == p.x), key=lambda q: q.y) for p in points}
    return [p if p is best[p.x] else replace(p, label="") for p in points]


def _short(name: str, longest: int = 28) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _trade_off(
    title: str, x_title: str, metric: Metric, points: Sequence[plots.Point], records: Sequence[Record], timing: str
) -> Figure:
    single = len(records) == 1 and not any(p.chain for p in points)
    alone = single and records[0].kind != "compare"
    words = f"{title}. " + "; ".join(p.tip.replace("\n", " ") for p in points[:12])  # for those who cannot see it
    log = wide_range(metric, [p.y for p in points])
    caption = f"Better lies {'up' if metric.higher_is_better else 'down'} and to the left. "
    caption += "Faint dots are single seeds. " if any(p.seeds for p in points) else ""
    if alone or not single:
        caption += "Whiskers are one standard deviation over seeds." if any(p.sd for p in points) else "One seed each."
    else:
        caption += "Marks are means over seeds; the best of each size is named, the others when pointed at."
    shown = {p.tone for p in points}
    legend = tuple((swatch(tone), name) for tone, name in _ROLE_NAMES.items() if tone in shown)
    if alone:
        legend = _legend(records[0], [arm for arm in n.models(records[0]) if n.quality(arm, metric.name)])
    return _figure(
        title,
        caption + timing,
        lambda canvas: plots.scatter(points, x_title, axis_title(metric), canvas, words, alone, log),
        legend,
    )


# Arms beside each other.


def standing(record: Record) -> Figure | None:
    """The models in order of their quality, where there are many; texts without labels give none."""
    metric, teacher, tone = n.primary(record), n.teacher_of(record), tones(record)
    scored = [
        (arm, figure) for arm in n.by_quality(record, n.models(record)) if (figure := n.quality(arm, metric.name))
    ]
    if not scored or (len(scored) < MANY and record.kind != "compare"):
        return None
    rows = []
    for arm, figure in scored:
        score, drawn = n.score(metric, figure.mean, figure.sd), _scaled(metric, figure)
        rows.append(plots.Value(arm.title, drawn.mean, score, tone[arm.name], drawn.values, drawn.sd))
    level = next((row.value for row, (arm, _) in zip(rows, scored, strict=True) if arm is teacher), None)
    title = n.opening(f"{metric.title} of every model")
    words = f"{title}, the best first: " + ", ".join(f"{row.label} {row.text}" for row in rows)
    log = wide_range(metric, [row.value for row in rows])
    caption = "The best first. "
    caption += "Faint dots are single seeds. " if any(len(row.seeds) > 1 for row in rows) else "One seed each. "
    caption += "The dashes are the teacher." if level is not None else ""
    return _figure(title, caption, lambda canvas: plots.dots(rows, axis_title(metric), canvas.width, words, level, log))


def closeness(record: Record) -> Figure | None:
    """How close students stay to their teacher: by distributions over a vocabulary, or by right and wrong."""
    if record.task.level == "vocabulary":
        return _by_distribution(record)
    groups = [*_where(record, "right"), *_where(record, "wrong")]
    caption = f"A copy of the teacher would read 100{n.GAP}% and 0{n.GAP}%; what lies above 0 is the student’s own."
    return _bars("Accuracy by whether the teacher is right", caption, groups)


def _by_distribution(record: Record) -> Figure | None:
    agreement, divergence = (n.metric_named(record, name) for name in ("agreement", "divergence"))
    groups: Groups = []
    if alike := _values(record, _fidelities(record, "agreement"), agreement):
        groups.append((n.opening(agreement.meaning.removeprefix("share of ")), alike))
    groups += _where(record, "right")
    copied = [f"100{n.GAP}%"] * len(groups)
    if apart := _values(record, _fidelities(record, "divergence"), divergence):
        # Nats have no natural end: the longest bar is the arm furthest away.
        longest = max(bar.value for bar in apart) or 1.0
        nats = [replace(bar, value=bar.value / longest, text=f"{n.figure(bar.value)}{n.GAP}nats") for bar in apart]
        groups.append((f"{divergence.title}, per token: shorter is closer", nats))
        copied.append("0 nats")
    listed = " and ".join(filter(None, [", ".join(copied[:-1]), *copied[-1:]]))
    return _bars("How close to the teacher", f"A copy of the teacher would read {listed}.", groups)


def _where(record: Record, which: str) -> Groups:
    """The accuracy of the arms where the teacher is right, or wrong."""
    group = _values(record, _fidelities(record, f"accuracy_teacher_{which}"), SHARE)
    runs = [run for arm in record.arms if arm.role != "teacher" for run in arm.runs]
    rows = max((getattr(run.fidelity, f"teacher_{which}_rows") for run in runs if run.fidelity), default=0)
    over = f" ({n.plural(rows, n.units(record).prediction)})" if rows else ""
    return [(f"Where the teacher is {which}{over}", group)] if group else []


def _fidelities(record: Record, name: str) -> list[tuple[Arm, Spread | None]]:
    return [(arm, n.fidelity(arm, name)) for arm in record.arms if arm.role != "teacher"]


def calibration(record: Record) -> Figure | None:
    metric = next((metric for name, metric in metrics_of(record.task).items() if name.endswith("ece")), None)
    if metric is None:
        return None
    group = _values(record, [(arm, n.quality(arm, metric.name)) for arm in record.arms], metric)
    meaning = metric.meaning.replace("; lower is better", "")
    caption = f"Expected calibration error: {meaning}. Shorter is better."
    return _bars("Calibration", caption, [("", group)] if group else [], "Expected calibration error")


def _values(record: Record, figures: Sequence[tuple[Arm, Spread | None]], metric: Metric) -> list[plots.Value]:
    tone = tones(record)
    return [
        plots.Value(arm.title, figure.mean, n.score(metric, figure.mean, figure.sd), tone[arm.name])
        for arm, figure in figures
        if figure
    ]


def _bars(title: str, caption: str, groups: Groups, only: str = "") -> Figure | None:
    """Shares, on a scale that ends at 1; or one group that is called `only`, to be seen next to nothing."""
    if not groups:
        return None
    listed = [f"{name or only}: " + ", ".join(f"{bar.label} {bar.text}" for bar in group) for name, group in groups]
    words = listed[0] if only else f"{title}. " + ". ".join(listed)
    top = max(0.05, *(bar.value for bar in groups[0][1])) if only else 1.0
    return _figure(title, caption, lambda canvas: plots.bars(groups, top, canvas.width, words))


def differences(record: Record) -> Figure | None:
    """The comparisons, each with its interval; one that holds zero proves nothing."""
    titles, tone = {arm.name: arm.title for arm in record.arms}, tones(record)
    in_order = sorted(record.comparisons, key=lambda c: [*titles, c.better].index(c.better))  # as in the table
    if not in_order:
        return None
    first, rows = in_order[0], []
    metric = n.metric_named(record, first.metric)
    for c in (c for c in in_order if c.metric == first.metric):
        # The title of a comparison says against whom.
        than = "" if record.kind == "compare" else f" − {titles.get(c.than, c.than)}"
        middle, low, high = (_factor(metric) * value for value in (c.difference, c.low, c.high))
        text = n.difference(metric, c.difference)
        name = titles.get(c.better, c.better) + than
        rows.append(plots.Interval(name, middle, low, high, text, tone.get(c.better, "student")))
    x_title = f"points of {metric.title}" if metric.unit == "share" else metric.title
    listed = "; ".join(f"{row.label}: {row.text}, from {row.low:.2f} to {row.high:.2f}" for row in rows)
    words = f"Paired differences. {listed}"
    over = n.plural(first.rows, f"test {n.units(record).row}")
    caption = (
        f"Paired difference on {over}, {n.plural(first.seeds, 'seed')}, "
        f"with its {100 * first.confidence:.4g}{n.GAP}% interval. An interval that holds 0 proves nothing."
    )
    if not metric.higher_is_better:
        caption += f" Lower {metric.title} is better: left of 0, the first one wins."
    titles_of_kinds = {"distill": "Did distillation help?", "compare": "Gain over no teacher"}
    title = titles_of_kinds.get(record.kind, "Paired differences")
    return _figure(title, caption, lambda canvas: plots.intervals(rows, x_title, canvas.width, words))


# As training goes on.


def learning(record: Record) -> Figure | None:
    """The metric on the dev set as training goes on."""
    metric, teacher = n.primary(record), n.teacher_of(record)
    curves = _curves(record, partial(_dev_curve, metric=metric))
    if not curves:
        return None
    arms, lines = [arm for arm, _ in curves], [line for _, of_arm in curves for line in of_arm]
    levels = _teacher_level(record, teacher) if teacher and teacher not in arms else []
    title, x_title = n.opening(f"{metric.title} on the dev split"), _x_title(record)
    words = f"{title}, for {', '.join(arm.title for arm in arms)}"
    log = wide_range(metric, [y for line in lines for _, y in line.points] + [level.y for level in levels])
    caption = "Strong: mean over seeds; faint: each seed. " if any(len(arm.runs) > 1 for arm in arms) else ""
    caption += "Rings mark the checkpoint that was kept." if any(line.ring for line in lines) else ""
    return _figure(
        title,
        caption,
        lambda canvas: plots.line_chart(lines, levels, x_title, axis_title(metric), canvas, words, log),
        _legend(record, arms),
    )


def curve_panels(record: Record) -> list[Markup]:
    """How many arms learned: a small panel for each, all on one scale, with the same student without a teacher behind;
    in the order of the arms."""
    metric = n.primary(record)
    curves = _curves(record, partial(_dev_curve, metric=metric))
    heights = [y for _, lines in curves for line in lines for _, y in line.points]
    if not heights:
        return []
    log, than = wide_range(metric, heights), {c.better: c.than for c in record.comparisons}
    ends = span(heights, log, 0.12)
    # The mean over seeds is the last line of an arm; of one seed, that seed.
    behind = {arm.name: [plots.Line(lines[-1].points, lines[-1].tone)] for arm, lines in curves}
    return [
        plots.line_chart(
            [*behind.get(than.get(arm.name, ""), []), *lines],
            [],
            _x_title(record),
            arm.title,
            PANEL,
            n.opening(f"{metric.title} of {arm.title} on the dev split"),
            log,
            ends,
        )
        for arm, lines in curves
    ]


def _teacher_level(record: Record, teacher: Arm) -> list[plots.Level]:
    metric = n.primary(record)
    best = max if metric.higher_is_better else min
    curves = [(run, at) for run in teacher.runs if (at := _dev_curve(run, metric))]
    if on_dev := n.spread([at.get(run.best_step, best(at.values())) for run, at in curves]):
        return [plots.Level(on_dev.mean, "teacher", "teacher")]
    tested = n.quality(teacher, record.metric)
    return [plots.Level(_scaled(metric, tested).mean, "teacher, on the test split", "teacher")] if tested else []


def _dev_curve(run: SeedResult, metric: Metric) -> dict[int, float]:
    values = {p.step: p.dev.get(metric.name) for p in run.curve}
    return {step: _factor(metric) * value for step, value in values.items() if n.known(value)}


def loss(record: Record) -> Figure | None:
    """The loss that training lowers, as weighted."""
    curves = _curves(record, partial(_loss_curve, term=""), rings=False)
    if not curves:
        return None
    caption = "As weighted; two objectives share no scale, so only the course of each line tells."
    return _figure(
        "Training loss",
        caption if len(curves) > 1 else "",
        lambda canvas: _loss_chart(record, curves, "", canvas),
        _legend(record, [arm for arm, _ in curves]),
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
    return plots.line_chart(lines, [], _x_title(record), term or "loss", canvas, words)


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
