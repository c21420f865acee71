"""Each architecture as a teacher, for a few steps of the whole job."""

import sys
from pathlib import Path

import pytest

import limbeck
from limbeck import Shrink
from tiny import make_rows, make_tokenizer

sys.path.insert(0, str(Path(__file__).parent.parent / "students"))
from tiny_encoders import CONFIGS, LABELS, classifier

FAST = {"train": {"epochs": 1, "evals_per_epoch": 1}, "measure": {"speed": False}, "baseline": False}


@pytest.mark.parametrize("family", CONFIGS)
def test_a_smaller_student_of_each_family(family):
    rows = [{**row, "label": LABELS[index % 3]} for index, row in enumerate(make_rows(100))]
    result = limbeck.distill(
        classifier(family), rows, Shrink(layers=2), tokenizer=make_tokenizer(), reading={"max_length": 24}, **FAST
    )
    assert result.record.arm("distilled").shape.layers == 2
    assert result.record.arm("teacher").shape.layers == 4
    assert result.student.config.model_type == CONFIGS[family]().model_type
