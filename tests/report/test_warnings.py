"""The floor in reports: red lines for models that learned nothing, no praise, and what is kept over the floor."""

from __future__ import annotations

from io import StringIO

import sample
import sample_compare
from rich.console import Console

from limbeck.core.record import Failure, Floor, Record
from limbeck.core.task import TaskInfo
from limbeck.report import figures as n
from limbeck.report.summary import conclusion, gain_sentences, headline
from limbeck.report.table import markdown_table, terminal_table
from limbeck.report.warnings import ReportWarning, warnings

TITLE = "most frequent class (negative)"


def with_floor(floor: float, metric: str = "accuracy", title: str = TITLE, **how: float) -> Record:
    record = sample.distill(**how)  # type: ignore[arg-type]
    return record.but(data=record.data.but(conflicts=0), floor=Floor(title=title, quality={metric: floor}))


def changed(record: Record, name: str, **fields: object) -> Record:
    """With these fields in every run of an arm."""
    arms = [arm.but(runs=[run.but(**fields) for run in arm.runs]) if arm.name == name else arm for arm in record.arms]
    return record.but(arms=arms)


def told(record: Record) -> str:
    return headline(record).replace(n.GAP, " ")


def lines(record: Record) -> list[str]:
    return [one.text.replace(n.GAP, " ") for one in warnings(record)]


def test_what_is_kept_is_also_a_share_of_the_points_over_the_floor() -> None:
    text = told(with_floor(0.65, student=0.78))
    assert "keeps 95.4 % of the teacher’s accuracy, 77.8 % of its points over the most frequent class, at" in text
    assert "over" not in told(with_floor(0.0, metric="matthews", student=0.78))
    assert lines(with_floor(0.65, student=0.78)) == []


def test_a_floor_of_nothing_adds_nothing() -> None:
    assert told(with_floor(0.0, student=0.78)) == told(sample.distill(student=0.78))


def test_perplexity_is_kept_in_nats() -> None:
    record = with_floor(1000.0, metric="perplexity", title="unigrams of train")
    record = record.but(task=TaskInfo(kind="generate", vocab_size=5000), metric="perplexity", comparisons=[])
    record = changed(changed(record, "teacher", quality={"perplexity": 10.0}), "distilled", quality={"perplexity": 100})
    assert (
        "reaches a perplexity of 100.0, 10 times the teacher’s 10.00, "
        "50.0 % of its gain in nats over the unigrams of train, at" in told(record)
    )
    worse = changed(record, "distilled", quality={"perplexity": 1200.0})
    assert told(worse) == "The 3-layer student is no better than the unigrams of train: perplexity 1,200 against 1,000."


def test_a_model_that_answers_the_same_gets_a_red_line_and_no_praise() -> None:
    record = with_floor(0.817, student=0.817, seeds=1)
    constant = changed(record, "distilled", constant="negative")
    assert warnings(constant)[0] == ReportWarning("“3 layers, distilled” answers “negative” for every row.", True)
    assert told(constant).startswith(
        "The 3-layer student answers “negative” throughout: accuracy 81.7 % against 81.7 % of the most frequent class."
    )
    for text in (told(constant), conclusion(constant), *gain_sentences(constant)):
        assert "match" not in text
        assert "helped by" not in text
        assert "keeps" not in text
    assert conclusion(constant) == (
        "Whether a teacher helped “3 layers, distilled” cannot be told: it answers “negative” throughout."
    )


def test_a_constant_answer_is_known_without_labels() -> None:
    record = changed(sample.without_labels(), "distilled", constant="negative")
    assert told(record) == "The 3-layer student answers “negative” throughout."


def test_one_seed_of_three_that_answers_the_same_is_named() -> None:
    record = with_floor(0.6)
    arm = record.arm("distilled")
    runs = [arm.runs[0], arm.runs[1].but(constant="negative"), arm.runs[2]]
    record = record.but(arms=[*record.arms[:2], arm.but(runs=runs)])
    assert lines(record) == ["“3 layers, distilled” with seed 1 answers “negative” for every row."]
    assert "keeps" in told(record)


