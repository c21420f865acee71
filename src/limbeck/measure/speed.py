"""How fast a saved model answers, or a translator writes.

Each model has a process of its own, and one works at a time: two engines in one process fight over its threads.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.core.progress import SECONDS, ProgressItem, Watcher
from limbeck.core.record import LengthSpeed, Speed
from limbeck.measure.machine import memory_bytes
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.speed_probe import LEAST_ROUNDS, length_rounds
from limbeck.measure.speed_process import Engine, Probe, probe

AUTO: Engine = "auto"  # the one that opens a folder
MEASURING = "measuring"  # the progress item
STARTING = 4.0  # seconds in which a process imports torch and loads a small model, on two cores
TURN = 3.0  # seconds of one turn of a small model
PROCESS_BYTES = 500_000_000  # of torch and transformers alone
SHORT_RUN = (
    "Speed was not measured: it would have taken more than its share of so short a run. `limbeck bench` measures it, "
    "or the run with --measure.speed-share 1."
)


@dataclass(frozen=True)
class Turns:
    """What every model is timed on, and how often."""

    repeats: int
    rounds: int
    texts: int  # in batches
    seconds: float  # that it takes, about


def measuring(models: int, settings: MeasureSettings) -> ProgressItem:
    """The progress item, priced before anything is known of the models."""
    seconds = models * (STARTING + settings.repeats * TURN) if settings.speed else 0.0
    return ProgressItem(MEASURING, seconds, SECONDS)


def speeds_of(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    beam: int = 0,
    trained: float = math.inf,
) -> tuple[dict[str, Speed], list[str]]:
    """The speed of each model of a run that trained for so many seconds, if it is to be measured.

    If timing fails, the run goes on and the reason is noted."""
    if not settings.speed:
        return {}, []
    share = settings.speed_share
    limit = trained * share / (1 - share) if share < 1 else math.inf
    if limit < STARTING * len(folders):
        return {}, [SHORT_RUN]
    try:
        speeds = measure_speed(folders, texts, settings, max_length, watcher, beam, limit)
        return speeds, [] if speeds else [SHORT_RUN]
    except LimbeckError:
        speeds, notes = {}, []
        for name, folder in folders.items():
            part = limit / len(folders)
            try:
                speeds |= measure_speed({name: folder}, texts, settings, max_length, watcher, beam, part)
            except LimbeckError as error:
                notes.append(f"Not timed: {error.problem.strip().splitlines()[0].rstrip(':')}.")
        if len(speeds) > 1:
            notes.insert(
                0, "Models were timed one after another, not in rotation, since one of them could not be timed."
            )
        return speeds, notes


def measure_speed(
    folders: Mapping[str, Path | str],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    beam: int = 0,
    limit: float = math.inf,
    lengths: Sequence[int] | None = None,
    loads: bool = False,
) -> dict[str, Speed]:
    """Several models in turn, so that a machine that slows down hurts all alike. Empty, where `limit` seconds are few.

    Each figure is the median over a model's turns that no other process disturbed; if all were, the Speed is `busy`.
    With `loads`, models are loaded one after another, so that the time to the first answer is known too.
    """
    lengths = settings.token_counts() if lengths is None else lengths
    texts = texts[: max(settings.rounds, 256)]
    found: dict[str, Speed] = {}
    groups = [list(folders)] if _fit_into_memory(folders.values()) else [[name] for name in folders]
    for number, group in enumerate(groups):
        begin = time.monotonic()
        deadline = begin + limit / len(groups)
        many = f"{len(group)} models" if len(group) > 1 else "1 model"
        watcher.at(MEASURING, number / len(groups), f"loading {many}")
        with ExitStack() as started:
            how = texts, settings.threads, settings.batch_size, max_length, beam, AUTO, lengths
            probes, load_ms = {}, dict.fromkeys(group, 0.0)
            for name in group:
                again = loads and settings.repeats > 1  # the first time, files may come from the disk
                earlier = [_load_ms(probe(folders[name], *how))] if again else []
                probes[name] = started.enter_context(probe(folders[name], *how))
                if loads:
                    probes[name].wait_until_loaded()
                    load_ms[name] = min([probes[name].load_ms, *earlier])
            for one in probes.values() if not loads else ():
                one.wait_until_loaded()
            loading = time.monotonic() - begin
            plan = fit_turns(settings, list(probes.values()), len(texts), limit / len(groups) - loading)
            if plan is None:
                return {}
            watcher.say(f"timing {many}, about {max(plan.seconds, 1):.0f} s")
            watcher.plan([ProgressItem(MEASURING, len(groups) * (loading + plan.seconds), SECONDS)])
            loaded = loading / (loading + plan.seconds)

            def report(share: float, note: str, number: int = number, loaded: float = loaded) -> None:
                done = number + loaded + (1 - loaded) * share
                watcher.at(MEASURING, 0.95 * done / len(groups), note)

            turned = _in_rotation(probes, plan, deadline, report)
            found |= {name: one.but(load_ms=load_ms[name]) for name, one in turned.items()}
    if any(one.busy for one in found.values()):
        watcher.say("the machine was busy while models were timed: do not quote their times")
    return found


def speed(
    folder: Path | str,
    texts: Sequence[tuple[str, str]],
    *,
    threads: int = 0,
    rounds: int = 100,
    batch: int = 32,
    max_length: int = 128,
    engine: Engine = "auto",
    beam: int = 0,
) -> Speed:
    """Latency of one text at a time over `rounds` texts, then throughput over all texts in batches of like length.

    Tokenisation is included in both, since users pay for it. Texts are (text, pair), pair "" when there is none.
    `threads=0` takes OMP_NUM_THREADS, or every physical core this process may use. Folders in CTranslate2's format run
    there, all others in torch. Translators write with `beam` hypotheses open, 0 being greedy like 1; other models have
    no use for it.
    """
    if min(rounds, batch, max_length, threads + 1, beam + 1) < 1:
        raise KnobError(
            f"cannot time {rounds} rounds, batches of {batch}, {max_length} tokens, {threads} threads, beam {beam}",
            "each must be at least 1; threads may be 0, which means all cores, and so may beam, which means greedy",
        )
    with probe(folder, texts, threads, batch, max_length, beam, engine) as one:
        one.wait_until_loaded()
        return one.turn(rounds, len(texts))


def fit_turns(settings: MeasureSettings, probes: Sequence[Probe], texts: int, limit: float = math.inf) -> Turns | None:
    """As many turns as fit into `limit` seconds, else one of fewer rounds; None where even that takes longer."""

    def seconds(rounds: int, texts: int) -> float:
        batches = math.ceil(texts / settings.batch_size)
        each = length_rounds(rounds)
        return sum(
            rounds * one.text_seconds + batches * one.batch_seconds + each * one.lengths_seconds for one in probes
        )

    once = seconds(settings.rounds, texts)
    repeats = settings.repeats if limit == math.inf else min(settings.repeats, int(limit / once))
    if repeats >= 1:
        return Turns(repeats, settings.rounds, texts, repeats * once)
    rounds, fewer = int(settings.rounds * limit / once), max(1, int(texts * limit / once))
    if rounds < min(LEAST_ROUNDS, settings.rounds):
        return None
    return Turns(1, rounds, fewer, seconds(rounds, fewer))


def turns(names: Sequence[str], repeats: int) -> list[str]:
    """Every name once per repeat, each repeat starting one name later."""
    return [names[(start + place) % len(names)] for start in range(repeats) for place in range(len(names))]


def median(of_one: Sequence[Speed]) -> Speed:
    """One Speed from the turns of one model, figure by figure; of those that nobody disturbed, where there are any."""
    quiet = [one for one in of_one if not one.busy] or of_one
    low, high = interval([one.p50_ms for one in quiet])
    of_lengths = zip(*(one.by_length for one in quiet), strict=True)

    def middle(name: str, of: Sequence[Speed | LengthSpeed] = quiet) -> float:
        return statistics.median(getattr(one, name) for one in of)

    return quiet[0].but(
        **{name: middle(name) for name in ("p50_ms", "p95_ms", "p99_ms", "sentences_per_second")},
        peak_bytes=int(middle("peak_bytes")),
        rounds=sum(one.rounds for one in quiet),
        low_ms=low,
        high_ms=high,
        by_length=[
            LengthSpeed(tokens=turns[0].tokens, p50_ms=middle("p50_ms", turns), p95_ms=middle("p95_ms", turns))
            for turns in of_lengths
        ],
    )


def interval(turns: Sequence[float]) -> tuple[float, float]:
    """Where the mean of such turns lies, at 95 % (Student's t): they are few, and rounds of one turn are alike.

    Nothing, (0, 0), is known from one."""
    if len(turns) < 2:
        return 0.0, 0.0
    from scipy.special import stdtrit

    mean, spread = statistics.fmean(turns), statistics.stdev(turns)
    half = float(stdtrit(len(turns) - 1, 0.975)) * spread / math.sqrt(len(turns))
    return max(mean - half, 0.0), mean + half


def _load_ms(process: AbstractContextManager[Probe]) -> float:
    with process as one:
        one.wait_until_loaded()
        return one.load_ms


def _in_rotation(
    probes: Mapping[str, Probe], plan: Turns, deadline: float, report: Callable[[float, str], None]
) -> dict[str, Speed]:
    """A turn that others disturbed is repeated at the end, at most as many turns again as were planned."""
    found: dict[str, list[Speed]] = {name: [] for name in probes}
    order = deque(turns(list(probes), plan.repeats))
    done, every, spare = 0, len(order), len(order)
    while order:
        name, within = order.popleft(), partial(_report_turn, report, done, every)
        within(0.0)
        found[name].append(probes[name].turn(plan.rounds, plan.texts, within))
        done += 1
        if found[name][-1].busy and spare and time.monotonic() + plan.seconds / every < deadline:
            order.append(name)
            spare, every = spare - 1, every + 1
    report(1.0, "")
    return {name: median(of_one) for name, of_one in found.items()}


def _report_turn(report: Callable[[float, str], None], done: int, every: int, share: float) -> None:
    report((done + share) / every, f"turn {done + 1} of {every}")


def _fit_into_memory(folders: Collection[Path | str]) -> bool:
    """Whether all models may be loaded at once, in half of the memory."""
    files = [file for folder in folders for file in Path(folder).glob("*") if file.is_file()]
    return PROCESS_BYTES * len(folders) + 2 * sum(file.stat().st_size for file in files) < memory_bytes() / 2
