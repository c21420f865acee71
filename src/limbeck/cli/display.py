"""One display for a whole run: a bar and an ETA in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from limbeck.cli.clock import Clock, clock_text, to_go
from limbeck.core.progress import ProgressItem, Watcher

PLAIN_EVERY = 15.0  # seconds between plain lines


class LiveBar:
    """For people at a terminal."""

    def __init__(self, console: Console) -> None:
        self._clock = Clock()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            _Times(self._clock),
        )
        self.progress = Progress(*columns, console=console, transient=True, expand=True)
        self._task: TaskID | None = None

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        self._clock.plan(stages)
        if self._task is None:
            self._task = self.progress.add_task("starting", total=1.0)

    def at(self, stage: str, done: float, note: str = "") -> None:
        self._clock.at(stage, done)
        if self._task is not None:
            text = f"{escape(stage)}\n[dim]{escape(note)}[/dim]"
            self.progress.update(self._task, completed=self._clock.share, description=text)

    def say(self, message: str) -> None:
        self.progress.console.print(f"[dim]·[/dim] {escape(message)}", highlight=False)


class _Times(ProgressColumn):
    """Drawn several times a second, so that it also goes on between two reports."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Column(no_wrap=True))
        self._clock = clock

    def render(self, task: Task) -> Text:
        return Text(f"{clock_text(self._clock.elapsed)} elapsed\n{to_go(self._clock)}", justify="right")


class Lines:
    """For logs and pipes: a line when a stage begins and ends, and now and then between."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._console = Clock(now), console
        self._step, self._last = ("", False), 0.0  # the stage last told of, and whether it had ended

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        self._clock.plan(stages)

    def at(self, stage: str, done: float, note: str = "") -> None:
        done = self._clock.at(stage, done)
        step, now = (stage, done >= 1.0), self._clock.now()
        if step == self._step and (step[1] or now - self._last < PLAIN_EVERY):
            return
        self._step, self._last = step, now
        rest = f", {to_go(self._clock)}" if done < 1.0 or self._clock.share < 0.999 else ""
        self._line(f"[{self._clock.share:4.0%}] {stage}: {done:.0%}{rest}{f' ({note})' if note else ''}")

    def say(self, message: str) -> None:
        self._line(f"· {message}")

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def watching(console: Console | None = None) -> Iterator[Watcher]:
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield Lines(console)
        return
    bar = LiveBar(console)
    with bar.progress:
        yield bar
