"""The predictions of models as charts: close to the teacher or not, right or wrong, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from limbeck.core.metric import Metric, metrics_of
from limbeck.core.record import Arm, Record, ReliabilityBin
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report import plots
from limbeck.report.charts import CANVASES, Figure, Legend, figure_of, swatches, tones
from limbeck.report.figures import Spread
from limbeck.report.svg import swatch

SHARE = Metric("share", "share", "", "share")
RIGHT_WRONG: Legend = ((swatch("right"), "right"), (swatch("wrong"), "wrong"))
MOST_LABELS = 60  # of a matrix; of more, those with the most mistakes

Groups = list[tuple[str, list[plots.Value]]]


def closeness(record: Record) -> Figure | None:
    """How close students stay to their teacher: by distributions over a vocabulary, or by right and wrong."""
    if record.task.level == "vocabulary":
        return _by_distribution(record)
    groups = [*_where(record, "right"), *_where(record, "wrong")]
    caption = f"A copy of the teacher would read 100{n.GAP}% and 0{n.GAP}%; what lies above 0 is the student’s own."
    if groups and n.units(record).judged == "right":
        caption += " Right: the prediction is the label."
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
    sign = "✓" if which == "right" else "✗"
    return [(f"{sign} Where the teacher is {which}{over}", group)] if group else []


def _fidelities(record: Record, name: str) -> list[tuple[Arm, Spread | None]]:
    return [(arm, n.fidelity(arm, name)) for arm in record.arms if arm.role != "teacher"]


def calibration(record: Record, arms: Sequence[Arm]) -> Figure | None:
    """How sure these models are beside how often they are right: a curve, or one figure of it for every model."""
    metric = next((metric for name, metric in metrics_of(record.task).items() if name.endswith("ece")), None)
    if metric is None:
        return None
    if curve := _reliability(record, arms, metric):
        return curve
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
    return figure_of(title, caption, [plots.bars(groups, top, canvas.width, words) for canvas in CANVASES])


def _reliability(record: Record, arms: Sequence[Arm], metric: Metric) -> Figure | None:
    tone, marks, series, legend = tones(record), swatches(record), [], []
    for arm in arms:
        bins = _pooled([one for run in arm.runs for one in run.reliability if one.rows])
        if not bins:
            continue
        rows, error = sum(one.rows for one in bins), n.quality(arm, metric.name)
        points = [
            plots.Bubble(
                100 * one.confidence,
                100 * one.accuracy,
                one.rows / rows,
                f"{arm.title}\n{n.plural(one.rows, n.units(record).prediction)}: sure {n.percent(one.confidence)}, "
                f"right {n.percent(one.accuracy)}",
            )
            for one in bins
        ]
        series.append((tone[arm.name], points))
        legend.append((marks[arm.name], f"{arm.title}, error {n.score(metric, error.mean)}" if error else arm.title))
    if not series:
        return None
    titles = [name for _, name in legend]
    meaning = metric.meaning.replace("; lower is better", "")
    caption = (
        "Below the dashes a model is surer than it is right, above them less sure. A larger dot stands for more "
        f"{n.units(record).prediction}s. Error: expected calibration error, {meaning}; lower is better."
    )
    axis = plots.Axis("of these are right, %")
    words = "Confidence against accuracy: " + "; ".join(titles)
    pictures = [plots.bubbles(series, "mean confidence, %", axis, canvas, words) for canvas in CANVASES]
    return figure_of("How sure, and how often right", caption, pictures, tuple(legend))


def _pooled(bins: Sequence[ReliabilityBin]) -> list[ReliabilityBin]:
    """Of all seeds together, from the least sure to the surest."""
    together: dict[tuple[float, float], list[ReliabilityBin]] = {}
    for one in bins:
        together.setdefault((one.low, one.high), []).append(one)
    return [_sum(together[ends]) for ends in sorted(together)]


def _sum(bins: Sequence[ReliabilityBin]) -> ReliabilityBin:
    rows = sum(one.rows for one in bins)
    means = {key: sum(one.rows * getattr(one, key) for one in bins) / rows for key in ("confidence", "accuracy")}
    return bins[0].but(rows=rows, **means)


def confusions(record: Record, arms: Sequence[Arm]) -> list[Figure]:
    """Which label was taken for which, by the student that the record is about and by the teacher."""
    subject, labels, found = m.subject_of(record), record.task.labels, []
    for arm in (arm for arm in arms if arm is subject or arm.role == "teacher"):
        tables = [run.confusion for run in arm.runs if len(run.confusion) == len(labels) > 1]
        if not tables:
            continue
        counts = [[sum(cells) / len(tables) for cells in zip(*rows, strict=True)] for rows in zip(*tables, strict=True)]
        found.append(_confusion(record, arm, counts, seeds=len(tables)))
    return found


def _confusion(record: Record, arm: Arm, counts: list[list[float]], seeds: int) -> Figure:
    labels, unit = record.task.labels, f"{n.units(record).prediction}s"
    mistakes = sorted(
        ((counts[i][j], i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j and counts[i][j]),
        key=lambda cell: -cell[0],
    )
    shown = list(range(len(labels)))
    if len(labels) > MOST_LABELS:
        wrong = {i: sum(row) - row[i] + sum(other[i] for other in counts) - row[i] for i, row in enumerate(counts)}
        shown = sorted(sorted(wrong, key=lambda i: -wrong[i])[:MOST_LABELS])
    names, kept = [labels[i] for i in shown], [[counts[i][j] for j in shown] for i in shown]
    often = [f"{labels[i]} taken for {labels[j]} ({n.count(count)})" for count, i, j in mistakes[:3]]
    caption = f"{n.opening(unit)}{f', mean of {seeds} seeds' if seeds > 1 else ''}; the darker, the more of its label. "
    caption += f"Most often {', '.join(often)}. " if often else "No mistakes. "
    caption += f"The {MOST_LABELS} labels with the most mistakes, of {len(labels)}." if len(names) < len(labels) else ""
    title = f"Label and prediction: {arm.title}"
    pictures = [plots.grid(names, kept, canvas, f"{title}. {caption}", unit) for canvas in CANVASES]
    return figure_of(title, caption, pictures, RIGHT_WRONG)
