"""A paper's figures beside ours, on the page, in the card and in the terminal."""

import re

import pytest
from sample import reproduced, tickets_beside_controls, trained

from limbeck.core.record import Published, Record
from limbeck.report import Report, levels
from limbeck.report.published import table_of
from limbeck.report.summary import conclusion
from limbeck.report.warnings import warnings

QUICK = "A quick run: its figures say nothing about the paper."


def test_a_row_has_published_ours_seeds_and_difference():
    table = table_of(reproduced())
    assert table.what == "SST-2 accuracy"
    assert table.head == ["", "published", "ours", "seeds", "difference"]
    assert table.rows[1] == ["3 layers, fine-tuned", "86.4\u00a0%", "84.1 ± 0.4\u00a0%", "3", "−2.3"]
    assert table.sources == "Sun et al. 2019, table 1"


def test_what_was_not_measured_says_so():
    assert table_of(reproduced(quick=True)).rows[3][1:] == ["87.5\u00a0%", "not measured", "–", "–"]


def test_figures_of_several_kinds_are_named_row_by_row():
    table = table_of(tickets_beside_controls())
    assert table.head[:2] == ["", "figure"]
    assert table.rows[1][1:] == ["accuracy above dense", "0.3\u00a0points", "−0.04 ± 1.20\u00a0points", "3", "−0.34"]


def test_nothing_is_not_less_than_nothing():
    one = Published(row="a", column="b", published=38, ours=-0.01, seeds=1)
    assert table_of(reproduced().but(published=[one])).rows[0][2] == "0.0"


def test_the_finding_is_the_conclusion():
    record = reproduced()
    assert conclusion(record) == record.finding


@pytest.mark.parametrize("quick", [False, True])
def test_page_card_and_terminal_show_table_finding_and_banner(quick):
    record = reproduced(quick)
    report = Report((record,))
    page, card, terminal = report.html(), report.markdown(), str(report)
    for shown in (page, card, terminal):
        assert "Published beside ours" in shown
        assert (QUICK in " ".join(shown.split())) is quick
        assert "distillation above fine-tuning" in " ".join(shown.split())
    assert page.index("Published beside ours") < page.index("What was measured"), "near the top"
    assert re.search(r"<td class=\"num\">86.4.%</td><td class=\"num\">84.1", page)
    assert [one.serious for one in warnings(record) if one.text == QUICK] == [True] * quick


def test_other_records_have_no_such_section():
    assert table_of(trained()) is None
    assert "Published beside ours" not in Report((trained(),)).html()


def test_three_seeds_are_a_band_and_controls_stand_beside_the_ticket():
    quality, at_stop, stop = levels.charts_of(tickets_beside_controls())
    for chart in (quality, at_stop, stop):
        assert chart.wide.count('class="band') == 3
        assert "faint" not in chart.wide
    assert "from the lowest to the highest" in quality.caption
    assert [name for _, name in quality.legend] == ["winning ticket", "drawn anew", "random structure"]
    assert (at_stop.title, stop.title) == ("Accuracy at the early-stopping iteration", "The early-stopping iteration")


def test_an_older_record_loads_without_the_new_fields(tmp_path):
    record = trained()
    path = record.save(tmp_path / "record.json")
    text = path.read_text(encoding="utf-8")
    assert '"published": []' in text
    import json

    from limbeck.core.checksum import sealed, unsealed

    content = unsealed(text)
    for name in ("published", "finding", "quick"):
        del content[name]
    path.write_text(json.dumps(sealed(content)), encoding="utf-8")
    assert Record.load(path) == record


def test_the_difference_is_ours_less_the_published_one():
    one = Published(row="a", column="b", published=2.0)
    assert one.difference is None
    assert one.but(ours=1.5).difference == -0.5
