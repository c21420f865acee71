"""docs/few-labels.md and its picture, from Records made up here."""

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from limbeck.core.record import Arm, Comparison, DataCard, Machine, Record, SeedResult
from limbeck.core.task import TaskInfo

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).resolve().parent.parent / "docs")
    few = importlib.import_module("few_labels_page")

SCORES = {"teacher": 0.85, "labels": 0.75, "labels-longer": 0.74, "soft": 0.76, "transfer": 0.80}


def arm(name, score):
    role = {"teacher": "teacher", "labels": "baseline"}.get(name, "student")
    runs = [SeedResult(seed=seed, quality={"accuracy": score + 0.01 * (seed - 1)}, seconds=1.0) for seed in range(3)]
    return Arm(name=name, title=f"the title of {name}", role=role, runs=runs)


def against(better, difference):
    told = {"low": difference - 0.02, "high": difference + 0.02, "seeds": 3, "rows": 1821, "sentence": ""}
    return Comparison(better=better, than="labels", metric="accuracy", difference=difference, **told)


def record(more=(), **lifts):
    scores = {name: score + lifts.get(name, 0.0) for name, score in SCORES.items()} | dict.fromkeys(more, 0.7)
    return Record(
        kind="compare",
        name="few",
        created="2026-11-19T05:00:00Z",
        command="python benchmarks/few_labels.py",
        machine=Machine(system="Linux", processor="a CPU", cores=2, memory_bytes=1, python="3.11", versions={}),
        seeds=[0, 1, 2],
        knobs={},
        fingerprints={},
        task=TaskInfo(kind="classify", labels=("0", "1")),
        metric="accuracy",
        data=DataCard(source="text", columns={}, read=1),
        arms=[arm(name, score) for name, score in scores.items()],
        comparisons=[against(name, scores[name] - scores["labels"]) for name in scores if name not in SCORES]
        + [against(name, scores[name] - scores["labels"]) for name in few.MAIN[1:]],
    )


RECORDS = {
    "few_labels_sst2_2000": record(transfer=-0.02),
    "few_labels_sst2_500": record(more=("static", "augmented")),
    "few_labels_sst2_500_schedule": record(),
    "few_labels_mrpc_500": record(),
}


def test_a_line_for_every_number_of_labels_in_order():
    page = few.page(RECORDS)
    lines = [line for line in page.splitlines() if line.startswith(("| 500 |", "| 2,000 |"))]
    assert lines[0] == (
        "| 500 | 85.0 ± 1.0 % | 75.0 ± 1.0 % | 74.0 ± 1.0 % | 76.0 ± 1.0 % | 80.0 ± 1.0 % "
        "| +5.0 (+3.0 to +7.0) | 50 % |"
    ).replace(" %", "\u00a0%")
    assert lines[1].startswith("| 2,000 |")
    assert lines[1].endswith("| +3.0 (+1.0 to +5.0) | 30\u00a0% |")
    assert page.index("## SST-2") < page.index("### More at 500 labels") < page.index("### Epochs")
    assert page.index("### Epochs") < page.index("## MRPC")
    assert "### More at 2,000 labels" not in page
    assert "| the title of static | 70.0" in page


def test_the_picture_shows_every_way_at_every_number_of_sst2():
    drawn = ElementTree.fromstring(few.picture(RECORDS))
    words = "".join(drawn.itertext())
    for labels in ("500", "2,000"):
        for name in few.MAIN[1:]:
            assert f"{labels}: the title of {name}" in words
    assert "+5.0" in words
    assert "mrpc" not in words


def test_a_teacher_no_better_than_labels_leaves_no_gap_to_close():
    page = few.page({"few_labels_sst2_500": record(teacher=-0.2)})
    assert page.rstrip().endswith("- made on a CPU, 2 cores")
    line = next(line for line in page.splitlines() if line.startswith("| 500 |"))
    assert line.endswith(f"| {few.n.NOTHING} |")
