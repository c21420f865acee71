"""An address of which nothing is known but what it answers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from limbeck.core.errors import KnobError, LimbeckError
from limbeck.engines.base import RESUME, Engine, Hypothesis, refuse_beam


class Endpoint(Engine):
    """An address that is posted {"sources": […]} and answers [text, …] or {"translations": [text, …]}.

    What may pass by itself (no connection, no answer in time, an error of the server's own) is tried again."""

    name = "endpoint"

    def __init__(
        self, address: str, timeout: float = 120.0, tries: int = 4, wait: float = 1.0, at_once: int = 64
    ) -> None:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc:
            raise KnobError(f"{address!r} is not an address", "give one that begins with http:// or https://")
        self.address, self.timeout, self.tries, self.wait, self.at_once = address, timeout, tries, wait, at_once

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        refuse_beam("an endpoint", beam, nbest)
        return [
            [Hypothesis(text.strip(), math.nan)]
            for start in range(0, len(sources), self.at_once)
            for text in self._ask(list(sources[start : start + self.at_once]))
        ]

    def _ask(self, sources: list[str]) -> list[str]:
        trouble = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.wait * 2 ** (attempt - 1))
            try:
                return self._texts(self._post(sources), len(sources))
            except HTTPError as error:
                first = (error.read().decode("utf-8", "replace").strip().splitlines() or [""])[0]
                trouble = f"answered {error.code} {error.reason}: {first}".rstrip(": ")
                if error.code < 500:
                    raise LimbeckError(f"{self.address} {trouble}", RESUME) from None
            except (OSError, HTTPException) as error:
                trouble = f"gave no answer: {error}"
        raise LimbeckError(f"{self.address} {trouble} ({self.tries} tries)", RESUME)

    def _post(self, sources: list[str]) -> bytes:
        body = json.dumps({"sources": sources}).encode()
        request = Request(self.address, body, {"Content-Type": "application/json", "Accept": "application/json"})
        with urlopen(request, timeout=self.timeout) as answer:
            content: bytes = answer.read()
            return content

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
