"""Translators in every report: the paper's table, the gap that is closed, what was written, and a snippet that runs."""

from __future__ import annotations

import re

import pytest
import sample
import sample_writers as writers
import torch
import yaml
from test_compare_page import printed
from test_model_card import shown
from test_report_page import Reader
from test_words import run_snippet
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Record
from limbeck.core.task import TaskInfo
from limbeck.report import Report
from limbeck.report import figures as n
from limbeck.report.answers import calibration, closeness
from limbeck.report.card import comparison_card, model_card
from limbeck.report.charts import differences, standing
from limbeck.report.curves import learning
from limbeck.report.figures import gain_of
from limbeck.report.frontier import trade_offs
from limbeck.report.models import models as models_of
from limbeck.report.models import subject_of
from limbeck.report.page import marked, page, section
from limbeck.report.summary import conclusion, gap_sentences, headline, joint_confidence, speed_conditions
from limbeck.report.table import columns, markdown_table

PAPER = [
    "BLEU K=1",
    "BLEU K=5",
    "beam adds",
    "chrF",
    "perplexity, gold",
    "perplexity, teacher’s",
    "p(ŷ)",
    "parameters",
    "on disk",
    "p50",
    "sentences/s",
]


def plain(text: str) -> str:
    return text.replace(n.GAP, " ")


def of(name: str) -> Metric:
    return metric_of(TaskInfo(kind="translate"), name)


def without(record: Record, *names: str) -> Record:
    return record.but(arms=[arm for arm in record.arms if arm.name not in names])


@pytest.mark.parametrize(
    ("metric", "value", "read"),
    [
        ("bleu", 34.86, "34.9"),
        ("chrf_beam", 57.0, "57.0"),
        ("beam_gain", -0.24, f"{n.MINUS}0.2"),
        ("perplexity_of_teacher", 12.344, "12.34"),
        ("p_best", 0.1234, f"12.3{n.GAP}%"),
        ("bleu", float("nan"), n.NOTHING),
    ],
)
def test_figures_of_translators_as_read(metric: str, value: float, read: str) -> None:
    assert n.score(of(metric), value) == read


def test_bleu_differs_in_its_own_unit() -> None:
    assert n.difference(of("bleu"), 5.26) == "+5.3"
    assert n.score(of("bleu"), 34.86, 0.31) == "34.9 ± 0.3"
    assert of("bleu").higher_is_better
    assert not of("perplexity_of_teacher").higher_is_better


def test_the_papers_table_on_page_and_card() -> None:
    record = writers.translated()
    assert [column.title for column in columns([record])] == PAPER
    rows = [line for line in plain(model_card(record)).splitlines() if line.startswith("| ")]
    assert rows[0] == "| model | " + " | ".join((*PAPER[:7], "× smaller", "× faster", "change", *PAPER[7:])) + " |"
    assert any(row.startswith("| teacher | 36.9 | 38.0 | 1.1 | 59.3 | 5.962 | 2.439 | 19.0 % |") for row in rows)
    assert any(row.endswith("| 15.7 M | 62.8 MB | 372 ms | 6.99 |") for row in rows)
    assert "| distilled | 34.9 ± 0.3 | 35.2 ± 0.3 | 0.3 ± 0.0 | 57.3 ± 0.3 |" in "\n".join(rows)
    assert rows[-1].startswith("| distilled, int8 in CTranslate2 | 35.0 | 34.8 | 0.3 | 56.9 | – | – | 30.5 % |")
    words = Reader(page([record.but(artifacts=[])])).text
    assert "31.0 ± 0.5 %" in words
    assert words.index("beam adds") < words.index("Size and latency against BLEU")


def test_where_a_file_was_made_the_frontier_comes_first_and_the_papers_columns_last() -> None:
    words = Reader(page([writers.translated()])).text
    places = ["Size and latency against BLEU", "frontier: nothing is better in both", "sentences/s", "All metrics"]
    assert sorted(places, key=words.index) == places
    assert words.index("All metrics") < words.index("perplexity")


