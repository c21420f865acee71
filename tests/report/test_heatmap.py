"""Matrices: their shape, the count column of the paper, and what the page shows of them."""

import pytest
import sample
from pydantic import ValidationError

from limbeck.core.matrix import Matrix, count_not_below
from limbeck.core.record import Record
from limbeck.report import Report
from limbeck.report.heatmap import BLANK, heatmap_of


@pytest.mark.parametrize("source", list(sample.CHEN))
def test_the_count_is_that_of_the_paper(source):
    values, count = sample.CHEN[source]
    own = sample.TASKS.index(source) if source in sample.TASKS else None
    assert count_not_below(values, own) == str(count)


def test_a_row_with_a_hole_has_no_count():
    assert count_not_below([0.0, None, 1.0], 0) == ""
    assert count_not_below([None, 2.0, 1.0], 0) == "2", "its own column does not count"


@pytest.mark.parametrize(
    "wrong", [{"values": [[1.0]]}, {"values": [[1.0, 2.0]] * 2}, {"spreads": [[1.0]]}, {"ends": ["1", "2"]}]
)
def test_a_matrix_of_another_shape_than_its_names_is_refused(wrong):
    right = {"title": "t", "rows": ["a"], "columns": ["x", "y"], "values": [[1.0, None]]}
    assert not Matrix(**right).is_whole
    with pytest.raises(ValidationError):
        Matrix(**{**right, **wrong})


def test_colour_follows_sign_and_size():
    record = sample.transfer()
    found = heatmap_of(record.matrices[1])
    cells = {name: row for name, row, _ in found.rows}
    own, worst, best = cells["MNLI"][0], cells["SQuAD"][8], cells["MLM"][8]
    assert (own.text, own.tone, own.heat) == ("0.00", "level", 0.0)
    assert (worst.text, worst.tone, worst.heat) == ("\u221230.86", "down", 1.0)
    assert (best.text, best.tone) == ("+8.27", "up")
    assert 0 < cells["MLM"][0].heat < best.heat < worst.heat


def test_the_page_has_every_cell_and_says_what_a_blank_one_is(tmp_path):
    record = sample.transfer()
    page = Report((record,)).html()
    assert page.count('<table class="heat">') == 2
    assert ">\u221227.70</td>" in page
    assert page.count('aria-label="not measured"') == 3
    assert BLANK in page
    assert BLANK not in Report((record.but(matrices=record.matrices[1:]),)).html()
    assert "table.heat" not in Report((sample.trained(),)).html(), "its style is there only where it is needed"
    assert Record.load(record.save(tmp_path / "record.json")) == record
