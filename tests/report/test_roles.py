"""Words by role: who was distilled, what was measured, and what a row is called."""

from __future__ import annotations

import sample
from sample_compare import comparison

from limbeck.core.record import Record
from limbeck.report import Report
from limbeck.report import figures as n
from limbeck.report.card import model_card
from limbeck.report.frontier import trade_offs
from limbeck.report.summary import caveats, conclusion, headline


def finetuned() -> Record:
    """`limbeck distill --recipe finetune`: the teacher, and a student that learned from labels."""
    record = sample.distill("tuned", seeds=1)
    arms = [record.arm("teacher"), record.arm("plain").but(name="distilled", title="3 layers, labels only")]
    return record.but(arms=arms, comparisons=[], disagreements=[])


def evaluated_beside_a_teacher() -> Record:
    record = sample.distill("scored", seeds=1, rows=200)
    arms = [record.arm("teacher"), record.arm("distilled").but(title="student, 3 layers × 384")]
    return record.but(kind="eval", arms=arms, comparisons=[])


def test_a_finetuned_student_is_not_distilled() -> None:
    record = finetuned()
    assert conclusion(record).startswith("No student learned from the teacher")
    for text in (Report((record,)).html(), model_card(record)):
        words = text.split("How to make it again")[0].split("## Training")[0]
        assert "istillation helped" not in words
        assert '- "distillation"' not in words
        assert ">distilled<" not in words
    only = comparison(1, (("finetune", 3, 0.79, ""),))
    assert conclusion(only).startswith("No student learned from the teacher")


def test_students_beside_each_other_are_called_by_how_they_learned() -> None:
    legend = [name for _, name in trade_offs([comparison()])[0].legend]
    assert legend == ["teacher", "with a teacher", "without a teacher", "frontier: nothing is better in both"]


def test_eval_says_nothing_of_training() -> None:
    record = evaluated_beside_a_teacher()
    assert conclusion(record) == ""
    card = model_card(record)
    assert "Trained with" not in card
    assert "learned from the teacher" not in card
    assert "test split" not in card
    assert any(text.startswith("200 rows:") for text in caveats(record))
    assert all("test accuracy" not in figure.wide for figure in trade_offs([record]))


def test_pairs_are_pairs() -> None:
    record = sample.regression()
    assert n.units(record).input == "pair"
    assert "the time per pair" in headline(record)
    html = Report((record,)).html()
    assert "milliseconds per pair" in html
    assert "pairs/s" in html
    assert "sentences/s" not in html
    assert n.units(sample.distill()).input == "sentence"