def test_a_page_of_many_translators_has_two_tables_instead_of_one_too_wide() -> None:
    record = writers.compared()
    said = section(record, "here")
    assert [column.title for column in said.models.columns] == [*PAPER[:7], "over no teacher", "verdict"]
    assert [column.title for column in said.costs.columns] == ["shape", *PAPER[7:]]
    assert [row.arm.name for row in said.costs.rows] == [row.arm.name for row in said.models.rows]
    assert Reader(page([record])).text.count("sentences/s") == 1
    assert section(writers.translated(), "here").costs is None


def test_gains_are_drawn_in_the_order_of_the_table() -> None:
    record = writers.compared()
    titles = [arm.title for arm in record.arms if gain_of(record, arm)]
    for order in (1, -1):
        drawn = differences(record.but(comparisons=record.comparisons[::order])).wide
        assert sorted(titles, key=lambda title: drawn.index(f">{title}<")) == titles


def test_threads_that_share_out_a_batch_are_told() -> None:
    record = writers.translated()
    assert "of which" not in speed_conditions(record), "all have one thread"
    arms = [arm.but(speed=arm.speed.but(threads=2)) if arm.speed else arm for arm in record.arms]
    artifacts = [one.but(speed=one.speed.but(threads=2)) for one in record.artifacts]
    said = speed_conditions(record.but(arms=arms, artifacts=artifacts))
    assert "ctranslate2 int8, 2 threads of which a single text has one, one sentence at a time" in said
    assert "torch fp32, 2 threads, one sentence at a time" in said


def test_what_the_table_leaves_out_is_among_all_metrics() -> None:
    words = Reader(page([writers.translated()])).text
    metrics = words.split("All metrics")[1].split("Translations")[0]
    for name in ("chrF with a beam", "p95", "peak memory", "training", "seeds"):
        assert name in metrics


def test_terminal_and_readme_show_the_essential_columns() -> None:
    record = writers.translated()
    head = next(line for line in printed(record, 120).splitlines() if "BLEU" in line)
    assert re.split(r"\s{2,}", head.strip()) == [
        *("BLEU K=1", "BLEU K=5", "× smaller", "× faster"),
        "on disk",
        "p50",
        "sent/s",
    ]
    assert markdown_table([record.but(artifacts=[])]).startswith(
        "| model | BLEU K=1 | BLEU K=5 | p(ŷ) | parameters | on disk | sentences/s |"
    )
    assert "decoded with a beam of 5" in shown(record)


@pytest.mark.parametrize(("width", "gains"), [(80, False), (150, True)])
def test_a_comparison_shows_its_gains_where_there_is_room(width: int, gains: bool) -> None:
    text = printed(writers.compared(), width)
    assert max(map(len, text.splitlines())) <= width
    assert all(word in text for word in ("BLEU K=1", "35.4 ± 0.3", *(["BLEU K=5", "sent/s"] if gains else [])))
    assert ("+5.3 (+4.4 to +6.2)" in text) == gains


def test_a_beam_that_is_not_known_is_not_named() -> None:
    titles = [column.title for column in columns([writers.evaluated_writer()])]
    assert titles[:2] == ["BLEU K=1", "BLEU beam"]
    other = writers.translated().but(knobs={"translate": {"test_beam": 1}})
    assert "decoded greedily" in speed_conditions(other)
    assert "BLEU beam" in markdown_table([writers.translated(), other])


@pytest.mark.parametrize(
    ("student", "much", "by_beam"),
    [
        (34.86, "72 %", "48 %"),
        (36.88, "99 %", "85 %"),
        (40.55, "150 %", "151 %"),
        (29.6, "none", "none"),
        (20.0, "none", "none"),
    ],
)
def test_how_much_of_the_gap_is_closed(student: float, much: str, by_beam: str) -> None:
    first = plain(gap_sentences(writers.translated(student=student, seeds=1))[0])
    end = f"of the gap in greedy BLEU between the student without a teacher and the teacher; with a beam, {by_beam}."
    assert first == f"“distilled” closes {much} {end}"


