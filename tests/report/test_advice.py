"""What would make distillation show: said where a run could not show it, and nowhere else."""

from __future__ import annotations

import sample

from limbeck.core.record import Record, SplitCard
from limbeck.core.task import TaskInfo
from limbeck.report import figures as n
from limbeck.report.advice import advice


def unclear(record: Record, half: float = 0.02, rows: int = 829) -> Record:
    found = record.comparisons[0]
    return record.but(comparisons=[found.but(difference=0.0, low=-half, high=half, rows=rows)])


def split(rows: int, labelled: int) -> SplitCard:
    return SplitCard(source="rows.csv", rows=rows, labelled=labelled)


def with_train(record: Record, rows: int, labelled: int) -> Record:
    splits = {**record.data.splits, "train": split(rows, labelled)}
    return record.but(data=record.data.but(splits=splits))


def said(record: Record) -> str:
    return advice(record).replace(n.GAP, " ")


def test_nothing_is_advised_where_a_difference_shows() -> None:
    record = with_train(sample.distill(), 800, 800)
    found = record.comparisons[0]
    assert not advice(record.but(comparisons=[found.but(difference=0.03, low=0.01, high=0.05)]))
    assert not advice(record.but(comparisons=[found.but(difference=-0.03, low=-0.05, high=-0.01)]))


def test_the_same_labels_for_both_are_named_with_the_flag() -> None:
    text = said(unclear(with_train(sample.distill(), 800, 800)))
    assert "same 800 rows" in text
    assert "--unlabelled FILE" in text
    assert "--unlabelled" not in said(unclear(with_train(sample.distill(), 800, 500)))


def test_translation_is_advised_the_recipe_that_takes_sources_alone() -> None:
    record = unclear(with_train(sample.distill(), 800, 800).but(task=TaskInfo(kind="translate")))
    assert "same 800 sentences, all with targets" in said(record)
    assert "(--recipe seq-kd --unlabelled FILE)" in said(record)
    assert "--unlabelled" not in said(with_train(record, 800, 500))
    several = {"en-de": {"teacher": "t"}}
    assert "--unlabelled" not in said(record.but(knobs={**record.knobs, "directions": several}))
    assert "--unlabelled" not in said(record.but(task=TaskInfo(kind="mask-fill")))


def test_images_are_not_advised_what_they_do_not_take() -> None:
    record = unclear(with_train(sample.distill(), 800, 800))
    assert "--unlabelled" not in said(record.but(task=TaskInfo(kind="image", labels=("0", "1"))))


def test_augmented_rows_are_a_transfer_set_already() -> None:
    record = unclear(with_train(sample.distill(), 800, 800))
    assert "--unlabelled" not in said(record.but(knobs={**record.knobs, "augment": {"kind": "joins"}}))
    columns = {"a": {"augment": {"kind": "tinybert"}}}
    assert "--unlabelled" not in said(record.but(knobs={**record.knobs, "columns": columns}))
    assert "--unlabelled" in said(record.but(knobs={**record.knobs, "augment": {"kind": "none"}}))


def test_a_small_test_split_is_told_by_what_it_cannot_see() -> None:
    record = with_train(sample.distill(), 800, 500)
    assert "829 test rows and 3 seeds show no difference below 2.0 points" in said(unclear(record))
    assert "test rows" not in said(unclear(record, half=0.009, rows=9000))
    one = record.but(comparisons=[record.comparisons[0].but(seeds=1)])
    assert "--seeds 3" in said(unclear(one))
    assert "--seeds 3" not in said(unclear(record))


def test_a_baseline_as_good_as_the_teacher_leaves_nothing_to_gain() -> None:
    close = with_train(sample.distill(plain=0.815), 800, 500)
    assert "a smaller student has more to learn" in said(unclear(close))
    assert "a smaller student" not in said(unclear(with_train(sample.distill(plain=0.75), 800, 500)))


def test_two_students_of_other_recipes_are_no_matter_of_a_teacher() -> None:
    record = unclear(with_train(sample.distill(), 800, 800))
    other = record.comparisons[0].but(than="distilled", better="distilled")
    assert not advice(record.but(comparisons=[other]))
    assert not advice(record.but(kind="compress"))
