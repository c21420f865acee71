"""Runs the parts of an experiment: each a child process, several at a time; what is finished is not done again."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from limbeck.core.errors import LimbeckError
from limbeck.core.orphan import PARENT
from limbeck.core.progress import SECONDS, ProgressItem, Watcher
from limbeck.experiments.experiment import RECORD_FILE, Part

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PATIENCE = 15.0  # seconds that an interrupted child has to end
_SHARE = re.compile(r"\[ *(\d+)%\] ")  # how the lines of a job's display begin


@dataclass(eq=False)
class _Child:
    """A part while it runs, and the last that it said."""

    part: Part
    process: subprocess.Popen[str]
    share: float = 0.0
    said: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    reader: threading.Thread = field(default_factory=threading.Thread)

    def read(self, events: queue.Queue[_Child]) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                if found := _SHARE.match(line):
                    self.share = int(found[1]) / 100
                else:
                    self.said.append(line.rstrip())
                events.put(self)
        self.process.wait()
        events.put(self)

    def error(self) -> LimbeckError:
        """What the job said last, from its own error on."""
        lines = list(self.said)
        first = next((place for place, line in enumerate(lines) if line.startswith("limbeck: ")), -12)
        told = "\n  ".join(line.removeprefix("limbeck: ") for line in lines[first:] if line)
        code = self.process.returncode
        return LimbeckError(f"the part '{self.part.name}' failed with code {code}: {told or 'it said nothing'}")


def is_finished(out: Path, part: Part) -> bool:
    return (out / part.name / RECORD_FILE).is_file()


def at_once(parts: Sequence[Part]) -> int:
    """How many parts can run side by side at most: those with as many others before them."""
    depth: dict[str, int] = {}
    for part in parts:  # which stand behind those that they need
        depth[part.name] = 1 + max((depth[name] for name in part.after), default=0)
    return max((list(depth.values()).count(level) for level in depth.values()), default=0)


def run_parts(parts: Sequence[Part], out: Path, name: str, workers: int, watcher: Watcher) -> None:
    """Runs what is not finished, `workers` parts at a time; alone a part has all cores, beside others one thread.

    After a failure no further part begins; those that run are finished first, and their work is kept."""
    done = {part.name for part in parts if is_finished(out, part)}
    watcher.plan([ProgressItem(name, sum(part.seconds for part in parts), SECONDS)])
    if done and len(done) < len(parts):
        watcher.say(f"{len(done)} of {len(parts)} parts are finished already")
    waiting = [part for part in parts if part.name not in done]
    threads = ONE_THREAD if min(workers, at_once(parts)) > 1 else {}
    events: queue.Queue[_Child] = queue.Queue()
    failed: list[_Child] = []
    with _ended_with_us() as running:
        while waiting or running:
            ready = [part for part in waiting if done.issuperset(part.after)] if not failed else []
            for part in ready[: workers - len(running)]:
                waiting.remove(part)
                watcher.say(f"{part.name}: limbeck {part.verb}")
                child = _Child(part, _start(part, out, threads))
                running.append(child)
                child.reader = threading.Thread(target=child.read, args=(events,), daemon=True)
                child.reader.start()
            if not running:
                break
            child = events.get()
            if child in running and child.process.returncode is not None:
                running.remove(child)
                if child.process.returncode == 0 and is_finished(out, child.part):
                    done.add(child.part.name)
                    watcher.say(f"{child.part.name}: finished ({len(done)} of {len(parts)})")
                else:
                    failed.append(child)
            _tell(watcher, name, parts, done, running)
    if failed:
        raise failed[0].error()


def _tell(watcher: Watcher, name: str, parts: Sequence[Part], done: set[str], running: Sequence[_Child]) -> None:
    cost = sum(part.seconds for part in parts) or 1.0
    finished = sum(part.seconds for part in parts if part.name in done)
    under_way = sum(child.share * child.part.seconds for child in running)
    note = ", ".join(f"{child.part.name} {child.share:.0%}" for child in running)
    watcher.at(name, (finished + under_way) / cost, note)


def _start(part: Part, out: Path, threads: Mapping[str, str]) -> subprocess.Popen[str]:
    flags = [str(word) for word in (*part.flags, "--out", out / part.name, "--resume")]
    return subprocess.Popen(
        [sys.executable, "-m", "limbeck", part.verb, *flags],
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200", PARENT: str(os.getpid()), **threads},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # the table that the job ends with is in its Record
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


@contextmanager
def _ended_with_us() -> Iterator[list[_Child]]:
    """The children that run; none outlives an error, Ctrl-C or a polite kill. After a rude one they end themselves."""
    running: list[_Child] = []

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, leave) if main else None
    try:
        yield running
    finally:
        for child in running:
            child.process.send_signal(signal.SIGINT)  # which a job takes as Ctrl-C
        for child in running:
            try:
                child.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.process.kill()
        if main:
            signal.signal(signal.SIGTERM, before)
