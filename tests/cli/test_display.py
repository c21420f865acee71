"""One display for a whole run, and an estimate of the rest that a person can plan by."""

import io
from itertools import pairwise

import pytest
from rich.console import Console

from limbeck.cli.clock import Clock, clock_text, to_go
from limbeck.cli.display import Lines, LiveBar, watching
from limbeck.core.progress import FORWARD, SECONDS, TRAINING, ProgressItem

STAGES = [ProgressItem("ask", 100.0), ProgressItem("train", 300.0, TRAINING)]


class Hand:
    """Turns a clock."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def hand():
    return Hand()


def test_the_share_counts_what_stages_cost(hand):
    watch = Clock(hand)
    watch.plan(STAGES)
    watch.at("ask", 0.1)
    watch.at("ask", 1.0)
    assert watch.share == pytest.approx(0.25, abs=0.01)
    watch.at("train", 0.2)
    watch.at("train", 0.5)
    assert watch.at("train", 0.4) == 0.5, "never back"
    assert watch.share == pytest.approx(0.625, abs=0.01)


def test_what_an_earlier_session_did_makes_this_one_not_faster(hand):
    watch = Clock(hand)
    watch.plan([ProgressItem("ask", 100e9), ProgressItem("train", 300e9, TRAINING)])
    watch.at("ask", 1.0)  # found finished
    hand.now += 500  # whatever comes between two stages is of neither
    watch.at("train", 0.3)
    hand.now += 200
    watch.at("train", 0.4)
    assert watch.remaining == pytest.approx(1200, rel=0.05)


def test_what_one_run_of_a_job_goes_without_another_begins_anew(hand):
    watch = Clock(hand)
    watch.plan([ProgressItem("measuring", 0.0, SECONDS)])
    watch.at("measuring", 1.0)
    watch.plan([ProgressItem("measuring", 10.0, SECONDS)])
    assert watch.at("measuring", 0.2) == 0.2


def test_the_rest_goes_down_between_reports(hand):
    watch = Clock(hand)
    watch.plan([ProgressItem("train", 300e9, TRAINING)])
    watch.at("train", 0.0)
    hand.now += 100
    watch.at("train", 0.5)
    before = watch.remaining
    hand.now += 30
    assert watch.remaining == pytest.approx(before - 30)


def test_a_machine_that_slows_down_is_noticed(hand):
    watch = Clock(hand)
    watch.plan([ProgressItem("train", 1e12, TRAINING)])
    for second in range(2401):  # half as fast from the first third on
        watch.at("train", min(second, 600) / 1800 + max(second - 600, 0) / 5400)
        hand.now += 1
    assert watch.remaining == pytest.approx(5400 / 3, rel=0.15)


def test_the_first_leap_of_a_long_experiment_misleads_nobody(hand):
    """Two children say 1 % each after five seconds, of which they spent most on starting."""
    watch = Clock(hand)
    watch.plan([ProgressItem("lottery-mnist", 7200.0, SECONDS)])
    watch.at("lottery-mnist", 0.0)
    for share in (0.02, 0.02, 0.02):
        hand.now += 5.0
        watch.at("lottery-mnist", share)
        assert 0.5 * 7200 < watch.remaining < 1.5 * 7200


def test_until_the_rest_is_known_only_the_present_part_is_told(hand):
    watch = Clock(hand)
    watch.plan([ProgressItem("ask", 3e11), ProgressItem("train", 3e12, TRAINING)])
    assert to_go(watch) == "… to go"
    watch.at("ask", 0.0)
    for second in range(1, 51):
        hand.now += 1
        watch.at("ask", second / 100)
    assert watch.remaining is None
    assert to_go(watch) == "at least 0:50 to go"


def job(slow, evals=0.0):
    """(stage, share, seconds since the report before): a teacher that reads as fast as assumed, students that train
    `slow` times slower than that, each with two pauses of a share `evals` of its time, and models that are timed."""
    items = [ProgressItem("ask", 60 * 3e9, FORWARD)]
    items += [ProgressItem(f"student {n}", 120 * 3e9, TRAINING) for n in range(3)]
    items.append(ProgressItem("measuring", 30.0, SECONDS))
    reports = [("ask", step / 60, 1.0) for step in range(61)]
    for n in range(3):
        reports += [
            (f"student {n}", step / 240, slow / 2 + 120 * slow * evals * (step in (120, 240))) for step in range(241)
        ]
    return items, reports + [("measuring", step / 40, 1.0) for step in range(41)]


@pytest.mark.parametrize("slow", [0.2, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("evals", [0.0, 0.05])
def test_what_is_to_go_does_not_leap(slow, evals, hand):
    items, reports = job(slow, evals)
    whole = sum(seconds for *_, seconds in reports)
    watch, begin, shown = Clock(hand), hand.now, []
    watch.plan(items)
    for stage, share, seconds in reports:
        hand.now += seconds
        watch.at(stage, share)
        gone = hand.now - begin
        if watch.remaining is not None and 0.1 * whole < gone < 0.95 * whole:
            shown.append((gone, watch.remaining))
    assert len(shown) > 0.6 * len(reports), "it is shown for most of the run"
    for (earlier, before), (later, now) in pairwise(shown):
        expected = before - (later - earlier)
        assert abs(now - expected) < 0.3 * max(before, 20), (later, before, now)
    for gone, rest in shown[len(shown) // 3 :]:
        pauses = 2 * 120 * slow * evals  # of one student, of which nothing is known beforehand
        assert rest == pytest.approx(whole - gone, rel=0.3, abs=20 + pauses)


def test_clock_text():
    assert [clock_text(seconds) for seconds in (0, 61, 3661)] == ["0:00", "1:01", "1:01:01"]


def lines(*calls, hand):
    out = io.StringIO()
    watch = Lines(Console(file=out, width=40), hand)
    watch.plan([ProgressItem("ask", 90e9), ProgressItem("train", 9e9)])
    for stage, done, seconds in calls:
        hand.now += seconds
        watch.at(stage, done, "loss 0.3" if stage == "train" else "")
    watch.say("a long line of [words] that no console of forty columns may break in two")
    return out.getvalue().splitlines()


def test_plain_lines_tell_begin_end_and_now_and_then(hand):
    asking = [("ask", 0.0, 1), ("ask", 0.1, 3), ("ask", 0.6, 15), ("ask", 1.0, 12), ("ask", 1.0, 1)]
    said = lines(*asking, ("train", 1.0, 3), hand=hand)
    assert said[:-1] == [
        "[  0%] ask: 0%, … to go",
        "[ 55%] ask: 60%, 0:15 to go",
        "[ 91%] ask: 100%, 0:03 to go",
        "[100%] train: 100% (loss 0.3)",
    ]
    assert said[-1].startswith("· a long line of [words] that no console")


def test_a_pipe_gets_lines_and_a_terminal_a_bar():
    with watching(Console(file=io.StringIO())) as watcher:
        assert isinstance(watcher, Lines)
    out = io.StringIO()
    with watching(Console(file=out, force_terminal=True, width=100)) as watcher:
        watcher.plan(STAGES)
        watcher.say("path with [brackets]/and more")
        watcher.at("train", 0.5, "dev accuracy 0.9")
    assert "[brackets]" in out.getvalue()
    assert "━" in out.getvalue()
    assert "to go" in out.getvalue()


def test_a_bar_fits_eighty_columns():
    out = io.StringIO()
    bar = LiveBar(Console(file=out, force_terminal=True, width=80))
    with bar.progress:
        bar.plan([ProgressItem("student without teacher, seed 10", 1e12, TRAINING)])
        bar.at("student without teacher, seed 10", 0.25, "loss 0.312, dev accuracy 0.812")
        page = Console(file=io.StringIO(), width=80)
        page.print(bar.progress.get_renderable())
    first, second = (line.rstrip() for line in page.file.getvalue().splitlines())
    assert first.startswith("student without teacher, seed 10 ")
    assert first.endswith("25% 0:00 elapsed")
    assert second.startswith("loss 0.312, dev accuracy 0.812 ")
    assert second.endswith("to go")
