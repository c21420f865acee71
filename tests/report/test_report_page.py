"""The page: self-contained, well formed, safe with any text, and true to its Record."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import sample

from limbeck.core.errors import DataError, KnobError
from limbeck.core.record import Record
from limbeck.report import Report, figures, models
from limbeck.report.page import page, told_apart

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "br", "input", "img", "hr"}


class Reader(HTMLParser):
    """Follows the tags, and keeps what a page could load, run or show."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace(figures.GAP, " ").split())


def test_tags_balance_and_ids_differ(any_record: Record) -> None:
    read = Reader(page([any_record]))
    assert (read.open, read.wrong) == ([], [])
    assert len(read.ids) == len(set(read.ids))
    assert sum(tag == "h1" for tag, _ in read.tags) == 1


def test_many_records_make_one_page_with_a_section_for_each() -> None:
    records = list(sample.every().values())
    read = Reader(page([*records, records[0]]))
    assert (read.open, read.wrong) == ([], [])
    assert len(read.ids) == len(set(read.ids))
    linked = [
        given["href"].removeprefix("#") for tag, given in read.tags if tag == "a" and given["href"].startswith("#")
    ]
    assert len(linked) == len(records) + 1
    assert set(linked) <= set(read.ids)
    rows = sum(len(models.models(record)) + bool(record.floor) for record in [*records, records[0]])
    table = page([*records, records[0]]).split('class="arms sortable dense"')[1].split("</table>")[0]
    assert table.count("<tr") == rows + 1


def test_nothing_is_asked_of_the_network(any_record: Record) -> None:
    html = page([any_record])
    for tag, given in Reader(html).tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            value = given.get(name, "")
            inner = not value or value.startswith(("#", "data:"))
            assert inner or (tag, name) == ("a", "href"), (tag, name, value)
        assert tag not in ("img", "iframe", "object", "embed", "base")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", html)
    assert "default-src 'none'" in html


def test_the_only_link_outside_is_the_paper(record: Record) -> None:
    links = [given["href"] for tag, given in Reader(page([record])).tags if tag == "a"]
    assert links == ["https://arxiv.org/abs/1503.02531"]


def test_hostile_text_is_only_text() -> None:
    hostile = sample.HOSTILE
    record = sample.distill(name=hostile, labels=(hostile, "b"))
    record = record.but(
        command=hostile,
        notes=[hostile],
        knobs={hostile: hostile},
        figures={hostile: 1.0},
        seconds={hostile: 1.0},
        fingerprints={hostile: hostile},
        data=record.data.but(source=hostile, dropped={hostile: 3}, notes=[hostile]),
        arms=[arm.but(title=f"{hostile}{arm.name}", objective=hostile) for arm in record.arms],
    )
    for html in (page([record]), page([record, record])):
        read = Reader(html)
        assert (read.open, read.wrong) == ([], [])
        assert sum(tag == "script" for tag, _ in read.tags) == 1
        assert not any(tag == "img" or "onerror" in given for tag, given in read.tags)
        assert hostile in read.text
        assert "49" not in re.findall(r"\{\{ (\d+)", read.text)


def test_texts_are_whole_in_any_script(record: Record) -> None:
    words = Reader(page([record])).text
    for text in (sample.LONG.strip(), sample.ARABIC, sample.CHINESE, "A man is asleep."):
        assert text in words


def test_numbers_on_the_page_are_the_records(record: Record) -> None:
    words = Reader(page([record])).text
    for arm in record.arms:
        assert f"{100 * arm.mean('accuracy'):.1f}" in words
        assert f"{arm.size.bytes_on_disk / 1e6:.1f} MB" in words
        assert f"{arm.speed.p50_ms:.3g}" in words
        assert f"{arm.speed.p95_ms:.3g}" in words
    assert "81.5 ± 0.5 %" in words
    assert record.comparisons[0].sentence in words
    assert record.command in words
    assert "8,530" in words
    assert "dropped, label missing 11" in words
    assert "train.rate 5e-05" in words
    assert "objective.1.temperature 4.0" in words
    assert record.machine.versions["torch"] in words


def test_every_class_has_its_row() -> None:
    record = sample.many_classes()
    table = page([record]).split('class="classes"')[1].split("</table>")[0]
    assert table.count("<tr") == 1 + 14
    mine = sum(run.per_class[3].f1 for run in record.arm("distilled").runs) / 3
    gap = mine - record.arm("teacher").runs[0].per_class[3].f1
    assert figures.percent(mine) in table
    assert figures.points(gap) in table


def test_disagreements_are_counted_by_who_was_right(record: Record) -> None:
    html = page([record])
    rows = record.disagreements
    for right, expected in (
        ("teacher", sum(row.label == row.teacher for row in rows)),
        ("student", sum(row.label == row.student for row in rows)),
        ("unknown", sum(row.label == "" for row in rows)),
    ):
        assert html.count(f'<li class="right-{right}"') == expected
        assert re.search(rf'value="{right}"><span>[a-z ]+ {expected}<', html)


def test_more_disagreements_than_shown_are_announced(record: Record) -> None:
    words = Reader(page([record.but(disagreements=record.disagreements * 20)])).text
    assert "The first 120 of 260" in words


def test_charts_have_names_and_finite_coordinates(any_record: Record) -> None:
    html = page([any_record])
    for svg in re.findall(r"<svg.*?</svg>", html, re.S):
        assert 'aria-hidden="true"' in svg or re.search(r'aria-label="[^"]{8,}"', svg)
        assert not re.search(r'="[^"]*\b(nan|inf)\b', svg)


def test_a_page_of_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="at least one record"):
        page([])


def test_report_saves_to_a_folder_or_a_file(record: Record, tmp_path) -> None:
    report = Report((record,))
    assert report.save(tmp_path) == tmp_path / "report.html"
    assert report.save(tmp_path / "new") == tmp_path / "new" / "report.html"
    assert (tmp_path / "report.html").read_text("utf-8") == report.html() == page([record])
    assert report.save(tmp_path / "card.md").read_text("utf-8").startswith("---\n")
    assert Report((record, record)).save(tmp_path / "all.md").read_text("utf-8").startswith("| run |")
    with pytest.raises(KnobError, match=r"page\.pdf"):
        report.save(tmp_path / "page.pdf")


def test_a_record_read_back_gives_the_same_page(any_record: Record, tmp_path) -> None:
    assert page([Record.load(any_record.save(tmp_path / "record.json"))]) == page([any_record])


def test_runs_of_one_name_are_told_apart() -> None:
    records = [sample.distill(), sample.distill(), sample.distill().but(name="other")]
    names = [record.name for record in told_apart(records)]
    assert names == [f"{records[0].name} 1", f"{records[0].name} 2", "other"]
    assert all(name in page(records) for name in names)
