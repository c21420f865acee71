"""A teacher's answers, kept on disk: asked once, served to every epoch, seed and student.

A cache is a folder of `answers-….safetensors` shards (uids int64, logits float32) and `cache.json`, which holds the
fingerprints of teacher, tokenizer and data. Answers are found by uid, so shuffling, bucketing and resuming cannot pair
an answer with another example. A shard is written whole or not at all; a cache that was cut short is completed, and one
that was made for something else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from limbeck.core.errors import MismatchError
from limbeck.core.files import atomic, write_text
from limbeck.core.teacher import Teacher
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want

FORMAT = 1


class Cache:
    """The folder. `fill` asks for what is missing, `teacher` serves what is there."""

    def __init__(self, folder: Path | str, fingerprints: Mapping[str, str]) -> None:
        self.folder = Path(folder)
        self.fingerprints = dict(fingerprints)
        self.damaged: list[Path] = []
        index = self.folder / "cache.json"
        if index.exists():
            _check(index, self.fingerprints)
        else:
            write_text(index, json.dumps({"format": FORMAT, "fingerprints": self.fingerprints}, indent=1) + "\n")
        self.uids, self.logits = self._read()

    def lacks(self, uids: Tensor) -> Tensor:
        """[rows] bool: those of `uids` that have no answer yet."""
        return ~torch.isin(uids, self.uids)

    def fill(
        self,
        teacher: Teacher,
        batches: Iterable[Batch],
        rows_per_shard: int = 2048,
        on_rows: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """Asks `teacher` about every batch; what is answered is on disk after each shard."""
        uids: list[Tensor] = []
        logits: list[Tensor] = []
        done = held = 0
        for batch in batches:
            uids.append(batch.uids.cpu())
            logits.append(teacher.answer(batch).logits.float().cpu())
            held += len(batch.uids)
            done += len(batch.uids)
            if held >= rows_per_shard:
                self._write(torch.cat(uids), torch.cat(logits))
                uids, logits, held = [], [], 0
            on_rows(done)
        if held:
            self._write(torch.cat(uids), torch.cat(logits))
        self.uids, self.logits = self._read()

    def teacher(self) -> CachedTeacher:
        return CachedTeacher(self.uids, self.logits)

    def _write(self, uids: Tensor, logits: Tensor) -> None:
        numbers = [int(path.stem.split("-")[1]) for path in self._shards()]
        path = self.folder / f"answers-{max(numbers, default=-1) + 1:05d}.safetensors"
        with atomic(path) as part:
            save_file({"uids": uids, "logits": logits}, part)

    def _shards(self) -> list[Path]:
        return sorted(self.folder.glob("answers-*.safetensors"))

    def _read(self) -> tuple[Tensor, Tensor]:
        """Every answer, sorted by uid. A damaged shard is set aside, so that its rows are asked again."""
        parts = []
        for path in self._shards():
            try:
                tensors = load_file(path)
                parts.append((tensors["uids"], tensors["logits"]))
            except (SafetensorError, KeyError, OSError):
                path.rename(path.with_suffix(".damaged"))
                self.damaged.append(path)
        if not parts:
            return torch.empty(0, dtype=torch.int64), torch.empty(0, 0)
        uids = torch.cat([uids for uids, _ in parts])
        logits = torch.cat([logits for _, logits in parts])
        uids, order = torch.sort(uids, stable=True)
        first = torch.ones_like(uids, dtype=torch.bool)
        first[1:] = uids[1:] != uids[:-1]
        return uids[first], logits[order][first]


class CachedTeacher(Teacher):
    """Answers from memory; the network is not needed."""

    has = Want.LOGITS

    def __init__(self, uids: Tensor, logits: Tensor) -> None:
        self.uids, self.logits = uids, logits  # sorted [rows], [rows, outputs]

    def answer(self, batch: Batch) -> Trace:
        return Trace(logits=self.look_up(batch.uids.cpu()).to(batch.uids.device))

    def look_up(self, wanted: Tensor) -> Tensor:
        """Answers [rows, outputs] to these uids, in their order."""
        place = torch.searchsorted(self.uids, wanted).clamp(max=max(len(self.uids) - 1, 0))
        if not len(self.uids) or not torch.equal(self.uids[place], wanted):
            raise MismatchError(
                "the teacher's cache has no answer for some of the examples",
                "fill the cache with the same data, or give another folder with --teach.cache",
            )
        return self.logits[place]


def _check(index: Path, expected: Mapping[str, str]) -> None:
    """Refuses a cache that was made for something else, and says for what."""
    try:
        found = json.loads(index.read_text(encoding="utf-8"))
        format_, fingerprints = found["format"], found["fingerprints"]
    except (ValueError, KeyError, TypeError):
        raise MismatchError(
            f"{index} is not the index of a teacher cache", f"delete {index.parent} and run again"
        ) from None
    if format_ != FORMAT:
        raise MismatchError(
            f"{index.parent} was written in format {format_}, this version reads {FORMAT}", "delete it and run again"
        )
    other = [what for what in expected if fingerprints.get(what) != expected[what]]
    if other:
        raise MismatchError(
            f"the teacher cache in {index.parent} was made with another {' and another '.join(other)}",
            f"delete {index.parent}, or give another folder with --teach.cache",
        )
