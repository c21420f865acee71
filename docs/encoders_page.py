"""docs/encoders.md: the encoder literature side by side, from the Records of benchmarks/encoders.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from limbeck.core.record import Arm, Record
from limbeck.report import figures as n
from limbeck.report.figures import primary
from limbeck.report.summary import joint_confidence
from limbeck.report.table import markdown_table

SETS = {
    "sst2": "SST-2, 10,000 training rows",
    "mrpc": "MRPC, pairs",
    "rte": "RTE, pairs",
    "squad": "SQuAD's sample, measured on XQuAD-en",
    "published_sst2": "SST-2 in PKD's own setting, 3,000 training rows",
}
NOTES = {
    "squad": "The teacher had all 3,912 questions, the students 1,000 of them and 2 epochs, which is all that time "
    "allowed: far too little for half the layers to learn to find answers again. It shows that the command runs, and "
    "not how small such a model may be; the last table of this page has students of five layers, which keep far more.",
    "published_sst2": "The student starts from the first three layers of the pre-trained encoder; T is 10.",
}
KNOBS = {
    "knobs_sst2": "SST-2: classes of texts, 1,500 training rows",
    "knobs_mrpc": "MRPC: classes of pairs, 1,000 training rows",
    "knobs_squad": "SQuAD's sample: answers, 600 training questions, five of six layers",
}
DEFAULTS = """So the tables give no reason to leave what Hinton's paper found for small students (T of 2.5 to 4): the
default is T = 4, half the weight on the labels, for classes, tags and answers alike; who trusts the teacher more than
the labels sets `--objective.labels.weight 0`. Numbers have no temperature: there the student learns the teacher's raw
score. Tags were not measured; they are classes of words."""
LADDER = ("pkd-skip", "hinton", "finetune")  # best first, as the paper has them
WHY = """Why the papers' order is hard to see here, as far as we can tell:

- The student starts from the teacher's own fine-tuned layers, which is most of what there is to pass on; the papers
  start from pre-trained layers. The set in PKD's own setting does as they do.
- Teacher and student learn from the same few thousand labelled rows, and the teacher is a small encoder itself: it
  knows little that the labels do not say. The papers have teachers of 110 M parameters and up to 390,000 rows.
- A thousand or two test rows and three seeds cannot tell half a point from chance; the papers' gains on SST-2 are of
  that size, and most of them report one run on a hidden test set.
- Where the teacher itself hardly beats the most frequent class, as on RTE, it has little to hand on.
- Nothing was searched: the papers report the best of a grid of temperatures, weights and learning rates."""

SMALL = """`--preset auto` takes half the layers. Beside it a third of them, both by `hinton`: what each keeps of
the teacher's score, and the time it takes for one text as a share of the teacher's, where that was measured."""
SIZES = ("| data | half the layers keep | of the time | a third keeps | of the time |", "|---|---:|---:|---:|---:|")
HALF, THIRD = "hinton", "two-layers"


def page(records: Mapping[str, Record]) -> str:
    """`records` by the names in SETS and KNOBS; those not measured yet are left out."""
    parts = [
        "# The encoder literature, side by side",
        "Made from the Records of `benchmarks/encoders.py`, which runs `limbeck compare`; the run files are beside it. "
        "MiniLM-L6, fine-tuned on the same rows, teaches; mean ± one standard deviation over the seeds. The interval "
        "beside a gain is of the difference to the same student without a teacher, over test rows and seeds. Stages "
        "before the main one have one epoch, where the papers have 10 to 20, and TinyBERT is without its augmentation: "
        "a day of two cores holds no more.",
    ]
    for name, title in SETS.items():
        if name in records:
            record = records[name]
            said = " ".join(filter(None, (order(record), _majority(record), joint_confidence(record))))
            parts += [f"## {title}", markdown_table([record]), said, NOTES.get(name, ""), longer(record)]
    shown = [record for name, record in records.items() if name in SETS and name != "squad"]
    if shown and not all(map(in_order, shown)):
        parts.append(WHY)
    if rows := list(_sizes(records)):
        parts += ["## How small", SMALL, "\n".join((*SIZES, *rows))]
    if any(name in records for name in KNOBS):
        parts += ["## Temperature and weights", _knobs(records)]
        for name, title in KNOBS.items():
            if name in records:
                parts += [f"### {title}", markdown_table([records[name]]), joint_confidence(records[name])]
    return "\n\n".join(filter(None, parts)) + "\n"


def _majority(record: Record) -> str:
    test = record.data.splits["test"]
    if record.metric != "accuracy" or not test.per_class:
        return ""
    most = max(test.per_class.values()) / test.labelled
    return f"Who always names the most frequent class is right on {n.percent(most)} of the {test.labelled:,} test rows."


def longer(record: Record) -> str:
    """Who saw more rows than the same student without a teacher."""
    return "\n".join(f"- {note}" for note in record.notes if " learned for " in note)


def order(record: Record) -> str:
    """Whether the papers' order, PKD ≥ KD ≥ fine-tuning, is there, in words."""
    arms = {arm.name: arm for arm in record.arms}
    if not all(name in arms for name in LADDER):
        return ""
    said = ", ".join(f"{name} {_told(record, arms[name])}" for name in LADDER)
    if not in_order(record):
        return f"The papers' order, PKD ≥ KD ≥ fine-tuning, does not appear in the means: {said}."
    sure = [c.better for c in record.comparisons if c.better in LADDER and c.low > 0]
    how = f"and beyond chance for {' and '.join(sure)}" if sure else "but within what chance does"
    return f"The papers' order, PKD ≥ KD ≥ fine-tuning, appears in the means, {how}: {said}."


def in_order(record: Record) -> bool:
    arms = {arm.name: arm for arm in record.arms}
    means = [arms[name].mean(record.metric) for name in LADDER if name in arms]
    return means == sorted(means, reverse=True)


def _sizes(records: Mapping[str, Record]) -> Iterator[str]:
    for name, record in records.items():
        arms = {arm.name: arm for arm in record.arms}
        if name in SETS and HALF in arms and THIRD in arms:
            cells = (cell for small in (HALF, THIRD) for cell in _kept(record, arms[small], arms["teacher"]))
            yield f"| {SETS[name].split(',')[0]} | {' | '.join(cells)} |"


def _kept(record: Record, small: Arm, teacher: Arm) -> tuple[str, str]:
    """Of the teacher's score, and of its time."""
    time = small.speed.p50_ms / teacher.speed.p50_ms if small.speed and teacher.speed else None
    return n.share_of(small.mean(record.metric), teacher.mean(record.metric)), n.percent(time, 0)


def _told(record: Record, arm: Arm) -> str:
    return n.score(primary(record), arm.mean(record.metric))


def _knobs(records: Mapping[str, Record]) -> str:
    shown = {title.split(":")[0]: records[name] for name, title in KNOBS.items() if name in records}
    clear = [
        f"{c.better} on {name} ({100 * c.difference:+.1f} points)"
        for name, record in shown.items()
        for c in record.comparisons
        if c.metric == record.metric and (c.low > 0 or c.high < 0)
    ]
    best = [f"{_best(record)} on {name}" for name, record in shown.items()]
    found = f"Beyond chance differ {', '.join(clear)}" if clear else "None differs from plain fine-tuning beyond chance"
    return (
        "The same student and rows in each table, only the soft term's temperature T and the weight of the labels "
        f"vary. {found}; best by the mean: {', '.join(best)}. {DEFAULTS}"
    )


def _best(record: Record) -> str:
    return max(record.arms[1:], key=lambda arm: arm.mean(record.metric)).name
