"""How much of a run is done, and how long the rest takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from limbeck.core.progress import SECONDS, ProgressItem

ASSUMED = 1 / 3e9  # seconds per row and parameter: two cores read 300 sentences a second with MiniLM-L6
TRUST = 3.0  # seconds of work that an assumption counts as, beside what was measured
ESTIMATED = 0.02  # the part of an item in seconds that its estimate counts as: children report in leaps
HALF_LIFE = 600.0  # seconds after which what was measured counts half: machines get busy and idle
SETTLED = 0.25  # the most of the rest that may be of a kind of which nothing was measured


class Clock:
    """Measures what a unit of cost takes: in a part of the run, in its kind of work, in the run.

    A part is judged by itself as far as it has come, before that by others of its kind, before that by the whole run.
    So a teacher that reads faster than students train misleads nobody for longer than a few seconds of training."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now, self.begin = now, now()
        self.share = 0.0
        self._items: dict[str, ProgressItem] = {}
        self._done: dict[str, float] = {}
        self._work: dict[str, float] = defaultdict(float)  # cost done in this session
        self._spent: dict[str, float] = defaultdict(float)  # seconds it took
        self._stage, self._last = "", self.begin  # what was reported last, and when

    def plan(self, items: Sequence[ProgressItem]) -> None:
        """Adds to what was planned before, so that a job of several runs has one clock."""
        for item in items:
            if item.name in self._items and not self._items[item.name].cost:  # an earlier run went without it
                self._done.pop(item.name, None)
        self._items |= {item.name: item for item in items}

    def at(self, stage: str, done: float) -> float:
        """How far the stage is: never back, though a second round of it begins at 0.

        The first report of a stage starts its clock: what it finds done, another session did."""
        now = self.now()
        before = self._done.get(stage, done)
        self._done[stage] = max(done, before)
        if stage == self._stage and stage in self._items:
            aged = 0.5 ** ((now - self._last) / HALF_LIFE)
            gained = self._items[stage].cost * (self._done[stage] - before)
            self._work[stage] = aged * self._work[stage] + gained
            self._spent[stage] = aged * self._spent[stage] + now - self._last
        self._stage, self._last = stage, now
        costs = {name: item.cost * (1 if item.kind == SECONDS else ASSUMED) for name, item in self._items.items()}
        work = sum(cost * self._done.get(name, 0.0) for name, cost in costs.items())
        if stage in self._items:  # before a run is planned nothing is known of its length
            self.share = max(self.share, work / (sum(costs.values()) or 1.0))
        return self._done[stage]

    @property
    def elapsed(self) -> float:
        return self.now() - self.begin

    @property
    def remaining(self) -> float | None:
        """Seconds still to go; None while too much of that is of a kind of which nothing was measured."""
        left = self._left(self._items.values())
        unknown = [item for item in self._items.values() if not self._is_known(item.kind)]
        if self._left(unknown) > SETTLED * left or not self._spent:
            return None
        return max(0.0, left - (self.now() - self._last))

    @property
    def at_least(self) -> float | None:
        """Seconds that the present part still takes."""
        item = self._items.get(self._stage)
        if item is None or not self._is_known(item.kind):
            return None
        return max(0.0, self._left([item]) - (self.now() - self._last))

    def _left(self, items: Iterable[ProgressItem]) -> float:
        return sum(self._seconds(item) * (1 - self._done.get(item.name, 0.0)) for item in items)

    def _seconds(self, item: ProgressItem) -> float:
        """All of a part."""
        every = [other for other in self._items.values() if other.kind != SECONDS]
        of_kind = [other for other in self._items.values() if other.kind == item.kind]
        if item.kind == SECONDS:
            return item.cost * self._price([item], 1.0, max(TRUST, ESTIMATED * item.cost))
        return item.cost * self._price([item], self._price(of_kind, self._price(every, ASSUMED)))

    def _price(self, items: Iterable[ProgressItem], assumed: float, trust: float = TRUST) -> float:
        """Seconds per unit of cost, by what was measured and an assumption that soon counts for little."""
        names = [item.name for item in items]
        spent, work = (sum(of[name] for name in names if name in of) for of in (self._spent, self._work))
        return (spent + trust) / (work + trust / assumed)

    def _is_known(self, kind: str) -> bool:
        spent = sum(self._spent.get(item.name, 0.0) for item in self._items.values() if item.kind == kind)
        return kind == SECONDS or spent >= TRUST


def clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def to_go(clock: Clock) -> str:
    """What a person reads of the rest."""
    if (remaining := clock.remaining) is not None:
        return f"{clock_text(remaining)} to go"
    return f"at least {clock_text(part)} to go" if (part := clock.at_least) else "… to go"
