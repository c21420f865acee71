"""A comparison as a page, a card and a table: every arm, every gain with its verdict, everything that failed."""

from __future__ import annotations

import pytest
from rich.console import Console
from sample_compare import COLUMNS, comparison

from limbeck.core.record import Arm, Record
from limbeck.report import Report
from limbeck.report.figures import change_text, gain_of
from limbeck.report.page import page
from limbeck.report.summary import gain_sentences, joint_confidence
from limbeck.report.table import terminal_table, verdict

RECORD = comparison()


def printed(record: Record, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as seen:
        console.print(terminal_table(record))
    return seen.get()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_table_fits_any_terminal(width: int) -> None:
    lines = printed(RECORD, width).splitlines()
    assert max(map(len, lines)) <= width
    for name in ("pkd-skip", "two-layers", "finetune"):
        assert any(line.split()[:1] == [name] for line in lines)
    assert "+1.5 (+0.3 to +2.6)" in "\n".join(lines)
    assert "…" not in "\n".join(lines)


def test_a_wide_terminal_shows_every_column() -> None:
    seen = printed(RECORD, 200)
    row = next(line for line in seen.splitlines() if line.split()[:1] == ["cka"])
    for cell in ("3 layers × 384", "78.4 ± 0.4 %", "−1.5 (−2.7 to −0.4)", "worse", "17.2 M", "69.0 MB", "6.30 ms"):
        assert cell in row
    assert "1 min" in row


@pytest.mark.parametrize(
    ("low", "high", "metric", "word"),
    [
        (0.001, 0.02, "accuracy", "better"),
        (-0.02, -0.001, "accuracy", "worse"),
        (-0.01, 0.01, "accuracy", "unclear"),
        (0.0, 0.01, "accuracy", "unclear"),
        (-2.0, -1.0, "mse", "better"),
        (1.0, 2.0, "mse", "worse"),
    ],
)
def test_the_verdict_is_what_the_interval_allows(low: float, high: float, metric: str, word: str) -> None:
    found = RECORD.comparisons[0].but(low=low, high=high, difference=(low + high) / 2, metric=metric)
    assert verdict(RECORD, found) == word


def test_gains_are_in_points_or_in_the_unit_of_the_metric() -> None:
    found = RECORD.comparisons[0].but(difference=0.0123, low=-0.0004, high=0.025)
    assert change_text(RECORD, found).replace("\xa0", " ") == "+1.2 (−0.0 to +2.5)"
    assert change_text(RECORD, found.but(metric="pearson")).replace("\xa0", " ") == "+0.012 (−0.000 to +0.025)"


def test_only_columns_have_a_gain() -> None:
    assert {arm.name for arm in RECORD.arms if gain_of(RECORD, arm)} == {name for name, *_, than in COLUMNS if than}


@pytest.mark.parametrize("write", [page, lambda records: Report(tuple(records)).markdown()])
def test_every_arm_every_sentence_and_every_failure_is_told(write) -> None:
    text = write([RECORD]).replace("&#34;", '"').replace("\xa0", " ")
    for arm in RECORD.arms:
        assert arm.title in text
    for sentence in gain_sentences(RECORD):
        assert sentence.replace("\xa0", " ") in text
    assert joint_confidence(RECORD).replace("\xa0", " ") in text
    assert "was refused: mobilebert compares heads one to one" in text
    assert "failed with seeds 3, 4: MemoryError" in text
    assert "<b>room" not in text
    assert "from_pretrained" not in text


def test_many_comparisons_say_that_their_intervals_were_widened() -> None:
    assert (
        joint_confidence(RECORD)
        .replace("\xa0", " ")
        .startswith("9 comparisons were made at once, so each interval is at 99.45 %")
    )
    assert joint_confidence(RECORD.but(comparisons=[RECORD.comparisons[0]])) == ""


def test_a_panel_for_each_arm_that_learned() -> None:
    html = page([RECORD])
    drawn = html.split("How they learned")[1].split("</section>")[0]
    assert drawn.count("<svg") == len(COLUMNS)
    assert page([comparison(1, COLUMNS[2:6])]).count("How they learned") == 1


def unscored(arm: Arm) -> Arm:
    runs = [run.but(quality={}, per_class=[], curve=[point.but(dev={}) for point in run.curve]) for run in arm.runs]
    return arm.but(runs=runs)


def test_texts_without_labels_have_a_page_a_card_and_a_table_too() -> None:
    bare = RECORD.but(arms=[unscored(arm) for arm in RECORD.arms], comparisons=[])
    html = page([bare])
    assert "of every model, the best first" in page([RECORD])
    assert "of every model, the best first" not in html
    assert "the test rows carry no labels" in html
    for text in (html, Report((bare,)).markdown(), printed(bare, 100)):
        assert "tinybert" in text


def test_a_comparison_stands_beside_other_runs() -> None:
    both = page([RECORD, RECORD.but(name="other")])
    assert both.count('class="arms') == 3
    assert Report((RECORD, RECORD)).markdown().count("| tinybert |") == 2


def test_a_record_of_a_comparison_is_kept_whole(tmp_path) -> None:
    assert Record.load(RECORD.save(tmp_path / "record.json")) == RECORD
