"""One display for a whole run."""

import io

import pytest
from rich.console import Console

from limbeck.cli import display
from limbeck.cli.display import Clock, Lines, clock_text, watching
from limbeck.core.progress import ProgressItem

STAGES = [ProgressItem("ask", 100.0), ProgressItem("train", 300.0)]


@pytest.fixture
def clock(monkeypatch):
    """A hand that turns the clock."""
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def test_the_share_counts_what_stages_cost(clock):
    watch = Clock()
    watch.plan(STAGES)
    watch.at("ask", 0.1)
    watch.at("ask", 1.0)
    assert watch.share == pytest.approx(0.25)
    watch.at("train", 0.2)
    watch.at("train", 0.5)
    assert watch.at("train", 0.4) == 0.5, "never back"
    assert watch.share == pytest.approx(0.625)


def test_the_rest_is_judged_by_what_was_done(clock):
    watch = Clock()
    watch.plan(STAGES)
    assert watch.remaining is None
    watch.at("ask", 0.01)
    clock[0] += 10
    watch.at("ask", 1.0)
    assert watch.remaining == pytest.approx(30)


def test_what_an_earlier_session_did_makes_this_one_not_faster(clock):
    watch = Clock()
    watch.plan(STAGES)
    watch.at("ask", 1.0)  # found finished
    watch.at("train", 0.01)
    clock[0] += 30
    watch.at("train", 0.5)
    assert watch.remaining == pytest.approx(30)


def test_a_stage_that_goes_on_from_its_middle_is_judged_by_this_session(clock):
    watch = Clock()
    watch.plan(STAGES[1:])
    watch.at("train", 0.3)
    clock[0] += 20
    watch.at("train", 0.4)
    assert watch.remaining == pytest.approx(120)


def test_a_stage_that_was_faster_than_its_price_is_forgotten(clock):
    watch = Clock()
    watch.plan([ProgressItem("ask", 100.0), *(ProgressItem(f"cell {k}", 100.0) for k in range(4))])
    for seconds in range(20):
        watch.at("ask", seconds / 19)
        clock[0] += 1
    for seconds in range(400):  # a fourth of a unit a second
        watch.at("cell 0", min(seconds / 400, 1))
        clock[0] += 1
    assert watch.remaining == pytest.approx(4 * 301, rel=0.02)


def test_a_pace_without_a_mark_of_late_is_that_of_all(clock):
    watch = Clock()
    watch.plan(STAGES[1:])
    watch.at("train", 0.01)
    clock[0] += 1000
    watch.at("train", 0.5)
    assert watch.remaining == pytest.approx(1000)


def test_a_job_of_hours_is_judged_after_a_minute(clock):
    watch = Clock()
    watch.plan(STAGES)
    clock[0] += 30
    watch.at("ask", 0.005)
    assert watch.remaining is None
    clock[0] += 30
    watch.at("ask", 0.01)
    assert watch.remaining == pytest.approx(60 * 399)


def test_clock_text():
    assert [clock_text(seconds) for seconds in (None, 0, 61, 3661)] == ["…", "0:00", "1:01", "1:01:01"]


def lines(*calls, clock):
    out = io.StringIO()
    watch = Lines(Console(file=out, width=40))
    watch.plan(STAGES)
    for stage, done, seconds in calls:
        clock[0] += seconds
        watch.at(stage, done)
    watch.say("a long line of [words] that no console of forty columns may break in two")
    return out.getvalue().splitlines()


def test_plain_lines_tell_begin_end_and_now_and_then(clock):
    asking = [("ask", 0.02, 1), ("ask", 0.2, 1), ("ask", 0.9, 20), ("ask", 1.0, 1), ("ask", 1.0, 1)]
    said = lines(*asking, ("train", 1.0, 60), clock=clock)
    assert said[:-1] == [
        "[  0%] ask: 2%, … to go",
        "[ 22%] ask: 90%, 1:16 to go",
        "[ 25%] ask: 100%, 1:09 to go",
        "[100%] train: 100%",
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
