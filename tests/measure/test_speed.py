from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from transformers import AutoTokenizer

from limbeck.core.errors import DataError, KnobError, LimbeckError, ModelError
from limbeck.core.progress import Silent
from limbeck.core.record import Record, Speed
from limbeck.measure import speed as speeds
from limbeck.measure import speed_probe, speed_process
from limbeck.measure.machine import queued_seconds, threads_to_use, usable_cores
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.speed import SHORT_RUN, Turns, fit_turns, measure_speed, median, speed, speeds_of, turns
from running import Started, limbeck

pytestmark = pytest.mark.slow

TEXTS = [("the film is good", ""), ("a dull plot", "it never ends"), ("joy and tears " * 40, "")]
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def test_saved_folders_are_timed_each_in_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Mock(spec=Silent())
    monkeypatch.setattr(speed_process, "BUSY", math.inf)  # tests run side by side
    folders = {"teacher": folder, "student": folder}
    settings = MeasureSettings(repeats=1, threads=1, rounds=7, batch_size=2)
    found = measure_speed(folders, TEXTS, settings, max_length=128, watcher=watcher)
    assert list(found) == ["teacher", "student"]
    notes = [call.args[2] for call in watcher.at.mock_calls]
    assert list(dict.fromkeys(notes)) == ["loading 2 models", "turn 1 of 2", "turn 2 of 2", ""]
    shares = [call.args[1] for call in watcher.at.mock_calls]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 0.95)
    assert re.fullmatch(r"timing 2 models, about \d+ s", watcher.say.mock_calls[0].args[0])
    for one in found.values():
        assert (one.engine, one.threads, one.rounds, one.batch) == ("torch fp32", 1, 7, 2)
        assert 0 < one.p50_ms <= one.p95_ms
        assert one.sentences_per_second > 0
        assert 50e6 < one.peak_bytes < 4e9  # a process that holds torch


@pytest.mark.usefixtures("forked_probes")
def test_no_model_is_given_more_than_it_reads_where_its_tokenizer_names_no_limit(folder: Path, tmp_path: Path) -> None:
    endless = shutil.copytree(folder, tmp_path / "endless")
    said = json.loads((endless / "tokenizer_config.json").read_text())
    del said["model_max_length"]
    (endless / "tokenizer_config.json").write_text(json.dumps(said))
    assert AutoTokenizer.from_pretrained(endless).model_max_length > 1e9
    assert speed(endless, TEXTS, threads=1, rounds=3).rounds == 3  # one of them has 122 tokens for 64 places


def test_repeats_come_to_their_median_and_all_their_rounds() -> None:
    def one(ms: float, rate: float, peak: int) -> Speed:
        settings = {"engine": "torch fp32", "threads": 1, "batch": 8, "rounds": 10}
        return Speed(**settings, p50_ms=ms, p95_ms=2 * ms, sentences_per_second=rate, peak_bytes=peak)

    middle = median([one(1.0, 30.0, 100), one(9.0, 10.0, 300), one(2.0, 20.0, 200)])
    assert middle.but(low_ms=0.0, high_ms=0.0) == one(2.0, 20.0, 200).but(rounds=30)
    disturbed = one(9.0, 10.0, 300).but(busy=True)
    assert median([disturbed, one(2.0, 20.0, 200), disturbed]) == one(2.0, 20.0, 200), "quiet turns alone count"
    assert median([disturbed, disturbed]).busy


def test_each_repeat_starts_one_model_later() -> None:
    assert turns(["a", "b", "c"], 3) == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]


