"""How far a run has come. Rooms report to a Watcher; what a person sees is the command line's business."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

FORWARD, TRAINING, SECONDS = "forward", "training", "seconds"  # kinds of work


class ProgressItem(NamedTuple):
    """A part of a run and what it costs beside the others: rows × parameters they pass through, or SECONDS."""

    name: str
    cost: float
    kind: str = FORWARD  # parts of one kind go at about one speed


class Watcher(Protocol):
    def plan(self, stages: Sequence[ProgressItem]) -> None:
        """The whole run, before it starts."""

    def at(self, stage: str, done: float, note: str = "") -> None:
        """`done` is the share of the stage, 0 to 1."""

    def say(self, message: str) -> None:
        """A line worth keeping."""


class Silent:
    """Nobody watches."""

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        return None

    def at(self, stage: str, done: float, note: str = "") -> None:
        return None

    def say(self, message: str) -> None:
        return None


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Silences the bars that transformers draws when it loads and saves."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()
