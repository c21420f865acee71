"""The sentences: true when the student is better, worse, slower, unlabelled or alone."""

from __future__ import annotations

import sample

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Record
from limbeck.core.task import TaskInfo
from limbeck.report import figures as n
from limbeck.report.figures import quality
from limbeck.report.summary import caveats, conclusion, headline


def said(record: Record) -> str:
    return headline(record).replace(n.GAP, " ")


def test_what_was_kept_comes_from_the_arms(record: Record) -> None:
    assert said(record) == (
        "The 3-layer student keeps 99.8 % of the teacher’s accuracy "
        "at 52 % of the time per sentence and 76 % of the bytes."
    )
    assert conclusion(record) == record.comparisons[0].sentence
    assert caveats(record) == []


def test_a_worse_and_slower_student_is_called_so() -> None:
    text = said(sample.every()["worse and slower"])
    assert text.startswith("The 3-layer student keeps 88.1 % of the teacher’s accuracy at 76 % of the bytes")
    assert text.endswith("but 1.2 times the time per sentence.")


def test_a_better_student_is_not_called_kept() -> None:
    assert said(sample.distill(student=0.8301)).startswith(
        "The 3-layer student reaches an accuracy of 83.0 % against the teacher’s 81.7 %"
    )
    assert said(sample.distill(seeds=1, student=0.817)).startswith(
        "The 3-layer student matches the teacher’s accuracy of 81.7 %"
    )


def test_below_the_teacher_is_never_all_of_it() -> None:
    record = sample.distill(seeds=1, student=0.8164)  # 99.93 % of 0.817
    assert "keeps 99.9 %" in said(record)


def test_an_error_is_not_kept_but_reached(record: Record) -> None:
    assert "reaches a calibration error of" in said(record.but(metric="ece", arms=record.arms[:2]))


def test_one_seed_and_few_rows_are_confessed() -> None:
    doubts = " ".join(caveats(sample.every()["one seed"])).replace(n.GAP, " ")
    assert "One seed" in doubts
    assert "180 test rows" in doubts
    assert "±5.7 points" in doubts  # 1.96 · sqrt(0.8155 · 0.1845 / 180)


def test_another_seed_is_asked_for_in_the_words_of_the_verb() -> None:
    assert "Run with --seeds 3" in " ".join(caveats(sample.every()["one seed"]))
    train = sample.every()["train"]
    one = train.but(arms=[train.arms[0].but(runs=train.arms[0].runs[:1])])
    assert "Train again with --seed 1" in " ".join(caveats(one))


def test_without_labels_the_headline_is_agreement() -> None:
    record = sample.without_labels()
    agreed = record.arm("distilled").runs[0].fidelity.agreement
    assert f"predicts as the teacher does on {100 * agreed:.1f} %" in said(record)
    assert any("no labels" in doubt for doubt in caveats(record))
    assert "Speed was not measured." in caveats(record)
    assert "not known" in conclusion(record)


def test_a_single_model_says_what_it_reached() -> None:
    assert said(sample.evaluated()) == "bert-tiny reaches an accuracy of 73.4 % on 1,066 rows."
    assert "takes 3.21 ms for one sentence" in said(sample.benched())
    assert "the mean of 3 seeds" in said(sample.trained())
    assert conclusion(sample.trained()) == ""


def test_no_arms_at_all(record: Record) -> None:
    assert said(record.but(arms=[])) == "small holds no models."
    assert caveats(record.but(arms=[])) == []


def test_a_figure_that_is_not_a_number_is_left_out(record: Record) -> None:
    arm = record.arm("teacher")
    lost = arm.but(runs=[arm.runs[0].but(quality={"accuracy": float("nan")})])
    assert quality(lost, "accuracy") is None


def metric(name: str) -> Metric:
    return metric_of(TaskInfo(kind="classify"), name)


def test_numbers_as_read() -> None:
    assert n.figure(0.01234) == "0.0123"
    assert n.figure(4560.4) == "4,560"
    assert n.figure(0) == "0"
    assert n.duration(59.94) == f"59.9{n.GAP}s"
    assert n.duration(104) == f"1{n.GAP}min 44{n.GAP}s"
    assert n.duration(3 * 3600 + 125) == f"3{n.GAP}h 02{n.GAP}min"
    assert n.millions(22_713_216) == f"22.7{n.GAP}M"
    assert n.difference(metric("accuracy"), -0.0123) == f"{n.MINUS}1.2{n.GAP}points"
    assert n.score(metric("matthews"), -0.2) == f"{n.MINUS}0.200"
