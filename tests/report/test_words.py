"""Language models in every report: perplexity falls, blocks are timed, tokens agree, and the teacher may be gone."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
import sample
import sample_words as words
import torch
from test_model_card import shown
from test_report_page import Reader
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from limbeck.core.metric import Metric, metric_of
from limbeck.core.record import Record
from limbeck.core.task import TaskInfo
from limbeck.report import figures as n
from limbeck.report.answers import calibration, closeness
from limbeck.report.card import model_card
from limbeck.report.charts import differences, standing, tones
from limbeck.report.curves import learning
from limbeck.report.figures import block_length, timed
from limbeck.report.frontier import trade_offs
from limbeck.report.models import subject_of
from limbeck.report.page import page
from limbeck.report.summary import caveats, conclusion, headline, speed_conditions
from limbeck.report.svg import Scale, span
from tiny import VOCABULARY, make_tokenizer
from tiny_language import byte_level


def said(record: Record) -> str:
    return headline(record).replace(n.GAP, " ")


def metric(name: str) -> Metric:
    return metric_of(TaskInfo(kind="mask-fill"), name)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1.2345, "1.234"),
        (12.344, "12.34"),
        (99.996, "100.0"),
        (123.44, "123.4"),
        (1234.4, "1,234"),
        (30522.4, "30,522"),
        (float("inf"), n.NOTHING),
    ],
)
def test_a_perplexity_keeps_the_digits_that_count(value: float, read: str) -> None:
    assert n.score(metric("perplexity"), value) == read


def test_figures_of_tokens_are_read_like_those_of_rows() -> None:
    assert n.score(metric("perplexity"), 12.344, 0.051) == "12.34 ± 0.05"
    assert n.score(metric("token_accuracy"), 0.4321) == f"43.2{n.GAP}%"
    assert n.score(metric("token_nll"), 2.5) == "2.500"
    assert n.difference(metric("perplexity"), -1.153) == f"{n.MINUS}1.15"
    assert n.difference(metric("perplexity"), 12.34) == "+12.3"
    names = ("perplexity", "token_nll", "token_ece", "token_accuracy")
    assert [metric(name).higher_is_better for name in names] == [False, False, False, True]


@pytest.mark.parametrize(
    ("student", "apart"),
    [
        (13.61, "a perplexity of 13.61, 12 % higher than the teacher’s 12.15, at 50 % of the time per block and"),
        (12.3, "12.30, 1.2 % higher than the teacher’s 12.15"),
        (10.0, "10.00, 18 % lower than the teacher’s 12.15"),
        (12.1541, "matches the teacher’s perplexity of 12.15, at 50 %"),
        (48.6, "48.60, 4.0 times the teacher’s 12.15"),
    ],
)
def test_perplexity_is_never_kept(student: float, apart: str) -> None:
    text = said(words.words(student, seeds=1))
    assert apart in text
    assert "keeps" not in text


def test_a_teacher_that_left_only_its_answers() -> None:
    record = words.without_teacher()
    assert said(record) == (
        "The 3-layer student reaches a perplexity of 13.61, against 15.11 without a teacher; "
        "the teacher itself was not measured."
    )
    assert conclusion(record) == record.comparisons[0].sentence
    assert closeness(record) is None
    assert "repeats the teacher’s biases" in model_card(record)
    assert "fingerprint of the teacher" in model_card(record)
    alone = record.but(arms=record.arms[1:], comparisons=[])
    assert said(alone) == "The 3-layer student reaches a perplexity of 13.61; the teacher itself was not measured."


def test_blocks_are_timed_and_said_to_be_blocks() -> None:
    record = words.words()
    assert block_length(record) == 127
    assert "one block of about 127 tokens at a time" in speed_conditions(record)
    assert "not generation token by token" in speed_conditions(words.trained_words())
    assert "blocks/s" in shown(record, 120)
    assert "127 tokens" in shown(record)
    tips = [given.get("title", "") for tag, given in Reader(page([record])).tags if tag == "th"]
    assert "for one block of about 127 tokens, median" in tips
    assert timed([record, sample.distill()]) == "text"
    assert "texts/s" in page([record, sample.distill()])


@pytest.mark.parametrize("name", list(words.every_words()))
def test_no_page_or_card_of_tokens_speaks_of_rows_or_sentences(name: str) -> None:
    record = words.every_words()[name]
    for text in (Reader(page([record])).text, model_card(record), shown(record)):
        about = text.replace("mask.", "")
        assert not re.search(r"\b(rows?|sentences?|labelled|labels)\b", about)
        assert "of the teacher’s perplexity" not in about


def test_the_page_shows_tokens_agreement_and_the_cache() -> None:
    record = words.words()
    text = Reader(page([record])).text
    for words_of_the_page in (
        "13.61 ± 0.13",
        "74.0 % share of tokens with the teacher’s prediction",
        "104 bytes a token; 12.8 MB on disk",
        "documents read 6,000",
        "test 400 50,800",
        "KL, nats",
        "lower is better",
    ):
        assert words_of_the_page in text
    assert "Class by class" not in text
    assert "with another label" not in text


def test_the_charts_say_which_way_is_better() -> None:
    record = words.words()
    assert all("Better lies down" in figure.caption for figure in trade_offs([record]))
    assert all("perplexity, lower is better" in figure.wide for figure in trade_offs([record]))
    assert "left of 0, the first one wins" in differences(record).caption
    assert "400 test blocks" in differences(record).caption
    assert "share of right tokens" in calibration(record, record.arms).caption
    near = closeness(record).wide
    assert "4,100 tokens" in near
    assert f"0.520{n.GAP}nats" in near


def test_a_perplexity_that_falls_far_is_drawn_by_its_logarithm() -> None:
    record = words.words()
    steep = [
        arm.but(runs=[run.but(curve=[p.but(dev=_steeper(p.dev)) for p in run.curve]) for run in arm.runs])
        for arm in record.arms
    ]
    assert ">100<" not in learning(record).wide
    assert all(f">{tick}<" in learning(record.but(arms=steep)).wide for tick in (20, 50, 100, 200))
    assert ">150<" not in learning(record.but(arms=steep)).wide
    scale = Scale(*span([10, 1000], log=True), 0, 100, log=True)
    assert scale(100) == pytest.approx(50)


def _steeper(dev: dict[str, float]) -> dict[str, float]:
    return {"perplexity": dev["perplexity"] ** 2 / 14} if dev else {}


def test_hidden_and_next_words_share_no_axis() -> None:
    figures = trade_offs([words.words(), words.words(kind="generate")])
    assert [figure.title for figure in figures] == [
        f"Size and latency against perplexity ({kind})" for kind in ("fill-mask", "text-generation")
    ]


def test_a_contest_is_led_by_its_best_student() -> None:
    record = words.contest()
    assert subject_of(record).name == "tail-50"
    assert said(record).startswith("“top 50 and a tail bucket”, the best of 5 students, reaches a perplexity of 13.55")
    assert conclusion(record).startswith("“top 50 and a tail bucket” does better than “no teacher”")
    assert ["best on the test split" in doubt for doubt in caveats(record)] == [True]
    assert len(set(tones(record).values())) == len(record.arms) == 7
    told = standing(record).wide
    order = ["teacher", "top 50 and", "whole", "top 8 and", "top 50, re", "no teacher", "top 8, re"]
    places = [told.index(title) for title in order]
    assert places == sorted(places)
    assert page([record]).count('class="lead"') == 1
    ends = re.findall(r'<polyline points="([^"]*)" class="chain">', trade_offs([record, record])[0].wide)
    assert [len(path.split()) for path in ends] == [2, 2]  # of each run, teacher and best student
    assert standing(words.words()) is None


def test_the_snippet_fills_a_mask(tmp_path) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    make_tokenizer().save_pretrained(tmp_path)
    BertForMaskedLM(BertConfig(vocab_size=len(VOCABULARY), **shape)).save_pretrained(tmp_path)
    assert len(run_snippet(words.words(), tmp_path).splitlines()) == 5


def test_the_snippet_writes_on(tmp_path) -> None:
    torch.manual_seed(0)
    tokenizer = byte_level()
    tokenizer.save_pretrained(tmp_path)
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    shape = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 128}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **shape, **ends)).save_pretrained(tmp_path)
    assert run_snippet(words.trained_words(), tmp_path).startswith("The start of a text")


def run_snippet(record: Record, folder) -> str:
    """What the card's own code prints for a model that is really there."""
    code = model_card(record, str(folder)).split("```python\n")[1].split("```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue()


def test_the_card_gives_each_figure_its_meaning() -> None:
    card = model_card(words.words()).replace(n.GAP, " ")
    assert "- perplexity 13.61 ± 0.13: exp of the cross-entropy" in card
    assert "- cross-entropy 2.611 ± 0.009: mean −log probability of the right masked token, in nats" in card
    assert "test 400 blocks (50,800 tokens)" in card
    assert "documents read: 6,000" in card
    assert '"perplexity"' in card.split("---")[1]


def test_seeds_that_differ_wildly_still_have_a_chart() -> None:
    record = words.contest()
    runs = zip(record.arm("full").runs, (20, 30, 4000), strict=True)
    wild = [run.but(quality={**run.quality, "perplexity": value}) for run, value in runs]
    arms = [arm.but(runs=wild) if arm.name == "full" else arm for arm in record.arms]
    text = page([record.but(arms=arms)])
    assert "1,350 ± 2,295" in text
    assert not re.search(r'="[^"]*\b(nan|inf)\b', text)
