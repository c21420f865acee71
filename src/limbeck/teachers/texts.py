"""A cache of a teacher's translations on disk: made once, read by every student, never paired with another source.

The manifest names the teacher and how it translates. A shard holds lines of JSON:

    {"uid": 123, "source": "16 hex digits of its checksum", "written": [["text", log_p or null], …]}

A text that is cut off before its end has `true` as a third entry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.engines.base import Engine, Hypothesis
from limbeck.teachers.shards import ShardFolder

_BYTES_PER_SOURCE, _BYTES_PER_TEXT = 73, 24  # of a line: uid and checksum; quotes, log_p and commas


class TextCache(ShardFolder[dict[int, bytes]]):
    """`fill` translates and stores what is missing, `get` serves it. A shard maps uids to lines."""

    suffix = ".jsonl"

    def __init__(self, folder: Path | str, manifest: Mapping[str, Any]) -> None:
        super().__init__(folder, {"store": "texts", **manifest})
        self.refresh()

    def __len__(self) -> int:
        return len(self._lines)

    def refresh(self) -> None:
        """Reads the folder again: other processes write too."""
        for path, content in self._unread():
            self.shards[path] = {json.loads(line)["uid"]: line for line in content[:].splitlines()}
        shards = reversed(self.shards.values())  # of two lines the older is served
        self._lines = {uid: line for shard in shards for uid, line in shard.items()}

    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        return np.array([uid not in self._lines for uid in np.asarray(uids, np.int64).tolist()], bool)

    def get(self, uid: int, source: str) -> list[Hypothesis]:
        """What was written for this source, best first."""
        line = self._lines.get(int(uid))
        if line is None:
            raise MismatchError(
                f"{self.folder} holds no translation of uid {uid}: {source[:60]!r}", "complete it with --resume"
            )
        row = json.loads(line)
        if row["source"] != checksum(source):
            raise MismatchError(
                f"the translation of uid {uid} in {self.folder} is of another text than {source[:60]!r}",
                f"the sources have changed: give another folder, or delete {self.folder}",
            )
        return [
            Hypothesis(text, math.nan if log_p is None else log_p, bool(cut)) for text, log_p, *cut in row["written"]
        ]

    def fill(
        self,
        engine: Engine,
        sources: Sequence[str],
        uids: ArrayLike,
        beam: int = 1,
        nbest: int = 1,
        on_share: Callable[[float], None] = lambda share: None,
        portion: int = 512,
    ) -> None:
        """Translates what is missing, longest first. Every portion is on disk before the next one."""
        texts = self._distinct(sources, uids)
        total = sum(map(_effort, texts.values()))
        missing = sorted((uid for uid in texts if uid not in self._lines), key=lambda uid: -len(texts[uid]))
        left = sum(_effort(texts[uid]) for uid in missing)
        on_share(1 - left / total if total else 1.0)
        step = min(portion, engine.at_once)
        for start in range(0, len(missing), step):
            some = missing[start : start + step]
            done = len(texts) - len(missing) + start
            with _crash_explained(f"after {done} of {len(texts)} sources", self.folder):
                answers = engine.translate([texts[uid] for uid in some], beam, nbest)
                if len(answers) != len(some) or not all(answers):
                    raise LimbeckError(f"{engine.name} left sources without a translation", "")
            lines = {uid: _line(uid, texts[uid], written) for uid, written in zip(some, answers, strict=True)}
            self.shards[self._write(b"".join(lines.values()))] = lines
            self._lines |= lines
            left -= sum(_effort(texts[uid]) for uid in some)
            on_share(1 - left / total)

    def estimate(self, sources: Sequence[str], uids: ArrayLike, nbest: int = 1) -> int:
        """Bytes that translations of what is missing take on disk, if they are as long as their sources."""
        texts = dict(zip(np.asarray(uids, np.int64).tolist(), sources, strict=True))
        missing = [len(json.dumps(text)) for uid, text in texts.items() if uid not in self._lines]
        return sum(_BYTES_PER_SOURCE + nbest * (_BYTES_PER_TEXT + size) for size in missing)

    def _distinct(self, sources: Sequence[str], uids: ArrayLike) -> dict[int, str]:
        numbers = np.asarray(uids, np.int64).tolist()
        if len(numbers) != len(sources):
            raise MismatchError(f"{len(sources)} sources have {len(numbers)} uids", "give one uid for each source")
        texts: dict[int, str] = {}
        for uid, source in zip(numbers, sources, strict=True):
            if texts.setdefault(uid, source) != source:
                raise MismatchError(f"uid {uid} stands for two sources: {texts[uid][:60]!r} and {source[:60]!r}", "")
            if uid in self._lines:
                self.get(uid, source)
        return texts


class CachedTexts(Engine):
    """The cached translations of some sources, as an engine."""

    def __init__(self, name: str, cache: TextCache, sources: Sequence[str], uids: ArrayLike) -> None:
        self.name = name
        numbers = np.asarray(uids, np.int64).tolist()
        self._texts = {source: cache.get(uid, source) for uid, source in zip(numbers, sources, strict=True)}

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        return [self._texts[source] for source in sources]


@contextmanager
def _crash_explained(where: str, folder: Path) -> Iterator[None]:
    """Adds to an error how far the translation came, and that nothing is lost."""
    remedy = f"what was translated is kept in {folder}: run the same command with --resume"
    try:
        yield
    except LimbeckError as error:
        advice = error.remedy if "--resume" in error.remedy else "; ".join(filter(None, (error.remedy, remedy)))
        raise type(error)(f"{error.problem} ({where})", advice) from error
    except Exception as error:
        raise LimbeckError(f"the teacher broke off {where}: {type(error).__name__}: {error}", remedy) from error


def checksum(source: str) -> str:
    return blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _effort(source: str) -> int:
    """Characters, and one for the end: an empty source takes a step too."""
    return len(source) + 1


def _line(uid: int, source: str, written: list[Hypothesis]) -> bytes:
    texts = [
        [each.text, None if math.isnan(each.log_p) else each.log_p, *([True] if each.cut else [])] for each in written
    ]
    row = {"uid": uid, "source": checksum(source), "written": texts}
    return json.dumps(row).encode() + b"\n"