def test_no_better_than_the_floor_is_told_of_all_models_at_once() -> None:
    record = with_floor(0.82)
    assert lines(record) == [
        "“Teacher, 6 layers” (81.7 %), “3 layers, plain” (80.1 %) and “3 layers, distilled” (81.5 %) are no better "
        "than the most frequent class (negative): accuracy 82.0 %."
    ]
    assert told(record) == (
        "The 3-layer student is no better than the most frequent class (negative): accuracy 81.5 % against 82.0 %. "
        "The teacher itself is no better than the most frequent class (81.7 %), so there is nothing to keep."
    )


def test_a_teacher_at_the_floor_has_nothing_to_keep() -> None:
    text = told(with_floor(0.817, student=0.83))
    assert text.startswith("The 3-layer student reaches an accuracy of 83.0 %. The teacher itself is no better")
    assert "keeps" not in text


def test_harm_is_still_told() -> None:
    worse = with_floor(0.9, student=0.7, plain=0.8)
    assert conclusion(worse) == worse.comparisons[0].sentence


def test_a_single_model_at_the_floor() -> None:
    record = sample.evaluated().but(floor=Floor(title=TITLE, quality={"accuracy": 0.75}))
    assert told(record) == (
        "bert-tiny is no better than the most frequent class (negative): accuracy 73.4 % against 75.0 %."
    )


def test_overlap_comes_with_the_score_without_it() -> None:
    record = with_floor(0.6)
    record = record.but(data=record.data.but(overlap=120))
    record = changed(changed(record, "distilled", unseen={"accuracy": 0.79}), "teacher", unseen={"accuracy": 0.801})
    rows = record.data.splits["test"].rows
    assert lines(record) == [
        f"120 of {rows:,} test rows stand in train too. On the others accuracy is 79.0 % instead of 81.5 % "
        "(“3 layers, distilled”) and 80.1 % instead of 81.7 % (“Teacher, 6 layers”)."
    ]
    assert warnings(record)[0].serious
    assert not warnings(record.but(data=record.data.but(overlap=1)))[0].serious


def test_the_most_serious_comes_first() -> None:
    record = with_floor(0.808)
    data = record.data.but(overlap=300, conflicts=3, truncated=5000, dropped={"empty text": 9000}, read=10000)
    failed = [Failure(arm="tinybert", seeds=[0, 1], reason="it diverged")]
    arms = [arm.but(speed=arm.speed and arm.speed.but(busy=arm.role == "teacher")) for arm in record.arms]
    record = changed(record.but(data=data, failed=failed, arms=arms), "distilled", constant="negative")
    assert [one.serious for one in warnings(record)] == [True] * 5 + [False] * 3
    starts = (
        *(
            "“3 layers, distilled” answers",
            "“3 layers, plain” (80.1 %) is no better",
            "300 of",
            "“tinybert” failed with",
        ),
        *("The machine was busy while “Teacher, 6 layers” was timed", "3 rows repeat", "5,000 of", "9,000 of"),
    )
    assert [text.startswith(start) for text, start in zip(lines(record), starts, strict=True)] == [True] * 8


def test_the_tables_have_a_row_for_the_floor_and_red_lines_under_it() -> None:
    record = with_floor(0.808)
    row = next(line for line in markdown_table([record]).splitlines() if TITLE in line).replace(n.GAP, " ")
    assert row.split(" | ")[1] == "80.8 %"
    console = Console(width=80, force_terminal=True, color_system="standard", record=True, file=StringIO())
    console.print(terminal_table(record))
    text = console.export_text(styles=True)
    assert "most frequent class" in text
    assert "\x1b[1;31m! “3 layers, plain” (80.1" in text


def test_an_arm_at_the_floor_is_not_called_better() -> None:
    record = sample_compare.comparison()
    assert "| better |" in markdown_table([record])
    floor = Floor(title=TITLE, quality={record.metric: 1.0})
    assert "| better |" not in markdown_table([record.but(floor=floor)])
    assert "| at the floor |" in markdown_table([record.but(floor=floor)])


def test_an_export_that_was_asked_for_and_failed_is_told_in_red() -> None:
    failed = [Failure(arm="distilled", seeds=[0], export="onnx", reason="the disk is full; free some space.")]
    record, told = sample.distill().but(failed=failed), "No export to onnx: the disk is full; free some space."
    asked = record.but(knobs={**record.knobs, "export": "onnx"})
    assert ReportWarning(told, True) in warnings(asked)
    assert ReportWarning(told, False) in warnings(record), "translators are exported unasked"
