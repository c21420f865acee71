"""One display for a whole run: a bar and an ETA in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from limbeck.core.progress import ProgressItem, Watcher

PLAIN_EVERY = 15.0  # seconds between plain lines
A_STEP = 0.05  # a stage whose first report is beyond this has not just begun


class Clock:
    """How much of the planned cost is done, and what that says of the rest."""

    def __init__(self) -> None:
        self._costs: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._start = time.monotonic()
        self._ahead = 0.0  # what was there when the clock started, from an earlier session
        self._marks = deque([(self._start, 0.0)])  # at which time how much was this session's

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        """Adds to what was planned before, so that a job of several runs has one clock."""
        if not self._costs:
            self._start = time.monotonic()
            self._marks = deque([(self._start, 0.0)])
        self._costs |= {stage.name: stage.cost for stage in stages}

    def at(self, stage: str, done: float) -> float:
        """How far the stage is: never back, though a second round of it begins at 0."""
        fresh = stage not in self._done
        self._done[stage] = max(done, self._done.get(stage, 0.0))
        # A stage that is found finished, or starts in its middle, was done before this session.
        if fresh and done > A_STEP:
            self._ahead += self._costs.get(stage, 0.0) * done
        self._mark()
        return self._done[stage]

    def _mark(self) -> None:
        """Keeps the marks of the later half, or of the last minute: stages are priced roughly, and one that went
        faster than its price says nothing of those to come."""
        now = time.monotonic()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self._mine))
        since = now - max(60.0, (now - self._start) / 2)
        while len(self._marks) > 1 and self._marks[1][0] <= since:
            self._marks.popleft()

    @property
    def _total(self) -> float:
        return sum(self._costs.values())

    @property
    def _mine(self) -> float:
        return sum(self._costs.get(name, 0.0) * done for name, done in self._done.items()) - self._ahead

    @property
    def share(self) -> float:
        return (self._mine + self._ahead) / self._total if self._total else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds still to go at the pace of late, once there is something to judge by."""
        then, before = self._marks[0]
        spent, gained = time.monotonic() - then, self._mine - before
        enough = spent >= 60 or (spent >= 2 and self._mine > 0.01 * self._total)
        return spent * (1 - self.share) * self._total / gained if enough and gained > 0 else None


def clock_text(seconds: float | None) -> str:
    if seconds is None:
        return "…"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class LiveBar:
    """For people at a terminal."""

    def __init__(self, console: Console) -> None:
        self._clock, self._begin = Clock(), time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[eta]}"),
        )
        self.progress = Progress(*columns, console=console, transient=True)
        self._task: TaskID | None = None

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        self._clock.plan(stages)
        if self._task is None:
            self._task = self.progress.add_task("starting", total=1.0, eta="")

    def at(self, stage: str, done: float, note: str = "") -> None:
        self._clock.at(stage, done)
        if self._task is not None:
            eta = f"{clock_text(time.monotonic() - self._begin)} gone, {clock_text(self._clock.remaining)} to go"
            text = f"{escape(stage)}  [dim]{escape(note)}[/dim]"
            self.progress.update(self._task, completed=self._clock.share, description=text, eta=eta)

    def say(self, message: str) -> None:
        self.progress.console.print(f"[dim]·[/dim] {escape(message)}", highlight=False)


class Lines:
    """For logs and pipes: a line when a stage begins and ends, and now and then between."""

    def __init__(self, console: Console) -> None:
        self._clock, self._console = Clock(), console
        self._step, self._last = ("", False), 0.0  # the stage last told of, and whether it had ended

    def plan(self, stages: Sequence[ProgressItem]) -> None:
        self._clock.plan(stages)

    def at(self, stage: str, done: float, note: str = "") -> None:
        done = self._clock.at(stage, done)
        step = (stage, done >= 1.0)
        if step == self._step and (step[1] or time.monotonic() - self._last < PLAIN_EVERY):
            return
        self._step, self._last = step, time.monotonic()
        rest = f", {clock_text(self._clock.remaining)} to go" if done < 1.0 or self._clock.share < 0.999 else ""
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
