"""Teachers of which nothing is known but what they write: a program, an address. They give one translation a source."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.engines.base import Engine, Hypothesis

RESUME = "what it translated so far is kept: mend it, then run the same command with --resume"


class BlackBox(Engine):
    """Is handed `at_once` sources at a time."""

    article = "a"

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        if beam != 1 or nbest != 1:
            one = f"{self.article} {self.name} gives one translation"
            raise KnobError(f"{one}, not a beam of {beam} and its {nbest} best", "give beam 1")
        return [
            [Hypothesis(text.strip(), math.nan)]
            for start in range(0, len(sources), self.at_once)
            for text in self._answer(sources[start : start + self.at_once])
        ]

    @abstractmethod
    def _answer(self, sources: Sequence[str]) -> list[str]:
        """One text for each."""


class Command(BlackBox):
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

    def _answer(self, sources: Sequence[str]) -> list[str]:
        lines_in = "".join(" ".join(source.splitlines()) + "\n" for source in sources).encode()
        try:
            # subprocess.run writes and reads at once, so neither side waits for a full pipe of the other
            done = subprocess.run(self.words, input=lines_in, capture_output=True, check=False)
        except OSError as error:
            raise self._failure(f"cannot be started: {error.strerror or error}") from None
        lines, code = done.stdout.split(b"\n"), done.returncode
        if lines[-1] == b"":
            lines.pop()
        if code or len(lines) != len(sources):
            ended = f"ended with code {code}" if code > 0 else f"ended by signal {-code}"
            last = " / ".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:])
            raise self._failure(
                f"{f'{ended} after' if code else 'wrote'} {len(lines)} lines for {len(sources)} sources"
                + (f"; its last words: {last}" if last else "")
            )
        texts = []
        for number, line in enumerate(lines, 1):
            try:
                texts.append(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                what = f"line {number} of the command {self.command!r} is not UTF-8: {error.reason}"
                raise LimbeckError(what, RESUME) from None
        return texts

    def _failure(self, what: str) -> LimbeckError:
        return LimbeckError(f"the command {self.command!r} {what}", RESUME)


class Endpoint(BlackBox):
    """An address that is posted {"sources": […]} and answers [text, …] or {"translations": [text, …]}.

    What may pass by itself (no connection, no answer in time, an error of the server's own) is tried again."""

    name, article = "endpoint", "an"

    def __init__(
        self, address: str, timeout: float = 120.0, tries: int = 4, wait: float = 1.0, at_once: int = 64
    ) -> None:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
            raise KnobError(f"{address!r} is not an address", "give one that begins with http:// or https://")
        self.address, self.timeout, self.tries, self.wait, self.at_once = address, timeout, tries, wait, at_once

    def _answer(self, sources: Sequence[str]) -> list[str]:
        body, trouble = json.dumps({"sources": list(sources)}).encode(), ""
        request = Request(self.address, body, {"Content-Type": "application/json", "Accept": "application/json"})
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.wait * 2 ** (attempt - 1))
            try:
                with urlopen(request, timeout=self.timeout) as answer:
                    return self._texts(answer.read(), len(sources))
            except HTTPError as error:
                first = (error.read().decode("utf-8", "replace").strip().splitlines() or [""])[0]
                trouble = f"answered {error.code} {error.reason}: {first}".rstrip(": ")
                if error.code < 500:
                    raise LimbeckError(f"{self.address} {trouble}", RESUME) from None
            except (OSError, HTTPException) as error:
                trouble = f"gave no answer: {error}"
        raise LimbeckError(f"{self.address} {trouble} ({self.tries} tries)", RESUME)

    def _texts(self, content: bytes, count: int) -> list[str]:
        try:
            answer: Any = json.loads(content)
        except ValueError:
            raise LimbeckError(f"{self.address} did not answer in JSON: {content[:80]!r}", RESUME) from None
        texts = answer.get("translations") if isinstance(answer, dict) else answer
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise LimbeckError(
                f"{self.address} answered no list of translations: {content[:80]!r}",
                'it should answer ["…", …] or {"translations": ["…", …]}',
            )
        if len(texts) != count:
            raise LimbeckError(f"{self.address} answered {len(texts)} translations for {count} sources", RESUME)
        return texts
