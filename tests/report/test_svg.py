"""Chart primitives: ticks that are round, labels that do not collide, drawings that are well formed."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limbeck.report import plots, svg
from limbeck.report.svg import Box, Label, place, text_width


def test_ticks_are_round_and_inside() -> None:
    assert svg.nice_ticks(0, 101, 5) == [0, 25, 50, 75, 100]
    assert svg.nice_ticks(79.4, 82.3, 6) == [79.5, 80, 80.5, 81, 81.5, 82]
    assert svg.log_ticks(0.9, 120) == [1, 2, 5, 10, 20, 50, 100]
    assert svg.tick_texts([79.5, 80]) == ["79.5", "80.0"]
    assert svg.tick_texts([-1000, 0]) == ["−1,000", "0"]


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6), st.integers(2, 8))
def test_ticks_for_any_range(low: float, width: float, count: int) -> None:
    ticks = svg.nice_ticks(low, low + width, count)
    assert len(ticks) <= count + 1
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_a_scale_maps_ends_to_ends() -> None:
    straight, log = svg.Scale(0, 10, 100, 200), svg.Scale(1, 100, 0, 200, log=True)
    assert [straight(0), straight(5), straight(10)] == [100, 150, 200]
    assert [log(1), log(10), log(100)] == pytest.approx([0, 100, 200])
    ticks = svg.Scale(0.4, 2e6, 0, 200, log=True).ticks(5)
    assert [text for _, text in ticks[:3]] == ["0.5", "1", "2"]
    assert ticks[-1][1] == "2,000,000"


def test_lengths_start_at_zero_unless_they_differ_greatly() -> None:
    assert svg.from_zero([50, 90])[::2] == (0.0, False)
    assert svg.from_zero([1, 900])[2]


@given(st.lists(st.tuples(st.floats(20, 460), st.floats(20, 260)), min_size=1, max_size=14))
def test_labels_never_cover_marks_or_each_other(spots: list[tuple[float, float]]) -> None:
    bounds = Box(0, 0, 480, 280)
    marks = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    placed = place([Label(x, y, f"run number {i}") for i, (x, y) in enumerate(spots)], marks, bounds)
    for one, other in combinations([label.box for label in placed], 2):
        assert one.overlap(other) == 0
    for label in placed:
        assert bounds.holds(label.box)
        assert not any(label.box.overlap(mark) for mark in marks)


def test_a_lone_label_always_finds_a_place() -> None:
    for x in (8, 240, 472):
        assert (
            len(place([Label(x, 100, "3 layers, distilled")], [Box(x - 7, 93, x + 7, 107)], Box(0, 0, 480, 280))) == 1
        )


def test_marks_at_one_place_are_set_apart_in_order() -> None:
    assert plots.dodge([100, 101, 300], near=10) == [95.5, 105.5, 300]
    assert plots.dodge([101, 100], near=10) == [105.5, 95.5]


def test_wide_letters_are_wider() -> None:
    assert text_width("电影") > text_width("ab")


def test_drawings_are_well_formed_and_escaped() -> None:
    name = '<b>&"'
    size = svg.Canvas(300, 200)
    drawn = [
        plots.scatter([plots.Point(1, 2, "student", name, name, (1.9, 2.1), 0.1)], *2 * [plots.Axis(name)], size, name),
        plots.line_chart(
            [plots.Line(((0, 1), (1, 2)), "student", tip=name, ring=(1, 2))],
            plots.ReferenceLine(3, name, "teacher"),
            name,
            plots.Axis(name),
            size,
            name,
        ),
        plots.bars([(name, [plots.Value(name, 0.4, name, "student")])], 1.0, 300, name),
        plots.intervals([plots.Interval(name, 1, -1, 3, name, "student")], plots.Axis(name), 300, name),
        svg.swatch("baseline"),
    ]
    for text in drawn:
        tree = ET.fromstring(text)
        assert tree.tag == "svg"
        assert all(
            math.isfinite(float(node.get(key, 0))) for node in tree.iter() for key in ("x", "y", "cx", "cy", "width")
        )
    assert all(name in ET.fromstring(text).find("title").text for text in drawn[:4])


def test_one_point_or_a_flat_line_still_has_a_scale() -> None:
    size = svg.Canvas(300, 200)
    for value in (0.0, 81.5):
        flat = [plots.Line(((0, value), (0, value)), "teacher")]
        for drawn in (
            plots.scatter([plots.Point(value, value, "teacher")], plots.Axis("x"), plots.Axis("y"), size, "one"),
            plots.line_chart(flat, None, "x", plots.Axis("y"), size, "flat"),
        ):
            ET.fromstring(drawn)
            assert "nan" not in drawn
            assert "inf" not in drawn


def test_a_short_logarithmic_scale_has_ticks_too():
    scale = svg.Scale(2.15, 4.62, 0, 100, log=True)
    assert [text for _, text in scale.ticks(6)] == ["2.5", "3.0", "3.5", "4.0", "4.5"]
    assert [text for _, text in svg.Scale(0.4, 30, 0, 100, log=True).ticks(6)] == ["0.5", "1", "2", "5", "10", "20"]
