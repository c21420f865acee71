"""Latency, throughput and memory of several saved models. A model that cannot be timed costs a note, not the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from limbeck.core.errors import LimbeckError
from limbeck.core.progress import Watcher
from limbeck.core.record import Speed
from limbeck.measure.settings import MeasureSettings
from limbeck.measure.speed import interleaved

MEASURING = "measuring"  # the progress item
NOTE = "latency and memory, one process at a time"


def measure_speed(
    folders: dict[str, Path],
    texts: Sequence[tuple[str, str]],
    settings: MeasureSettings,
    max_length: int,
    watcher: Watcher,
    beam: int = 0,
) -> dict[str, Speed]:
    probes = len(folders) * settings.repeats
    watcher.at(MEASURING, 0.0, NOTE)
    return interleaved(
        folders,
        texts[: max(settings.rounds, 256)],
        on_probe=lambda done: watcher.at(MEASURING, 0.95 * done / probes, NOTE),
        repeats=settings.repeats,
        threads=settings.threads,
        rounds=settings.rounds,
        batch=settings.batch_size,
        max_length=max_length,
        beam=beam,
    )


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
