"""docs/few-labels.md and its picture: points gained against labels, from the Records of benchmarks/few_labels.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from limbeck.core.record import Arm, Comparison, Record
from limbeck.report import figures as n
from limbeck.report import plots, svg
from limbeck.report.charts import factor

CORPORA = {"sst2": "SST-2, sentences", "mrpc": "MRPC, pairs", "stsb": "STS-B, pairs with a number"}
PLAIN = "labels"  # the student that is never asked anything of a teacher
MAIN = (PLAIN, "labels-longer", "soft", "transfer")  # what every number of labels has
TONES = {"labels-longer": "baseline", "soft": "other-1", "transfer": "student"}
WIDTH, MARGIN, LEAST = 560.0, 16.0, 1.0
_NAME = re.compile(r"few_labels_(?P<corpus>[a-z0-9]+)_(?P<labels>\d+)(?P<schedule>_schedule)?")
INTRODUCTION = """\
A few labels, and many texts without: what a teacher of the same few labels gives a small student. Every number of
labels has three draws, each with its own labels, teacher and students; a fifth of the labels chooses the weights, for
all students alike. Students start from the pre-trained MiniLM-L6's first layers, not from the teacher. Test is the
whole of the task's test file. Mean ± one standard deviation over the draws; a gain is over the same student from
labels alone, with the interval of the paired difference over test rows and draws (`benchmarks/few_labels.py`)."""


def page(records: Mapping[str, Record]) -> str:
    """Of all Records that the names tell, `few_labels_sst2_500` and so on."""
    found = by_labels(records)
    parts = ["# Few labels, many texts", INTRODUCTION, "![Points gained against labels](few-labels.svg)"]
    for corpus, title in CORPORA.items():
        of_it = {labels: record for (name, labels), record in found.items() if name == corpus}
        if of_it:
            parts += [f"## {title}", "\n".join(table(of_it))]
        for labels, record in of_it.items():
            if len(record.arms) > len(MAIN) + 1:
                parts += [f"### More at {labels:,} labels", "\n".join(others(record))]
            if schedule := records.get(f"few_labels_{corpus}_{labels}_schedule"):
                parts += ["### Epochs", "Of the first draw alone.", "\n".join(others(schedule))]
    first = next(iter(found.values()))
    notes = (*first.notes, f"made on {first.machine.processor}, {n.plural(first.machine.cores, 'core')}")
    return "\n\n".join([*parts, "## How it was measured", "\n".join(f"- {note}" for note in notes)]) + "\n"


def by_labels(records: Mapping[str, Record]) -> dict[tuple[str, int], Record]:
    """(corpus, number of labels) → Record, in order."""
    names = {name: told for name in records if (told := _NAME.fullmatch(name)) and not told["schedule"]}
    found = {(told["corpus"], int(told["labels"])): records[name] for name, told in names.items()}
    corpora = list(CORPORA)
    return {key: found[key] for key in sorted(found, key=lambda key: (corpora.index(key[0]), key[1]))}


def table(records: Mapping[int, Record]) -> Iterator[str]:
    """A line for every number of labels."""
    first = next(iter(records.values()))
    titles = [first.arm(name).title for name in MAIN]
    yield f"| labels | teacher | {' | '.join(titles)} | gain | of the gap |"
    yield "|---:" * (len(MAIN) + 4) + "|"
    for labels, record in records.items():
        scores = [_score(record, record.arm(name)) for name in ("teacher", *MAIN)]
        yield f"| {labels:,} | {' | '.join(scores)} | {_gain(record, 'transfer')} | {_share(record)} |"


def others(record: Record) -> Iterator[str]:
    """A line for every arm, with what it gained over its own baseline."""
    yield "| student | score | gain |"
    yield "|---|---:|---:|"
    for arm in record.arms:
        yield f"| {arm.title} | {_score(record, arm)} | {_gain(record, arm.name)} |"


def _score(record: Record, arm: Arm) -> str:
    found = n.quality(arm, record.metric)
    return n.score(n.primary(record), found.mean, found.sd) if found else n.NOTHING


def _compared(record: Record, name: str) -> Comparison | None:
    return next((c for c in record.comparisons if c.better == name and c.metric == record.metric), None)


def _gain(record: Record, name: str) -> str:
    found = _compared(record, name)
    if found is None:
        return ""
    metric = n.primary(record)
    times, digits = factor(metric), 1 if metric.unit == "share" else 3
    middle, low, high = (f"{times * value:+.{digits}f}" for value in (found.difference, found.low, found.high))
    return f"{middle} ({low} to {high})".replace("-", "−")


def _share(record: Record) -> str:
    """Of the gap between labels alone and the teacher, what the texts without labels close."""
    plain, taught, teacher = (record.arm(name).mean(record.metric) for name in (PLAIN, "transfer", "teacher"))
    return n.percent((taught - plain) / (teacher - plain), 0) if teacher > plain else n.NOTHING


def picture(records: Mapping[str, Record]) -> str:
    """One file that any page can show: what each way gained over labels alone, for every number of labels of SST-2."""
    found = {labels: record for (corpus, labels), record in by_labels(records).items() if corpus == next(iter(CORPORA))}
    rows = [row for labels, record in found.items() for row in _rows(labels, record)]
    spoken = "; ".join(f"{row.label}: {row.text}" for row in rows)
    axis = plots.Axis("points gained on test over labels alone", least=LEAST)
    drawn = str(plots.intervals(rows, axis, WIDTH, f"Points gained against labels. {spoken}"))
    size = svg.Canvas(WIDTH + 2 * MARGIN, svg.height_of(drawn) + 2 * MARGIN)
    return svg.alone([svg.moved(drawn, MARGIN, MARGIN)], size, "Points gained over labels alone, by number of labels")


def _rows(labels: int, record: Record) -> Sequence[plots.Interval]:
    rows = []
    for name in MAIN[1:]:
        if found := _compared(record, name):
            times, title = factor(n.primary(record)), record.arm(name).title
            middle, low, high = (times * value for value in (found.difference, found.low, found.high))
            text = f"{middle:+.1f}".replace("-", "−")
            rows.append(plots.Interval(f"{labels:,}: {title}", middle, low, high, text, TONES[name]))
    return rows