@pytest.mark.usefixtures("forked_probes")
def test_a_child_that_fails_is_heard(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = broken / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(LimbeckError, match=r"(?s)broken cannot be measured.*[Ss]afetensor"):
        speed(broken, TEXTS, threads=1, rounds=1)


def test_what_cannot_be_timed_is_refused_before_a_process_starts(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        speed(tmp_path, TEXTS)
    with pytest.raises(DataError, match="no text"):
        speed(folder, [])
    with pytest.raises(KnobError, match="0 rounds"):
        speed(folder, TEXTS, rounds=0)
    with pytest.raises(KnobError, match="'repeats' cannot be 0"):
        MeasureSettings(repeats=0)


class FakeProbe:
    """A model that answers at once, and is disturbed as often as it is told."""

    text_seconds, batch_seconds, lengths_seconds, load_ms = 0.01, 0.1, 0.0, 7.0

    def __init__(self, disturbed: int = 0) -> None:
        self.disturbed, self.turns = disturbed, 0

    def wait_until_loaded(self) -> None:
        return None

    def turn(self, rounds: int, texts: int, report: Callable[[float], None]) -> Speed:
        self.turns += 1
        report(0.5)
        figures = {"p50_ms": 1.0, "p95_ms": 1.0, "sentences_per_second": 1.0, "peak_bytes": 1}
        busy = self.turns <= self.disturbed
        return Speed(engine="torch fp32", threads=1, batch=8, rounds=rounds, busy=busy, **figures)


@pytest.mark.parametrize(("disturbed", "turns_taken", "busy"), [(0, 2, False), (1, 3, False), (9, 4, True)])
def test_disturbed_turns_are_repeated_as_often_again(disturbed: int, turns_taken: int, busy: bool) -> None:
    probe, shares = FakeProbe(disturbed), list[float]()
    found = speeds._in_rotation({"a": probe}, Turns(2, 10, 10, 0.0), math.inf, lambda share, note: shares.append(share))
    assert (probe.turns, found["a"].busy) == (turns_taken, busy)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("memory", [0, 10**12], ids=["one by one", "together"])
def test_a_busy_machine_is_told_of(memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "probe", lambda *how: nullcontext(FakeProbe(disturbed=99)))
    monkeypatch.setattr(speeds, "memory_bytes", lambda: memory)
    watcher = Mock(spec=Silent())
    found = measure_speed({"a": tmp_path, "b": tmp_path}, TEXTS, MeasureSettings(), 128, watcher)
    assert [one.busy for one in found.values()] == [True, True]
    said = [call.args[0] for call in watcher.say.mock_calls]
    assert said[-1] == "the machine was busy while models were timed: do not quote their times"
    assert [line.startswith("timing 2 models") for line in said[:-1]] == ([True] if memory else [False, False])
    shares = [call.args[1] for call in watcher.at.mock_calls]
    assert max(shares) == pytest.approx(0.95)


def test_past_the_deadline_nothing_is_repeated() -> None:
    probe = FakeProbe(9)
    found = speeds._in_rotation({"a": probe}, Turns(2, 10, 10, 1.0), time.monotonic(), lambda share, note: None)
    assert (probe.turns, found["a"].busy) == (2, True)


def test_turns_fit_into_the_time_there_is() -> None:
    settings, two = MeasureSettings(rounds=100, repeats=3, batch_size=32), [FakeProbe(), FakeProbe()]
    once = 2 * (100 * 0.01 + 8 * 0.1)
    assert fit_turns(settings, two, 256) == Turns(3, 100, 256, pytest.approx(3 * once))
    assert fit_turns(settings, two, 256, 2.5 * once) == Turns(2, 100, 256, pytest.approx(2 * once))
    fewer = fit_turns(settings, two, 256, 0.5 * once)
    assert (fewer.repeats, fewer.rounds, fewer.texts) == (1, 50, 128)
    assert fewer.seconds <= 0.5 * once
    assert fit_turns(settings, two, 256, 0.1 * once) is None
    assert fit_turns(settings, two, 256, -1.0) is None


def test_a_short_run_is_not_timed_unless_a_person_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Mock(return_value={"student": "fast"})
    monkeypatch.setattr(speeds, "measure_speed", timed)
    short = ({"student": Path("x")}, [("a film", "")], MeasureSettings(), 16, Silent())
    assert speeds_of(*short, trained=10.0) == ({}, [SHORT_RUN])
    timed.assert_not_called()
    assert speeds_of(*short, trained=100.0) == ({"student": "fast"}, [])
    assert timed.call_args.args[-1] == pytest.approx(25), "a fifth of the 125 seconds that the run then takes"
    asked = MeasureSettings(speed=True)
    assert speeds_of(*short[:2], asked, *short[3:], trained=10.0) == ({"student": "fast"}, [])
    assert timed.call_args.args[-1] == math.inf
    written = MeasureSettings(**MeasureSettings().model_dump())  # as a run file has it, every knob spelled out
    assert speeds_of(*short[:2], written, *short[3:], trained=10.0) == ({}, [SHORT_RUN])


@pytest.mark.parametrize(("said", "threads"), [("1", 1), ("3,2", 3), ("", 0), ("0", 0), ("many", 0)])
def test_threads_are_those_a_person_allows(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads_to_use() == (threads or usable_cores())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_process_that_shares_its_core_notices() -> None:
    """Two of us on one core: each gets half of it, and the probe sees that it waits."""
    work = "while True: pass"
    one = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    other = subprocess.Popen([sys.executable, "-c", f"{one}\n{work}"])
    try:
        probe = f"""{one}
import time
from limbeck.measure.speed_probe import _each
def answer(texts, length):
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end: pass
print(_each(answer, [[["a", ""]]] * 2, 8, lambda share: None)[1])"""
        said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout
    finally:
        other.kill()
        other.wait()
    assert float(said) > 0.25
    assert queued_seconds() >= 0.0


def test_the_probe_asks_singly_and_then_in_batches_of_like_length() -> None:
    asked: list[list[list[str]]] = []
    texts = [["x" * n, ""] for n in range(1, 21)]
    found = speed_probe.measure(lambda some, length: asked.append(some), texts, rounds=5, batch=8)
    singles = [group for group in asked if len(group) == 1]
    assert [len(group[0][0]) for group in singles] == [1, 5, 9, 13, 17] * 2  # warmed up, then timed
    timed = asked[len(singles) + 1 :]
    assert [[len(text) for text, _ in group] for group in timed] == [
        list(range(20, 12, -1)),
        list(range(12, 4, -1)),
        list(range(4, 0, -1)),
    ]
    assert found["p50_ms"] <= found["p95_ms"]


def test_percentiles_and_throughput_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only answering moves: a text of n letters takes n milliseconds, a batch half a second."""
    now, asked = [0.0], []

    def answer(texts: list[list[str]], length: int) -> None:
        asked.append(texts)
        warming = len(asked) <= 10 or len(asked) == 111  # ten single texts, and the first batch once
        now[0] += 60.0 if warming else len(texts[0][0]) / 1000 if len(texts) == 1 else 0.5

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    found = speed_probe.measure(answer, [["x" * n, ""] for n in range(1, 101)], rounds=100, batch=25)
    assert len(asked) == 10 + 100 + 1 + 4
    assert found["p50_ms"] == pytest.approx(50.5)
    assert found["p95_ms"] == pytest.approx(95.05)
    assert found["p99_ms"] == pytest.approx(99.01)
    assert found["sentences_per_second"] == pytest.approx(100 / 2.0)


def test_texts_of_each_length_are_timed_beside_the_others() -> None:
    asked: list[tuple[int, int]] = []
    texts = [[f"word{n} another", "third"] for n in range(9)]
    lengths = {length: speed_probe.words_at(texts, length) for length in (4, 60)}
    found = speed_probe.measure(
        lambda some, length: asked.append((length, len(some[0][0].split()))), texts, 80, 8, longest=128, lengths=lengths
    )
    assert [one["tokens"] for one in found["by_length"]] == [4, 60]
    for length in (4, 60):
        timed = [words for tokens, words in asked if tokens == length]
        assert {*timed} == {length}
        assert len(timed) == speed_probe.WARM_UP + 20  # a quarter of the rounds
    assert sum(tokens == 128 for tokens, _ in asked) == speed_probe.WARM_UP + 80 + 1 + 2
    assert MeasureSettings().token_counts() == []
    assert MeasureSettings().token_counts(auto="16,8") == [8, 16]
    assert MeasureSettings(lengths="32, 16,16").token_counts(auto="8") == [16, 32]
    with pytest.raises(KnobError, match="token counts of 4 or more, as in 16,32,128"):
        MeasureSettings(lengths="16,x")


def test_turns_give_medians_and_the_interval_of_their_mean() -> None:
    def turn(p50: float, busy: bool = False) -> Speed:
        lengths = [{"tokens": 16, "p50_ms": p50 / 2, "p95_ms": p50}]
        figures = {"p50_ms": p50, "p95_ms": 2 * p50, "p99_ms": 3 * p50, "sentences_per_second": 1.0, "peak_bytes": 1}
        return Speed(engine="e", threads=1, batch=8, rounds=10, busy=busy, by_length=lengths, **figures)

    found = speeds.median([turn(1.0), turn(4.0), turn(1.6), turn(90.0, busy=True)])
    assert (found.p50_ms, found.p95_ms, found.p99_ms, found.rounds) == (1.6, 3.2, pytest.approx(4.8), 30)
    assert (found.by_length[0].tokens, found.by_length[0].p50_ms, found.by_length[0].p95_ms) == (16, 0.8, 1.6)
    # mean 2.2, standard deviation 1.587, t(0.975, 2) = 4.303
    assert found.high_ms == pytest.approx(2.2 + 4.303 * 1.587 / 3**0.5, abs=1e-2)
    assert found.low_ms == 0.0
    alone = speeds.median([turn(1.0)])
    assert (alone.low_ms, alone.high_ms) == (0.0, 0.0)


def test_a_model_is_timed_in_another_process_whose_thread_pools_are_pinned(
    folder: Path,
    reviews: Path,
    tmp_path: Path,
    started: Callable[[], list[Started]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for pool in POOLS:
        monkeypatch.setenv(pool, "7")
    few = ("--measure.repeats", 1, "--measure.rounds", 5, "--measure.threads", 1)
    said = limbeck("bench", folder, "--data", reviews, "--out", tmp_path / "bench", *few)
    assert said.code == 0, said.err
    assert Record.load(tmp_path / "bench").arms[0].speed.threads == 1
    (child,) = started()
    assert child.pid != os.getpid()
    assert {pool: child.environment.get(pool) for pool in POOLS} == dict.fromkeys(POOLS, "1")
    assert "torch" in child.imported  # it held the model
