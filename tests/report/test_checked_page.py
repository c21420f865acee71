"""What the page shows of figures one can trust: floors, warnings by rank, confusion, how sure.

Every mark has its name, one split per axis, no axis without width, tables that visibly scroll.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
import sample
from rich.console import Console
from sample_checked import TOPICS, checked, confusion, untaught
from sample_compare import comparison

from limbeck.core.record import Record
from limbeck.report import Report, plots, svg
from limbeck.report import figures as n
from limbeck.report.answers import calibration, confusions
from limbeck.report.card import model_card
from limbeck.report.charts import NARROW, WIDE, differences, standing
from limbeck.report.curves import learning
from limbeck.report.frontier import trade_offs
from limbeck.report.page import page
from limbeck.report.table import cells_of, columns, markdown_table, table_rows, terminal_table
from limbeck.report.warnings import warnings

FIFTY = tuple(f"intent_{i}_of_many" for i in range(50))
STYLE = page([sample.distill()]).split("<style>")[1].split("</style>")[0]


def printed(record: Record, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as seen:
        console.print(terminal_table(record))
    return seen.get().splitlines()


def names_in(drawn: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(drawn).iter("text") if "name" in node.get("class", "").split()]


# Warnings


def test_serious_warnings_come_first_on_the_page_and_everywhere_else() -> None:
    record = untaught(sample.distill(seeds=1))
    html = page([record])
    listed = html.split('class="warnings"')[1].split("</ul>")[0]
    kinds = ["serious" in one for one in re.findall(r"<li[^>]*>", listed)]
    assert kinds == sorted(kinds, reverse=True)
    assert any(kinds)
    assert not all(kinds)
    assert html.index('class="warnings"') < html.index('class="tiles"')
    first = next(one.text for one in warnings(record) if one.serious)
    assert f"> **{first.replace('_', chr(92) + '_')}**" in model_card(record)
    assert "! " + first[:40] in "\n".join(printed(record, 200))


def test_notes_are_not_warnings() -> None:
    html = page([comparison().but(notes=[f"Note {i}." for i in range(9)])])
    assert "Note 3." not in html.split('class="warnings"')[1].split("</ul>")[0]
    assert "<summary>9 notes</summary>" in html


# The floor


def test_the_floor_is_the_last_row_of_every_table() -> None:
    record = checked(sample.distill())
    assert markdown_table([record]).splitlines()[-1].startswith("| most frequent class (positive) | 51.2")
    assert any(line.strip().startswith("most frequent class") and "51.2 %" in line for line in printed(record, 80))
    assert '<tr class="floor">' in page([record])
    shown = columns([record], ("quality", "agreement", "parameters", "p50", "seeds"))
    assert [cell.text for cell in cells_of(record, table_rows(record)[-1], shown)][1:] == [""] * 4


def test_a_near_floor_is_a_line_and_a_far_one_an_arrow() -> None:
    near, far = checked(sample.distill(), floor=0.79), checked(sample.distill(), floor=0.5)
    assert "level tone-floor" in trade_offs([near])[0].wide
    assert "level tone-floor" not in trade_offs([far])[0].wide
    assert "↓ most frequent class (positive) 50.0\xa0%" in names_in(trade_offs([far])[0].wide)
    assert "Grey dashes: most frequent class" in standing(checked(comparison(), floor=0.72)).caption
    assert "Beyond the axis: most frequent class" in standing(checked(comparison(), floor=0.3)).caption


# Labels and confidence


@pytest.mark.parametrize("labels", [("no", "yes"), TOPICS, FIFTY])
def test_a_confusion_matrix_of_student_and_teacher(labels: tuple[str, ...]) -> None:
    record = checked(sample.distill(labels=labels))
    drawn = confusions(record, record.arms)
    assert [figure.title.split(": ")[1] for figure in drawn] == ["Teacher, 6 layers", "3 layers, distilled"]
    assert [name for _, name in drawn[0].legend] == ["right", "wrong"]
    for canvas, text in ((WIDE, drawn[0].wide), (NARROW, drawn[0].narrow)):
        tree = ET.fromstring(text)
        cells = [node for node in tree.iter("rect") if "cell" in node.get("class", "")]
        right = [node for node in cells if "tone-right" in node.get("class", "")]
        assert len(right) == len(labels)
        assert all(float(node.get("x")) + float(node.get("width")) <= canvas.width + 0.6 for node in cells)
        rows = [node for node in tree.iter("text") if node.get("text-anchor") == "end"]
        assert len(rows) == len(labels)
        heights = sorted(float(node.get("y")) for node in rows)
        assert min(b - a for a, b in pairwise(heights)) >= svg.FONT


def test_counts_of_a_matrix_are_the_records() -> None:
    record = checked(sample.distill(seeds=1, labels=TOPICS))
    table = record.arm("distilled").runs[0].confusion
    drawn = confusions(record, [record.arm("distilled")])[0].wide
    shown = [node.text for node in ET.fromstring(drawn).iter("text") if "count" in node.get("class", "")]
    assert sorted(map(int, shown)) == sorted(cell for row in table for cell in row if cell)


def test_of_very_many_labels_those_with_the_most_mistakes_are_drawn() -> None:
    labels = tuple(f"l{i}" for i in range(150))
    record = checked(sample.distill(seeds=1, labels=labels))
    assert "The 60 labels with the most mistakes, of 150." in confusions(record, record.arms)[0].caption
    assert len(confusion(150, 0.8)) == 150


def test_a_reliability_curve_with_its_diagonal() -> None:
    record = checked(sample.distill())
    figure = calibration(record, record.arms)
    tree = ET.fromstring(figure.wide)
    dots = [node for node in tree.iter("circle") if "bubble" in node.get("class", "")]
    assert len(dots) == 30
    assert float(dots[9].get("r")) > float(dots[0].get("r"))
    assert [node for node in tree.iter("line") if node.get("class") == "zero"]
    assert figure.legend[0][1].startswith("Teacher, 6 layers, error 3.1")


# Axes and marks


def test_dev_and_test_never_share_an_axis() -> None:
    record = checked(sample.distill())
    drawn = learning(record).wide
    assert "dev accuracy, %" in drawn
    assert "tone-floor" not in drawn
    assert "level" not in drawn  # what is known of this teacher is its test score
    assert all("test accuracy, %" in figure.wide for figure in trade_offs([record]))
    assert "points of test accuracy" in differences(record).wide


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_values_have_an_axis_with_different_ticks(value: float) -> None:
    record = comparison(1)
    arms = [arm.but(runs=[run.but(quality={"accuracy": value}) for run in arm.runs]) for arm in record.arms]
    none = [found.but(difference=0.0, low=0.0, high=0.0) for found in record.comparisons]
    record = record.but(arms=arms, comparisons=none)
    for figure in (standing(record), differences(record), *trade_offs([record])):
        for drawn in (figure.wide, figure.narrow):
            ticks = [node.text for node in ET.fromstring(drawn).iter("text") if node.get("class") == "tick"]
            numbers = [tick for tick in ticks if re.fullmatch(r"[−\d.,]+", tick or "")]
            assert len(numbers) >= 2
            assert all(len(tick) < 7 for tick in numbers)
    for low, high in (svg.padded([value, value]), svg.padded([value, value + 1e-12]), svg.padded([0.0], 0.1, 0.01)):
        assert high - low >= 0.0049


@pytest.mark.parametrize(
    "name", ["compare", "distill", "checked compare", "untaught", "contest", "compress", "exported, crowd"]
)
def test_every_mark_has_its_name_and_no_name_covers_another(name: str) -> None:
    record = sample.every()[name]
    for figure in (panel for whole in trade_offs([record]) for panel in (whole, *whole.beside)):
        for drawn in (figure.wide, figure.narrow):
            tree = ET.fromstring(drawn)
            marks = [node for node in tree.iter() if "mark" in node.get("class", "").split()]
            texts = [node for node in tree.iter("text") if "name" in node.get("class", "").split()]
            of_floor = [node for node in texts if "tone-floor" in node.get("class", "")]
            assert len(texts) - len(of_floor) == len(marks)
            for one, other in combinations(map(box, texts), 2):
                assert not one.overlap(other)


def box(node: ET.Element) -> svg.Box:
    x, y, wide = float(node.get("x")), float(node.get("y")), svg.text_width(node.text or "")
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[node.get("text-anchor", "start")]
    return svg.Box(left, y - 9, left + wide, y + 2)


def test_a_level_far_from_all_values_does_not_press_them_together() -> None:
    level = plots.ReferenceLine(10.0, "floor", "floor")
    assert level.is_near([12.0, 15.0])
    assert not level.is_near([80.0, 82.0])


# Tables


def test_a_table_that_is_too_wide_shows_its_edge_and_keeps_its_first_column() -> None:
    assert re.search(r"tr > th:first-child \{ position: sticky; left: 0;", STYLE)
    assert re.search(r"\.scroll \{[^}]*var\(--shade\)[^}]*scroll no-repeat", STYLE)
    both = page([sample.distill(), sample.distill("other")])
    assert re.search(r'<th scope="row"><small>small</small>', both)


def test_the_teacher_says_once_why_it_has_no_gain() -> None:
    html = page([comparison()])
    row = next(row for row in html.split("<tr>") if ">teacher</th>" in row)
    assert "what students are measured against" in row
    assert 'colspan="3"' in row
    assert n.NOTHING not in re.sub("<[^>]+>", "", row.split("</tr>")[0])
    teacher = next(line for line in printed(comparison(), 120) if line.strip().startswith("teacher"))
    assert n.NOTHING not in teacher


def test_a_column_says_where_students_of_a_comparison_start() -> None:
    record = checked(comparison())
    assert "starts from" in markdown_table([record])
    assert "layers 0, 2, 4 of the teacher" in page([record])
    assert "starts from" not in markdown_table([checked(sample.distill())])


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["distill", "compare, one seed", "checked", "translate", "words", "bench", "train"])
def test_names_of_models_are_whole_in_a_terminal(name: str, width: int) -> None:
    record = sample.every()[name]
    lines = printed(record, width)
    assert max(map(len, lines)) <= width
    for arm in record.arms:
        assert any(line.strip().startswith(arm.title) for line in lines)


def test_right_and_wrong_have_a_legend() -> None:
    html = page([sample.distill()])
    key = html.split("Where student and teacher disagree")[1].split("<form")[0]
    assert "✓" in key
    assert "✗" in key
    assert "✓ Where the teacher is right" in html


# Notebooks


def test_a_report_shows_its_head_in_a_notebook() -> None:
    record = untaught(sample.distill())
    html = Report((record,))._repr_html_()
    assert html.count("<svg") == html.count("</svg>") > 1
    assert html.count("<div") == html.count("</div>")
    assert "@scope (.limbeck-report)" in html
    assert not re.search(r"(?m)^(:root|body|html)", html)
    for part in ("<script", "<html", "http://", "https://"):
        assert part not in html
    assert "serious" in html.split("<p")[1]
    assert "most frequent class (positive)" in html
