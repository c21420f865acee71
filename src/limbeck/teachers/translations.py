"""What a teacher wrote, kept on disk: asked once, read by every student, never shifted against its source.

A folder with `index.json`, which says by whom and how the translations were made, and shards of JSON lines:

    {"uid": 123, "source": "16 hex digits of its checksum", "written": [["text", log_p or null], …]}

A text that was cut off before its end has `true` as a third entry.

A shard is written whole or not at all and named by a checksum of its content and of the index. One that does not match
its name was torn or belongs elsewhere; it is set aside as `.damaged`, and its sources are asked again. Any process may
write beside any other.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limbeck.core.errors import LimbeckError, MismatchError
from limbeck.core.files import atomic, explained, write_text
from limbeck.engines.base import Engine, Hypothesis

VERSION = 1
STALE_SECONDS = 3600.0  # a half-written file of this age has no writer any more


class Translations:
    """`complete` asks for what is missing and keeps it, `of` serves it, `lacks` says what is not there yet."""

    def __init__(self, folder: Path | str, about: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.about: dict[str, Any] = json.loads(json.dumps(dict(about), sort_keys=True, default=str))
        self.damaged: list[Path] = []
        self._rows: dict[int, bytes] = {}  # the line of each uid, as it lies in its shard
        self._read: set[Path] = set()
        self._open_index()
        self._sweep()
        self.refresh()

    def __len__(self) -> int:
        return len(self._rows)

    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        return np.array([uid not in self._rows for uid in np.asarray(uids, np.int64).tolist()], bool)

    def of(self, uid: int, source: str) -> list[Hypothesis]:
        """What was written for this source, best first."""
        line = self._rows.get(int(uid))
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

    def complete(
        self,
        sources: Sequence[str],
        uids: ArrayLike,
        translator: Engine,
        beam: int,
        nbest: int,
        on_share: Callable[[float], None] = lambda share: None,
        portion: int = 512,
    ) -> None:
        """Asks for what is missing, longest first, and keeps every portion as soon as it is there."""
        texts = self._distinct(sources, uids)
        total = sum(map(_effort, texts.values()))
        missing = [uid for uid in texts if uid not in self._rows]
        missing.sort(key=lambda uid: -len(texts[uid]))
        left = sum(_effort(texts[uid]) for uid in missing)
        on_share(1 - left / total if total else 1.0)
        step = min(portion, translator.at_once)
        for start in range(0, len(missing), step):
            asked = missing[start : start + step]
            done = len(texts) - len(missing) + start
            with _crash_explained(f"after {done} of {len(texts)} sources", self.folder):
                answers = translator.translate([texts[uid] for uid in asked], beam, nbest)
                if len(answers) != len(asked) or not all(answers):
                    raise LimbeckError(f"{translator.name} left sources without a translation", "")
            self._keep([(uid, texts[uid], written) for uid, written in zip(asked, answers, strict=True)])
            left -= sum(_effort(texts[uid]) for uid in asked)
            on_share(1 - left / total)

    def refresh(self) -> None:
        """Reads the shards that other processes wrote since."""
        for path in sorted(self.folder.glob("written-*.jsonl")):
            if path in self._read or path in self.damaged:
                continue
            content = path.read_bytes()
            if path.name == self._name(content):
                self._take(path, content)
            else:
                self._set_aside(path)

    def _distinct(self, sources: Sequence[str], uids: ArrayLike) -> dict[int, str]:
        numbers = np.asarray(uids, np.int64).tolist()
        if len(numbers) != len(sources):
            raise MismatchError(f"{len(sources)} sources have {len(numbers)} uids", "give one uid for each source")
        texts: dict[int, str] = {}
        for uid, source in zip(numbers, sources, strict=True):
            if texts.setdefault(uid, source) != source:
                raise MismatchError(f"uid {uid} stands for two sources: {texts[uid][:60]!r} and {source[:60]!r}", "")
            if uid in self._rows:
                self.of(uid, source)
        return texts

    def _keep(self, rows: list[tuple[int, str, list[Hypothesis]]]) -> None:
        content = b"".join(_line(uid, source, written) for uid, source, written in rows)
        path = self.folder / self._name(content)
        with atomic(path) as part:
            part.write_bytes(content)
        self._take(path, content)

    def _take(self, path: Path, content: bytes) -> None:
        self._read.add(path)
        for line in content.splitlines():
            self._rows[json.loads(line)["uid"]] = line

    def _name(self, content: bytes) -> str:
        identity = json.dumps(self.about, sort_keys=True).encode()
        return f"written-{blake2b(identity + content, digest_size=16).hexdigest()}.jsonl"

    def _set_aside(self, path: Path) -> None:
        self.damaged.append(path)
        try:
            path.rename(path.with_suffix(".damaged"))
        except OSError:  # read-only, or another process was first: it is left out all the same
            return

    def _open_index(self) -> None:
        from filelock import FileLock

        path = self.folder / "index.json"
        with explained(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self.folder / ".lock"
            with FileLock(lock):
                if not path.exists():
                    write_text(path, json.dumps({"version": VERSION, "about": self.about}, indent=1) + "\n")
                lock.unlink(missing_ok=True)  # whoever waits for it finds the index
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version, found = int(content["version"]), dict(content["about"])
        except (ValueError, KeyError, TypeError):
            raise MismatchError(f"{path} is damaged", "delete this one file; the translations are kept") from None
        if version > VERSION:
            raise MismatchError(
                f"{self.folder} was written in format {version}", "update Limbeck, or give another folder"
            )
        if other := list(_differences(found, self.about)):
            raise MismatchError(
                f"the translations in {self.folder} were made with another {' and another '.join(other)}",
                f"give another folder, or delete {self.folder}",
            )

    def _sweep(self) -> None:
        """Deletes what writers left half-written when they were killed."""
        for part in self.folder.glob(".written-*.part"):
            try:
                if time.time() - part.stat().st_mtime > STALE_SECONDS:
                    part.unlink()
            except OSError:  # another process was first, or the folder is read-only
                continue


@contextmanager
def _crash_explained(where: str, folder: Path) -> Iterator[None]:
    """Says of an error while translating how far it came, and that nothing is lost."""
    remedy = f"what was translated is kept in {folder}: run the same command with --resume"
    try:
        yield
    except LimbeckError as error:
        advice = error.remedy if "--resume" in error.remedy else "; ".join(filter(None, (error.remedy, remedy)))
        raise type(error)(f"{error.problem} ({where})", advice) from error
    except Exception as error:
        raise LimbeckError(f"the teacher broke off {where}: {type(error).__name__}: {error}", remedy) from error


class Recalled(Engine):
    """What is kept of these sources, as if it were written now."""

    def __init__(self, name: str, kept: Translations, sources: Sequence[str], uids: ArrayLike) -> None:
        self.name = name
        numbers = np.asarray(uids, np.int64).tolist()
        self._written = {source: kept.of(uid, source) for uid, source in zip(numbers, sources, strict=True)}

    def translate(self, sources: Sequence[str], beam: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
        return [self._written[source] for source in sources]


def checksum(source: str) -> str:
    return blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _effort(source: str) -> int:
    """Characters, and one for the end: an empty source takes a step too."""
    return len(source) + 1


def _line(uid: int, source: str, written: list[Hypothesis]) -> bytes:
    said = [
        [each.text, None if math.isnan(each.log_p) else each.log_p, *([True] if each.cut else [])] for each in written
    ]
    row = {"uid": uid, "source": checksum(source), "written": said}
    return json.dumps(row).encode() + b"\n"


def _differences(found: dict[str, Any], wanted: dict[str, Any], within: str = "") -> Iterator[str]:
    for name in sorted({*found, *wanted}):
        ours, theirs = wanted.get(name), found.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _differences(theirs, ours, f"{name} ")
        elif ours != theirs:
            yield f"{within}{name} ({theirs}, not {ours})"
