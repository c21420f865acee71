"""What a teacher gave each arm of a comparison: the gain over the same student without one, and what it proves."""

from __future__ import annotations

from limbeck.core.record import Arm, Comparison, Failure, Record
from limbeck.report import numbers as n

BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"
INT8 = "student-int8"  # the arm of a student in CTranslate2, and its folder; it is compared with that student


def gain_of(record: Record, arm: Arm) -> Comparison | None:
    """Of a comparison only: a run with one student says it in a sentence."""
    if record.kind != "compare":
        return None
    return next((c for c in against_none(record) if c.better == arm.name and c.metric == record.metric), None)


def against_none(record: Record) -> list[Comparison]:
    """The comparisons that tell what a teacher gave, and not what int8 takes."""
    return [c for c in record.comparisons if c.better != INT8]


def baseline_of(record: Record, arm: Arm) -> Arm | None:
    than = next((c.than for c in record.comparisons if c.better == arm.name), "")
    return next((other for other in record.arms if other.name == than), None)


def gain_text(found: Comparison) -> str:
    """+1.2 (−0.1 to +2.5): points of a share, or the metric's own unit. An end keeps its sign when it rounds to 0."""
    share = n.is_share(found.metric)
    factor, digits = (100, 1) if share else (1, n.decimals(found.metric))
    middle, low, high = (f"{factor * value:+.{digits}f}" for value in (found.difference, found.low, found.high))
    return f"{middle} ({low} to {high})".replace("-", n.MINUS).replace(" to ", f"{n.GAP}to{n.GAP}")


def proven(found: Comparison) -> str:
    low, high = (-found.high, -found.low) if n.lower_is_better(found.metric) else (found.low, found.high)
    return BETTER if low > 0 else WORSE if high < 0 else UNCLEAR


def sentences(record: Record) -> list[str]:
    """Every gain in words, with titles for names."""
    return [titled(record, c.sentence) for c in against_none(record)]


def titled(record: Record, sentence: str) -> str:
    for arm in record.arms:
        sentence = sentence.replace(f"“{arm.name}”", f"“{arm.title}”")
    return sentence


def together(record: Record) -> str:
    """How sure all intervals are at once, where they were widened for it."""
    found = against_none(record)
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
