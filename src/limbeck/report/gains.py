"""What a teacher gave each arm of a comparison: the gain over the same student without one, and what it proves."""

from __future__ import annotations

from limbeck.core.metric import metric_of
from limbeck.core.record import Arm, Comparison, Failure, Record
from limbeck.report import numbers as n
from limbeck.report.models import models

BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"


def gain_of(record: Record, arm: Arm) -> Comparison | None:
    """Of a comparison only: a run with one student says it in a sentence."""
    if record.kind != "compare":
        return None
    return next((c for c in record.comparisons if c.better == arm.name and c.metric == record.metric), None)


def baseline_of(record: Record, arm: Arm) -> Arm | None:
    than = next((c.than for c in record.comparisons if c.better == arm.name), "")
    return next((other for other in record.arms if other.name == than), None)


def gain_text(record: Record, found: Comparison) -> str:
    """+1.2 (−0.1 to +2.5): points of a share, or the metric's own unit. An end keeps its sign when it rounds to 0."""
    metric = metric_of(record.task, found.metric)
    factor, digits = (100, 1) if metric.is_share else (1, n.decimals(metric))
    middle, low, high = (f"{factor * value:+.{digits}f}" for value in (found.difference, found.low, found.high))
    return f"{middle} ({low} to {high})".replace("-", n.MINUS).replace(" to ", f"{n.GAP}to{n.GAP}")


def verdict(record: Record, found: Comparison) -> str:
    higher = metric_of(record.task, found.metric).higher_is_better
    low, high = (found.low, found.high) if higher else (-found.high, -found.low)
    return BETTER if low > 0 else WORSE if high < 0 else UNCLEAR


def gain_sentences(record: Record) -> list[str]:
    """Every gain in words, with titles for names."""
    return [titled(record, c.sentence) for c in record.comparisons]


def titled(record: Record, sentence: str) -> str:
    for arm in models(record):
        sentence = sentence.replace(f"“{arm.name}”", f"“{arm.title}”")
    return sentence


def together(record: Record) -> str:
    """How sure all intervals are at once, where they were widened for it."""
    found = record.comparisons
    several = len(found)
    if record.kind != "compare" or several < 2:
        return ""
    sure = found[0].confidence
    return (
        f"{several} comparisons were made at once, so each interval is at {100 * sure:.4g}{n.GAP}%: "
        f"all of them hold together with {n.percent(1 - several * (1 - sure), 0)} (Bonferroni)."
    )


def failure_text(record: Record, failure: Failure) -> str:
    seeds = ", ".join(map(str, failure.seeds))
    when = f"failed with seed{'s' * (len(failure.seeds) > 1)} {seeds}" if failure.seeds else "was refused"
    title = next((arm.title for arm in record.arms if arm.name == failure.arm), failure.arm)
    return f"“{title}” {when}: {failure.reason}"