def test_no_gap_no_sentence() -> None:
    record = writers.translated().but(comparisons=[], artifacts=[])
    weak = record.arm("teacher").but(runs=record.arm("plain").runs)
    assert gap_sentences(without(record, "plain")) == gap_sentences(without(record, "teacher")) == []
    assert gap_sentences(record.but(arms=[weak, *record.arms[1:]])) == []
    assert len(gap_sentences(record)) == 1
    assert gap_sentences(sample.distill()) == []


def test_each_column_of_a_comparison_is_read_beside_its_own_baseline() -> None:
    record = writers.compared()
    said = [plain(sentence) for sentence in gap_sentences(record)]
    closed = {sentence.split("”")[0][1:]: sentence.split(" of the gap")[0].split("closes ")[-1] for sentence in said}
    assert {name: closed[name] for name in ("seq-kd", "seq-inter", "word-kd", "tiny")} == {
        "seq-kd": "72 %",
        "seq-inter": "79 %",
        "word-kd": "21 %",
        "tiny": "none",
    }
    card = plain(comparison_card(record))
    for text in (Reader(page([record])).text, card, " ".join(printed(record, 200).split())):
        assert all(sentence in text for sentence in said)


def test_a_student_in_int8_is_not_another_student() -> None:
    record = writers.translated()
    assert record.artifacts[0].quality["bleu"] > record.arm("distilled").mean("bleu")
    assert subject_of(record).name == "distilled"
    assert conclusion(record).startswith("“distilled” against")
    assert "int8" not in differences(record).wide
    assert any("“distilled, int8 in CTranslate2” against “distilled”" in sentence for sentence in gap_sentences(record))
    contest = writers.compared()
    assert gain_of(contest, models_of(contest)[-1]) is None
    assert joint_confidence(contest).startswith("4 comparisons")
    assert "the best of 4 students" in headline(contest)


def test_the_headline_tells_both_depths() -> None:
    assert plain(headline(writers.translated())) == (
        "The 3+1-layer student in CTranslate2 as int8 keeps 94.9 % of the teacher’s BLEU "
        "and is 8.6× smaller and 33.8× faster."
    )
    assert plain(headline(writers.translated().but(artifacts=[]))) == (
        "The 3+1-layer student keeps 94.4 % of the teacher’s BLEU "
        "at 33 % of the time per sentence and 46 % of the bytes."
    )
    assert "reaches a BLEU of 36.9 on 1,000 sentences" in plain(headline(writers.evaluated_writer()))
    assert "6+6 layers" in plain(comparison_card(writers.compared()))


@pytest.mark.parametrize("name", list(writers.every_writer()))
def test_no_page_or_card_of_translators_speaks_of_blocks_or_right_answers(name: str) -> None:
    record = writers.every_writer()[name]
    for text in (Reader(page([record])).text, model_card(record), shown(record)):
        assert not re.search(r"\b(blocks?|rows?|labels?|labelled|calibration|right answers|documents?)\b", text)
        assert "Bleu" not in text


def test_charts_of_translators() -> None:
    record = writers.translated()
    assert [figure.title for figure in trade_offs([record])] == ["Size and latency against BLEU"]
    assert len(trade_offs([record])[0].beside) == 1
    assert all("Better lies up" in figure.caption for figure in trade_offs([record]))
    assert "one sentence, decoded with a beam of 5" in trade_offs([record])[0].caption
    assert not trade_offs([record.but(arms=record.arms[:1], artifacts=[])]), "one mark alone shows nothing"
    assert learning(record).title == "BLEU on the dev split"
    assert standing(writers.compared()).title == "BLEU of every model"
    assert closeness(record) is calibration(record, record.arms) is None


def test_a_black_box_has_empty_cells() -> None:
    record = writers.of_black_box()
    card = plain(model_card(record))
    assert "| teacher, a black box | 36.9 |  |  | 59.3 |  |  |  |  |  |" in card
    assert "sentences/s" not in card.split("## Data")[0]


