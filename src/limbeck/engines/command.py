"""A program of which nothing is known but what it writes."""

from __future__ import annotations

import math
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.engines.base import RESUME, Engine, Hypothesis, refuse_beam


class Command(Engine):
    """A program that reads a source per line and writes a translation per line, started for every `at_once` lines."""

    name = "command"

    def __init__(self, command: str, at_once: int = 256) -> None:
        self.command, self.at_once = command, at_once
        try:
            self.words = shlex.split(command)
        except ValueError as error:
            raise KnobError(f"the command {command!r} cannot be read: {error}", "close its quotes") from None
        if not self.words:
            raise KnobError("the command is empty", "name a program that reads sources and writes translations")
        if shutil.which(self.words[0]) is None:
            raise KnobError(
                f"the command {command!r} cannot be started: there is no program {self.words[0]!r}",
                "give --translate.command the path of one that may be run",
            )

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        refuse_beam("a command", beam, nbest)
        return [
            [Hypothesis(line, math.nan)]
            for start in range(0, len(sources), self.at_once)
            for line in self._run(sources[start : start + self.at_once])
        ]

    def _run(self, sources: Sequence[str]) -> list[str]:
        given = "".join(" ".join(source.splitlines()) + "\n" for source in sources).encode()
        try:
            # subprocess.run writes and reads at once, so neither side waits for a full pipe of the other
            done = subprocess.run(self.words, input=given, capture_output=True, check=False)
        except OSError as error:
            reason = error.strerror or str(error)
            raise LimbeckError(f"the command {self.command!r} cannot be started: {reason}", RESUME) from None
        lines = done.stdout.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        if done.returncode or len(lines) != len(sources):
            ended = (
                f"ended with code {done.returncode}" if done.returncode > 0 else f"ended by signal {-done.returncode}"
            )
            what = f"{ended} after {len(lines)}" if done.returncode else f"wrote {len(lines)}"
            raise LimbeckError(
                f"the command {self.command!r} {what} lines for {len(sources)} sources{_tail(done.stderr)}", RESUME
            )
        return [self._decode(line, number) for number, line in enumerate(lines, 1)]

    def _decode(self, line: bytes, number: int) -> str:
        try:
            return line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise LimbeckError(
                f"line {number} of the command {self.command!r} is not UTF-8: {error.reason}", RESUME
            ) from None


def _tail(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
    return "; its last words: " + " / ".join(lines) if lines else ""
