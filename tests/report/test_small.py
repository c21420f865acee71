"""Small models in reports: the frontier, the chain, exports, models timed side by side, and when not to praise."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
import sample
import sample_small as small
from test_model_card import shown
from test_report_page import Reader

from limbeck.core.errors import DataError
from limbeck.core.record import Floor, Record
from limbeck.report import Report, plots
from limbeck.report import figures as n
from limbeck.report import models as m
from limbeck.report.card import model_card
from limbeck.report.chain import details, made_from, smaller
from limbeck.report.charts import lengths, tones
from limbeck.report.frontier import picture, trade_offs
from limbeck.report.page import page
from limbeck.report.summary import conclusion, gap_sentences, headline
from limbeck.report.table import markdown_table
from limbeck.report.warnings import warnings


def plain(text: str) -> str:
    return text.replace(n.GAP, " ")


def row(record: Record, title: str):
    return next(arm for arm in m.models(record) if arm.title == title)


def told(record: Record) -> list[tuple[str, bool]]:
    return [(plain(one.text), one.serious) for one in warnings(record)]


def changed(record: Record, name: str, **fields: object) -> Record:
    """With these fields in an artifact."""
    return record.but(artifacts=[one.but(**fields) if one.name == name else one for one in record.artifacts])


def scored(record: Record, **accuracies: float) -> Record:
    """With these accuracies of artifacts, by the last word of their names."""
    made = [
        one.but(quality={"accuracy": accuracies[key]}) if (key := re.sub(r"\W|\d", "", one.name)) in accuracies else one
        for one in record.artifacts
    ]
    return record.but(artifacts=made)


# The chain


def test_a_chain_is_told_in_its_order_and_its_last_step_is_the_arm() -> None:
    record = small.compressed()
    titles = [arm.title for arm in m.models(record)]
    steps = ["start", "+ vocabulary", "+ lowrank", "+ recovery", "+ quantize"]
    assert titles == [*steps, "float32 in ONNX Runtime", "int8 in ONNX Runtime"]
    assert row(record, "+ quantize").speed == record.arm("compressed").speed, "the arm was timed in its place"
    origins = [origin.title if (origin := made_from(record, arm)) else "" for arm in m.models(record)]
    assert origins == ["", *steps, "+ quantize"]


def test_a_chain_that_begins_with_its_arm_keeps_its_row() -> None:
    record = small.compressed()
    start = record.artifacts[0]
    arm = record.arms[0].but(name="model", title="MiniLM", role="model", size=start.size, speed=start.speed)
    arm = arm.but(runs=[arm.runs[0].but(quality=start.quality)])
    record = record.but(arms=[arm], artifacts=[one.but(arm="model") for one in record.artifacts[1:]])
    assert [one.title for one in m.models(record)][:2] == ["MiniLM", "+ vocabulary"]
    assert m.reference_of(record).title == "MiniLM"
    assert made_from(record, row(record, "+ vocabulary")).title == "MiniLM"
    assert made_from(record, row(record, "int8 in ONNX Runtime")).title == "+ quantize"
    assert plain(headline(record)) == "10.9× smaller and 7.7× faster, 98.7 % of the accuracy kept."


def test_steps_of_a_distilled_student_stand_beside_it_and_lead_to_it() -> None:
    record = small.exported(1)
    chain = [one.but(arm="distilled") for one in small.compressed(exported=False).artifacts[:4]]
    record = record.but(artifacts=[*chain, *record.artifacts])
    titles = [arm.title for arm in m.models(record)]
    assert titles[:3] == [arm.title for arm in record.arms]
    assert titles[3:] == ["start", "+ vocabulary", "+ lowrank", "distilled, int8 in ONNX Runtime"]
    assert made_from(record, record.arm("distilled")).title == "+ lowrank"
    assert "+ lowrank" in page([record])
    assert "+ lowrank" not in shown(record), "short in the terminal"
    assert made_from(record, m.models(record)[-1]).title == "3 layers, distilled"


def test_the_table_of_a_chain_says_what_each_pass_bought_and_cost() -> None:
    record = small.compressed()
    table = plain(markdown_table([record])).splitlines()
    assert table[0] == "| model | × smaller | × faster | accuracy | change | parameters | in all | p50 | took |"
    assert table[2].startswith("| start |  |  | 89.8 % |  |")
    assert table[4].startswith("| + lowrank | 2.9× | 1.6× | 86.1 % | −3.7 (−4.6 to −2.8) | 7.80 M | 31.2 MB |")
    assert table[5].endswith("| 9.10 ms | 8 min 32 s |")
    words = Reader(page([record])).text
    assert "What each pass bought and cost" in words
    for text in (words, plain(model_card(record))):
        assert "13,487 of 30,522 pieces remain" in text
        assert "96.2 % of predictions are the teacher’s" in text
        assert "Beside its source on 872 rows: agreement 99.3 %, largest difference 0.210" in text
    assert "in all" in shown(record)


def test_a_step_without_words_has_its_figures() -> None:
    record = changed(small.compressed(), "02-lowrank", note="", figures={"mean_rank": 84.5, "largest_difference": 3e-6})
    assert details(record, row(record, "+ lowrank")) == ["mean rank 84.5, largest difference 3.0e-06"]


def test_a_model_that_is_its_own_teacher_is_told_once() -> None:
    record = small.compressed()
    start = record.artifacts[0]
    teacher = record.arms[0].but(name="teacher", title="teacher", role="teacher", size=start.size)
    teacher = teacher.but(runs=[teacher.runs[0].but(quality=start.quality)])
    assert "teacher" not in [arm.title for arm in m.models(record.but(arms=[teacher, *record.arms]))]
    other = teacher.but(runs=[teacher.runs[0].but(quality={"accuracy": 0.93})])
    assert "teacher" in [arm.title for arm in m.models(record.but(arms=[other, *record.arms]))]


def test_seeds_that_made_the_same_are_one_row() -> None:
    record = small.exported(3)
    export = m.models(record)[-1]
    assert [arm.title for arm in m.models(record)].count("distilled, int8 in ONNX Runtime") == 1
    assert n.quality(export, "accuracy").values == tuple(one.quality["accuracy"] for one in record.artifacts)
    assert "88.7 ± 0.5 %" in plain(markdown_table([record]))
    assert gap_sentences(record) == [], "an interval of one seed is not that of three"


# The headline


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        (0.887, "10.9× smaller and 7.7× faster, 98.7 % of the accuracy kept."),
        (0.898, "10.9× smaller and 7.7× faster, and reaches an accuracy of 89.8 %."),
        (0.905, "10.9× smaller and 7.7× faster, and reaches an accuracy of 90.5 %."),
        (0.82, "10.9× smaller and 7.7× faster, but only 91.3 % of the accuracy kept."),
        (0.509, "“int8 in ONNX Runtime” is no better than the most frequent class (positive): accuracy 50.9 %"),
    ],
)
def test_the_headline_of_a_chain(accuracy: float, said: str) -> None:
    text = plain(headline(scored(small.compressed(), onnxint=accuracy)))
    assert text.startswith(said)
    assert ("smaller" in text) == (accuracy > 0.6)


def test_what_became_larger_or_slower_is_not_praised() -> None:
    record = small.compressed(small.STEPS[:1], exported=False)
    worse = record.artifacts[-1].but(size=small.size(100.0))
    record = record.but(artifacts=[record.artifacts[0], worse], arms=[record.arms[0].but(speed=small.speed(29.0))])
    assert plain(headline(record)) == "9.6 % larger and 1.9× slower, and reaches an accuracy of 89.8 %."
    record = record.but(artifacts=[record.artifacts[0], worse.but(size=small.size(50.0))])
    assert plain(headline(record)).startswith("1.8× smaller but 1.9× slower,")


def test_a_start_at_the_floor_has_nothing_to_keep() -> None:
    record = small.compressed().but(floor=Floor(title="most frequent class", quality={"accuracy": 0.898}))
    record = scored(record, onnxint=0.91)
    assert "Its start is no better than the most frequent class, so there is nothing" in plain(headline(record))
    assert "kept" not in headline(record)


def test_ratios_are_rounded_down() -> None:
    assert [n.times(value) for value in (14.99, 15.0, 1.0, 123.9)] == ["14.9×", "15.0×", "1.0×", "123×"]


def test_what_is_lost_beyond_chance() -> None:
    record = small.compressed()
    assert plain(conclusion(record)) == "Step by step, accuracy lost beyond chance: “+ lowrank” −3.7 (−4.6 to −2.8)."
    whole = small.compressed(small.STEPS[:1], exported=False)
    assert conclusion(whole).startswith("“+ vocabulary” is not proven to differ from “start”"), "one step is all"
    harmless = record.but(artifacts=[one for one in record.artifacts if one.step not in ("lowrank", "recovery")])
    assert conclusion(harmless) == "No single step is proven to have cost accuracy."
    bare = record.but(artifacts=[one.but(comparison=None) for one in record.artifacts])
    assert "not known" in conclusion(bare)
    direct = changed(record, "onnx-int8", comparison=small.compared("onnx-int8", "00-start", -0.011))
    assert conclusion(direct).startswith("“int8 in ONNX Runtime” loses against “start”")


# The frontier


def test_the_front_is_what_nothing_beats_in_both() -> None:
    points = [plots.Point(x, y, "student") for x, y in ((1, 80), (2, 79), (2, 85), (3, 85), (4, 90))]
    assert [(p.x, p.y) for p in plots.front(points, higher=True)] == [(1, 80), (2, 85), (4, 90)]
    assert [(p.x, p.y) for p in plots.front(points, higher=False)] == [(1, 80), (2, 79)]


def test_the_frontier_has_every_mark_the_chain_and_the_shares_of_the_start() -> None:
    record = small.compressed()
    figure = trade_offs([record])[0]
    assert figure.title == "Size and latency against accuracy"
    for panel in (figure, *figure.beside):
        for drawn in (panel.wide, panel.narrow):
            tree = ET.fromstring(drawn)
            kinds = [node.get("class", "").split() for node in tree.iter()]
            assert sum("mark" in kind for kind in kinds) == len(m.models(record))
            assert sum("chain" in kind for kind in kinds) == len(m.models(record)) - 1
            assert sum("share" in kind for kind in kinds) == 2
            assert sum("front" in kind for kind in kinds) == 1
    assert "megabytes in all" in figure.wide
    assert "Thin lines: 97 % and 95 % of “start”’s accuracy." in plain(figure.caption)
    assert [name for _, name in figure.legend][:3] == ["start", "after a pass", "exported"]


def test_bytes_of_weights_are_not_compared_with_bytes_in_all() -> None:
    record = small.compressed()
    mixed = changed(record, "onnx-int8", size=record.artifacts[-1].size.but(bytes_in_all=0))
    assert "megabytes on disk" in trade_offs([mixed])[0].wide
    sizes = [one.size.bytes_on_disk for one in (mixed.artifacts[0], mixed.artifacts[-1])]
    assert smaller(mixed, m.models(mixed)[-1]) == pytest.approx(sizes[0] / sizes[1])


def test_what_is_not_trained_yet_is_neither_drawn_nor_blamed() -> None:
    record = scored(small.compressed(), lowrank=0.5)
    assert "+ lowrank" not in trade_offs([record])[0].wide
    assert not any("no better than" in text for text, _ in told(record))
    assert any("no better than" in text for text, serious in told(scored(record, onnxint=0.5)) if serious)


def test_a_record_without_exports_is_drawn_as_lengths_from_zero() -> None:
    drawn = trade_offs([sample.distill()])[0].wide
    assert ">0<" in drawn
    assert "share" not in drawn
    assert ">0<" not in trade_offs([small.exported()])[0].wide


def test_the_picture_stands_alone(tmp_path) -> None:
    records = (small.exported(1), small.compressed().but(name="chain"))
    file = Report(records).save(tmp_path / "frontier.svg")
    tree = ET.fromstring(file.read_text("utf-8"))
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    style = next(node.text for node in tree.iter() if node.tag.endswith("style"))
    assert "prefers-color-scheme: dark" in style
    assert "light-dark" not in style
    assert style.count("(") == style.count(")")
    texts = [node.text for node in tree.iter() if node.tag.endswith("text")]
    assert {"teacher", "small", "chain", "exported", "megabytes in all"} <= set(texts)
    with pytest.raises(DataError, match="no two models"):
        picture([sample.benched()])


# Models timed side by side


def test_bench_shows_ratios_first() -> None:
    record = small.benched()
    head, _, *rows = plain(markdown_table([record])).splitlines()
    assert head.startswith("| model | × smaller | × faster | accuracy | in all | first answer | p50 | p95 | p99 |")
    assert rows[2].startswith("| runs/small/onnx-int8 | 17.8× | 15.2× | 88.7 % | 5.10 MB | 420 ms | 0.970 ms |")
    assert "0.951 to 0.999 ms" in rows[2]
    assert plain(headline(record)) == (
        "“runs/small/onnx-int8” is 17.8× smaller and 15.2× faster than “runs/teacher”, 98.7 % of the accuracy kept."
    )
    assert plain(headline(small.benched(scored=False))).endswith("faster than “runs/teacher”.")
    assert max(map(len, shown(record).splitlines())) <= 80
    busy = record.but(arms=[arm.but(speed=arm.speed.but(busy=True)) for arm in record.arms])
    assert "The machine was busy" in shown(busy)


def test_a_bench_with_a_student_among_others_is_about_the_student() -> None:
    record = small.benched()
    teacher, student, fastest = record.arms
    arms = [teacher.but(role="teacher"), student.but(role="student"), fastest]
    assert headline(record).startswith(f"“{fastest.title}” is ")
    assert headline(record.but(arms=arms)).startswith(f"“{student.title}” is ")


def test_a_bench_whose_first_model_is_the_fastest_boasts_of_nothing() -> None:
    record = small.benched()
    assert headline(record.but(arms=record.arms[::-1])) == "bench: 3 models side by side."


def test_latency_by_length_is_drawn_where_it_was_taken() -> None:
    record = small.benched()
    drawn = lengths(record).wide
    assert drawn.count('class="line strong') == 3
    assert drawn.count('class="mark ring') == 9
    assert lengths(sample.benched()) is lengths(small.exported()) is None


# Exports


def test_the_headline_of_a_run_is_what_it_leaves_for_use() -> None:
    record = small.exported(1)
    assert plain(headline(record)).startswith("The 3-layer student in ONNX Runtime as int8 keeps")
    assert plain(headline(record)).endswith(", and is 17.8× smaller and 15.2× faster.")
    unscored = record.but(artifacts=[one.but(quality={}) for one in record.artifacts])
    assert plain(headline(unscored)).endswith("; in ONNX Runtime as int8 it is 17.8× smaller and 15.2× faster.")
    floored = record.but(artifacts=[one.but(quality={"accuracy": 0.5}) for one in record.artifacts])
    assert "no better than" in headline(floored)
    trained = sample.trained()
    exported = record.artifacts[0].but(arm="teacher", size=small.size(20.0), quality={"accuracy": 0.8})
    said = plain(headline(trained.but(artifacts=[exported])))
    assert re.search(r"reaches an accuracy of 80\.1 %.*; in ONNX Runtime as int8 it keeps 99\.\d % and is", said)


def test_exports_of_several_arms_may_share_a_name() -> None:
    record = small.exported(1)
    one = record.artifacts[0]
    record = record.but(artifacts=[one, one.but(arm="plain", quality={"accuracy": 0.85})])
    rows = m.models(record)
    assert len({arm.name for arm in rows}) == len(rows) == len(tones(record))
    assert [n.quality(arm, "accuracy").mean for arm in rows[-2:]] == [one.quality["accuracy"], 0.85]


def test_the_card_shows_how_to_use_what_needs_no_torch() -> None:
    card = model_card(small.exported(1))
    assert 'limbeck_runtime.load("exports/onnx-int8-0")' in card
    assert "AutoModelForSequenceClassification" in card
    assert "limbeck.load(" in model_card(small.compressed())
    assert "limbeck_runtime" not in model_card(sample.distill())


# Warnings


@pytest.mark.parametrize(("agreement", "expected"), [(0.985, []), (0.97, [False]), (0.9, [True])])
def test_low_parity_is_told(agreement: float, expected: list[bool]) -> None:
    record = changed(small.compressed(), "onnx-int8", figures={"agreement": agreement})
    found = [serious for text, serious in told(record) if "made from on only" in text]
    assert found == expected


def test_a_trim_that_splits_other_texts_otherwise_is_told() -> None:
    figures = {"held_out_resegmented_share": 0.12, "held_out_new_unknowns": 3}
    text = "“+ vocabulary” splits 12.0 % of the dev texts into other tokens than before, with 3 new unknown tokens."
    assert (text, False) in told(changed(small.compressed(), "01-vocabulary", figures=figures))
    assert not any("splits" in text for text, _ in told(small.compressed()))


def test_a_pass_that_bought_nothing_is_told() -> None:
    record = small.compressed()
    texts = [text for text, _ in told(record)]
    assert "“+ quantize” made the model slower (9.10 ms → 9.60 ms)." in texts
    assert not any("recovery" in text for text in texts), "training buys accuracy"
    larger = changed(record, "02-lowrank", size=small.size(70.0), speed=small.speed(20.0))
    assert "“+ lowrank” made the model larger (64.9 MB → 70.0 MB) and slower (14.5 ms → 20.0 ms)." in [
        text for text, _ in told(larger)
    ]
    same = changed(record, "01-vocabulary", size=record.artifacts[0].size, speed=record.artifacts[0].speed)
    assert "“+ vocabulary” made the model neither smaller nor faster." in [text for text, _ in told(same)]
    untimed = same.but(artifacts=[one.but(speed=None) for one in same.artifacts])
    assert "“+ vocabulary” made the model no smaller." in [text for text, _ in told(untimed)]


def test_intervals_that_meet_do_not_prove_a_pass_slower() -> None:
    wide = small.speed(9.6).but(low_ms=8.0, high_ms=11.0)
    record = small.compressed()
    record = record.but(arms=[record.arms[0].but(speed=wide)])
    assert not any("+ quantize” made the model slower" in text for text, _ in told(record))