@pytest.mark.parametrize(
    ("text", "reference", "differs"),
    [
        ("Zwei Hunde laufen durch den Schnee.", "Zwei Hunde rennen durch den Schnee.", ["laufen"]),
        ("Ein Hund", "Ein Hund.", []),
        ("ein Mann mit Hut", "ein Mann", ["mit Hut"]),
        ("我喜欢猫。", "我喜欢狗。", ["猫"]),
        ("alles neu", "", []),
        ("", "etwas", []),
        ("a  b\nc", "a b c", []),
    ],
)
def test_words_that_differ_are_marked(text: str, reference: str, differs: list[str]) -> None:
    pieces = marked(text, reference)
    assert [piece for piece, off in pieces if off] == differs
    assert "".join(piece for piece, _ in pieces) == text


def test_examples_are_whole_escaped_and_of_any_direction() -> None:
    record = writers.translated()
    html = page([record])
    read = Reader(html)
    assert (read.open, read.wrong) == ([], [])
    assert sum(tag == "script" for tag, _ in read.tags) == 1
    assert not any(tag in ("img", "b", "i") and "onerror" in given for tag, given in read.tags)
    for text in (writers.DOGS, sample.ARABIC, sample.CHINESE, sample.HOSTILE, sample.LONG.strip(), "Keine Vorlage."):
        assert text in read.text
    assert "<mark>laufen</mark>" in html
    assert "<mark>&lt;i&gt;x&lt;/i&gt;</mark>" in html
    section = html.split("Translations")[1].split("</section>")[0]
    shown_first, folded = section.split("<details><summary>2 more</summary>")
    assert (shown_first.count("<li>"), folded.count("<li>")) == (4, 2)
    assert section.count('<dd dir="auto">') == section.count("<dd")
    assert "given targets only, beside distilled" in section


def test_several_runs_on_one_page() -> None:
    records = [writers.translated(), writers.compared(), writers.of_black_box()]
    table = page(records).split('class="arms sortable')[1].split("</table>")[0]
    heads = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", table)
    assert heads == ["run and model", *PAPER]
    assert "<h1>3 runs on one page</h1>" in page(records)
    mixed = page([writers.translated(), sample.distill()])
    assert "34.9 ± 0.3 BLEU" in plain(mixed)
    assert "perplexity, gold" not in mixed.split('class="arms sortable')[1].split("</table>")[0]
    assert Report(tuple(records)).markdown().startswith("| run | model | BLEU K=1 | BLEU K=5 | p(ŷ) |")


def test_pages_without_translators_carry_nothing_of_theirs() -> None:
    html = page([sample.distill(), sample.every()["words"]])
    assert ".examples" not in html
    assert "Translations" not in html


def test_the_card_names_the_pipeline_the_folder_and_the_limits() -> None:
    record = writers.translated()
    card = plain(model_card(record))
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["pipeline_tag"] == "translation"
    assert front["metrics"] == ["sacrebleu", "chrf", "perplexity"]
    assert "The folder `student-int8` of the run holds" in card
    assert "BLEU 35.0, 7.30 MB on disk, 236 sentences/s" in card
    assert "The folder `student-int8`" not in model_card(record.but(artifacts=[]))
    assert "Nobody has judged these translations by reading them" in card
    assert "- pairs read: 31,014; dropped: 2 empty source; repeated sources, kept: 41" in card
    assert "- BLEU 34.9 ± 0.3: corpus BLEU of greedy translations" in card


def test_the_snippet_translates(tmp_path) -> None:
    """With our ids: </s> first, <pad> last. A word wins every step, so that something is written."""
    torch.manual_seed(0)
    words = ["</s>", "<unk>", "a", "text", "to", "translate", "<pad>"]
    raw = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(tokenizer_object=raw, **special).save_pretrained(tmp_path)
    pad = len(words) - 1
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    deep = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    wide = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 64}
    model = MarianMTModel(MarianConfig(vocab_size=len(words), **ids, **deep, **wide))
    model.final_logits_bias[0, words.index("text")] = 9.0
    model.save_pretrained(tmp_path)
    assert "text text" in run_snippet(writers.translated(), tmp_path)
