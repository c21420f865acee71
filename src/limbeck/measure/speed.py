"""How fast a saved model answers, or a translator writes.

Each model is timed alone in a fresh process: two engines in one process fight over its threads.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from limbeck.core.errors import DataError, KnobError, LimbeckError, ModelError
from limbeck.core.progress import Watcher
from limbeck.core.record import Speed
from limbeck.measure.machine import usable_cores
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.size import is_ctranslate2

Engine = Literal["auto", "torch", "ctranslate2"]
MEASURING = "measuring"  # the progress item
NOTE = "latency and memory, one process at a time"


def measure_speed(
    folders: Mapping[str, Path | str],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    beam: int = 0,
) -> dict[str, Speed]:
    """Several models in turn, so that a machine that slows down hurts all alike.

    Each figure is the median over a model's repeats; its rounds are those of all repeats.
    """
    texts = texts[: max(settings.rounds, 256)]
    order = turns(list(folders), settings.repeats)
    found: dict[str, list[Speed]] = {name: [] for name in folders}
    watcher.at(MEASURING, 0.0, NOTE)
    for done, name in enumerate(order, start=1):
        one = speed(
            folders[name],
            texts,
            threads=settings.threads,
            rounds=settings.rounds,
            batch=settings.batch_size,
            max_length=max_length,
            beam=beam,
        )
        found[name].append(one)
        watcher.at(MEASURING, 0.95 * done / len(order), NOTE)
    return {name: median(of_one) for name, of_one in found.items()}


def speeds_of(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    beam: int = 0,
) -> tuple[dict[str, Speed], list[str]]:
    """The speed of each model, if it is to be measured. If timing fails, the run goes on and the reason is noted."""
    how = (texts, settings, max_length, watcher, beam)
    if not settings.speed:
        return {}, []
    try:
        return measure_speed(folders, *how), []
    except LimbeckError:
        speeds: dict[str, Speed] = {}
        notes = []
        for name, folder in folders.items():
            try:
                speeds |= measure_speed({name: folder}, *how)
            except LimbeckError as error:
                notes.append(f"Not timed: {error.problem.strip().splitlines()[0].rstrip(':')}.")
        if len(speeds) > 1:
            notes.insert(
                0, "Models were timed one after another, not in rotation, since one of them could not be timed."
            )
        return speeds, notes


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
    `threads=0` takes every physical core this process may use. Folders in CTranslate2's format run there, all others
    in torch. Translators write with `beam` hypotheses open, 0 being greedy like 1; other models have no use for it.
    """
    if not (Path(folder) / "config.json").is_file():
        raise ModelError(f"{folder} is not a model folder: it has no config.json", "give a save_pretrained folder")
    if not texts:
        raise DataError("there is no text to time the model on", "give a test split that is not empty")
    if min(rounds, batch, max_length, threads + 1, beam + 1) < 1:
        raise KnobError(
            f"cannot time {rounds} rounds, batches of {batch}, {max_length} tokens, {threads} threads, beam {beam}",
            "each must be at least 1; threads may be 0, which means all cores, and so may beam, which means greedy",
        )
    how = {"engine": _engine(folder, engine), "threads": threads or usable_cores(), "beam": max(beam, 1)}
    job = {"folder": str(folder), "texts": list(texts), "rounds": rounds, "batch": batch, "max_length": max_length}
    return Speed(**_probe({**job, **how}))


def turns(names: Sequence[str], repeats: int) -> list[str]:
    """Every name once per repeat, each repeat starting one name later."""
    return [names[(start + place) % len(names)] for start in range(repeats) for place in range(len(names))]


def median(of_one: Sequence[Speed]) -> Speed:
    """One Speed from the repeats of one model, figure by figure."""
    return of_one[0].but(
        p50_ms=statistics.median(one.p50_ms for one in of_one),
        p95_ms=statistics.median(one.p95_ms for one in of_one),
        sentences_per_second=statistics.median(one.sentences_per_second for one in of_one),
        peak_bytes=int(statistics.median(one.peak_bytes for one in of_one)),
        rounds=sum(one.rounds for one in of_one),
    )


def _engine(folder: Path | str, engine: Engine) -> Literal["torch", "ctranslate2"]:
    """The engine that opens a folder: each format has one."""
    fits: Literal["torch", "ctranslate2"] = "ctranslate2" if is_ctranslate2(folder) else "torch"
    if engine not in ("auto", fits):
        raise KnobError(f"{engine} cannot open {folder}, which is kept for {fits}", f"use engine 'auto' or '{fits}'")
    if fits == "ctranslate2" and find_spec("ctranslate2") is None:
        raise KnobError(f"{folder} is run by CTranslate2, which is not here", "pip install 'limbeck[translate]'")
    return fits


def _probe(job: dict[str, object]) -> dict[str, float]:
    threads = str(job["threads"])
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}
    child = subprocess.run(
        # -P: files in the working folder must not stand in for packages.
        [sys.executable, "-P", "-m", "limbeck.measure.speed_probe"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **dict.fromkeys(pools, threads), **quiet},
    )
    if child.returncode:
        output = "\n".join(child.stderr.strip().splitlines()[-20:]) or f"it ended with code {child.returncode}"
        raise LimbeckError(
            f"the speed of {job['folder']} cannot be measured:\n{output}",
            "check that transformers or CTranslate2 opens the folder, and that there is memory enough",
        )
    return dict(json.loads(child.stdout.splitlines()[-1]))
