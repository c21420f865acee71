"""A teacher's distributions over words, kept on disk: asked once, served to every epoch, seed and student.

A store is a folder of `shard-….safetensors` files and `index.json`, which says what the answers are of: teacher,
tokenizer, data, mask, k, vocabulary and temperature. Answers are found by uid, whatever the order.

Every `add` leaves one small shard, written whole or not at all; a writer that is killed loses no more than the batch in
hand. Small shards are merged into large ones as they gather and when the store is closed. A shard is never changed, so
any process may write beside any other, and whoever holds the lock may merge the shards of all. A uid that was written
twice is served from one of them.

Opening a store reads it once, about 1 GB/s, to compare every shard with its checksum. One that differs is renamed to
`.damaged` and named in `damaged`; its examples are lacking, and adding them again mends the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limbeck.core.errors import KnobError, LimbeckError, MismatchError
from limbeck.core.files import explained
from limbeck.core.teacher import Teacher
from limbeck.core.topk import Sampled, Top
from limbeck.core.trace import Batch, Trace
from limbeck.core.want import Want
from limbeck.teachers.about import About, Info, identity, read_index, refuse_other, write_index
from limbeck.teachers.codec import SampledCodec, TopArrays, TopCodec
from limbeck.teachers.shard import PATTERN, VERSION, DamagedError, Rows, Shard, read_shard, spans, write_shard

if TYPE_CHECKING:
    from filelock import BaseFileLock

SMALL = 2**16  # tokens; a shard with fewer is merged with others
ADDS_PER_MERGE, TOKENS_PER_MERGE = 64, 2**17
STALE_SECONDS = 3600.0  # a half-written file of this age has no writer any more


class _Index(NamedTuple):
    """Where each example lies, sorted by uid."""

    uids: NDArray[np.int64]
    shard: NDArray[np.int64]  # number of the shard
    token: NDArray[np.int64]  # first token in the shard
    tokens: NDArray[np.int64]
    row: NDArray[np.int64]  # first row of bytes in the shard
    rows: NDArray[np.int64]


class Store:
    """The folder. `add` keeps answers, `get` serves them, `lacks` says which are not there yet."""

    def __init__(self, folder: Path | str, about: About, *, write: bool = False) -> None:
        self.folder, self.write = Path(folder), write
        self.damaged: list[Path] = []
        self._codec = _codec(about)
        index = self.folder / "index.json"
        if write:
            with explained(index):
                self.folder.mkdir(parents=True, exist_ok=True)
                self._sweep()
                with self._lock():
                    if not index.exists():
                        write_index(index, about)
        self.about, self.created = read_index(index)
        refuse_other(self.folder, about, self.about)
        self._key = identity(self.about)
        self._shards: list[Shard] = []
        self._indexed: _Index | None = None
        self._adds = self._added_tokens = 0
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def __len__(self) -> int:
        return len(self._index.uids)

    @property
    def tokens(self) -> int:
        return int(self._index.tokens.sum())

    @property
    def bytes_on_disk(self) -> int:
        """Of the index and the shards; what was set aside does not count."""
        files = [self.folder / "index.json", *(shard.path for shard in self._shards)]
        return sum(path.stat().st_size for path in files if path.exists())

    def info(self) -> Info:
        return Info(
            version=VERSION,
            created=self.created,
            about=self.about,
            examples=len(self),
            tokens=self.tokens,
            shards=len(self._shards),
            bytes=self.bytes_on_disk,
            bytes_per_token=self.bytes_on_disk / max(self.tokens, 1),
            damaged=[path.name for path in self.damaged],
        )

    def lacks(self, uids: ArrayLike) -> NDArray[np.bool_]:
        """[examples] those of `uids` that have no answer yet."""
        return self._find(np.asarray(uids, np.int64))[1]

    def get(self, uids: ArrayLike) -> tuple[Top | Sampled, NDArray[np.int64]]:
        """Answers to these examples in their order, token after token, and how many tokens each has."""
        places, lacking = self._find(np.asarray(uids, np.int64))
        if lacking.any():
            raise MismatchError(
                f"the store in {self.folder} has no answer for {lacking.sum()} of {len(lacking)} examples",
                "fill it with the same data, mask and folder, or give another folder",
            )
        rows = self._gather(places)
        return _decode(self._codec, rows, self.about.temperature), rows.counts.astype(np.int64)

    def add(self, uids: ArrayLike, counts: ArrayLike, answers: Top | Sampled) -> None:
        """Answers to examples of `counts` tokens each, token after token. They are on disk when this returns."""
        if not self.write:
            raise LimbeckError(f"the store in {self.folder} was opened to be read", "open it with write=True")
        uids, counts = np.asarray(uids, np.int64), np.asarray(counts, np.int32)
        if uids.shape != counts.shape or counts.sum() != len(answers) or (counts < 0).any():
            raise MismatchError(
                f"{len(uids)} examples of {counts.sum()} tokens do not fit answers to {len(answers)} tokens",
                "give one count per example and one answer per token",
            )
        if len(uids):
            rows = Rows(uids, counts, *_encode(self._codec, answers, self.about.temperature))
            self._shards.append(Shard(write_shard(self.folder, rows, self._key), self._key, rows))
            self._indexed = None
            self._adds, self._added_tokens = self._adds + 1, self._added_tokens + len(answers)
        if self._adds >= ADDS_PER_MERGE or self._added_tokens >= TOKENS_PER_MERGE:
            self.merge()

    def close(self) -> None:
        """Leaves large shards behind. A store that was not closed holds the same answers in more files."""
        if self.write:
            self.merge()

    def merge(self) -> None:
        """Makes one shard of all small ones, whoever wrote them; each is deleted when the whole is on disk."""
        with explained(self.folder), self._lock():
            self.refresh()
            small = [number for number, shard in enumerate(self._shards) if shard.tokens < SMALL]
            if len(small) > 1:
                kept = np.flatnonzero(np.isin(self._index.shard, small))
                if len(kept):
                    write_shard(self.folder, self._gather(kept), self._key)
                for number in small:
                    _unlink(self._shards[number].path)
                self.refresh()
        self._adds = self._added_tokens = 0

    def refresh(self) -> None:
        """Looks again at what is in the folder: other processes write and merge too."""
        known = {shard.path: shard for shard in self._shards}
        while True:
            paths = sorted(self.folder.glob(PATTERN))
            try:
                for path in paths:
                    if path not in known and path not in self.damaged:
                        known[path] = self._open(path)
                break
            except FileNotFoundError:  # another process merged it just now
                continue
            except DamagedError as damaged:
                self._set_aside(damaged.args[0])
        shards = [known[path] for path in paths if path in known]
        # Of two answers to one example the one in the larger shard is served: the smaller goes when shards are merged.
        self._shards = sorted(shards, key=lambda shard: -shard.tokens)
        self._indexed = None

    def _open(self, path: Path) -> Shard:
        shard = read_shard(path)
        if shard.about != self._key:
            refuse_other(path, self.about, About(**json.loads(shard.about)))
        return shard

    def _set_aside(self, path: Path) -> None:
        self.damaged.append(path)
        # Another process may have done it, or the folder may be read-only: it is left out all the same.
        try:
            path.rename(path.with_suffix(".damaged"))
        except OSError:
            return

    @property
    def _index(self) -> _Index:
        if self._indexed is None:
            self._indexed = _index_of([shard.rows for shard in self._shards])
        return self._indexed

    def _find(self, uids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """[examples] the place of each in the index, and whether it is not there."""
        known = self._index.uids
        places = np.searchsorted(known, uids)
        there = places < len(known)
        there[there] = known[places[there]] == uids[there]
        return places, ~there

    def _gather(self, places: NDArray[np.int64]) -> Rows:
        """The coded answers of these places of the index, in their order."""
        found = _Index(*(column[places] for column in self._index))
        several = isinstance(self._codec, SampledCodec)
        codes = np.empty((found.rows.sum(), self._codec.width), np.uint8)
        many = np.empty(found.tokens.sum() if several else 0, np.uint8)
        first_row, first_token = np.cumsum(found.rows) - found.rows, np.cumsum(found.tokens) - found.tokens
        for number in np.unique(found.shard):
            here = found.shard == number
            source, rows, tokens = self._shards[number].rows, found.rows[here], found.tokens[here]
            codes[spans(first_row[here], rows)] = source.codes[spans(found.row[here], rows)]
            if several:
                many[spans(first_token[here], tokens)] = source.many[spans(found.token[here], tokens)]
        return Rows(found.uids, found.tokens.astype(np.int32), many, codes)

    def _sweep(self) -> None:
        """Deletes what writers left half-written when they were killed."""
        for part in self.folder.glob(".*.part"):
            try:
                old = time.time() - part.stat().st_mtime > STALE_SECONDS
            except FileNotFoundError:
                continue
            if old:
                _unlink(part)

    @contextmanager
    def _lock(self) -> Iterator[BaseFileLock]:
        """One process at a time; the operating system frees it when its holder dies."""
        from filelock import FileLock

        with FileLock(self.folder / ".lock") as lock:
            yield lock


def open_store(folder: Path | str, *, write: bool = False) -> Store:
    """The store that is in this folder, whatever it is of."""
    return Store(folder, read_index(Path(folder) / "index.json")[0], write=write)


class StoreTeacher(Teacher):
    """Answers from a store; the network is not needed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.has = Want.TOP if store.about.kind == "top" else Want.SAMPLED

    def answer(self, batch: Batch) -> Trace:
        answers, counts = self.store.get(batch.uids.cpu().numpy())
        asked = batch.in_loss.sum(dim=1).cpu().numpy()
        if (asked != counts).any():
            raise MismatchError(
                f"{(asked != counts).sum()} of {len(asked)} examples ask about another number of tokens than the "
                f"store in {self.store.folder} has answers for",
                "the store was filled under another mask or length; give the same, or another folder",
            )
        moved = {name: value.to(batch.uids.device) for name, value in vars(answers).items() if name != "temperature"}
        if isinstance(answers, Top):
            return Trace(top=Top(**moved, temperature=answers.temperature))
        return Trace(sampled=Sampled(**moved, temperature=answers.temperature))


def _codec(about: About) -> TopCodec | SampledCodec:
    if about.kind == "top":
        if about.k > about.vocabulary:
            raise KnobError(f"a vocabulary of {about.vocabulary} has no top {about.k}", "give a smaller k")
        return TopCodec(about.k, about.vocabulary, about.temperature)
    if about.k > 255:
        raise KnobError(f"{about.k} draws per token cannot be kept", "draw at most 255 times")
    return SampledCodec(about.k, about.vocabulary)


def _encode(
    codec: TopCodec | SampledCodec, answers: Top | Sampled, temperature: float
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Rows per token, empty where each has one, and the rows."""
    ids = answers.ids.numpy(force=True)
    if answers.temperature == temperature:
        if isinstance(codec, TopCodec) and isinstance(answers, Top):
            numbers = (answers.log_p, answers.log_sum, answers.softened)
            top = TopArrays(ids, *(number.float().numpy(force=True) for number in numbers))
            return np.empty(0, np.uint8), codec.encode(top)
        if isinstance(codec, SampledCodec) and isinstance(answers, Sampled):
            return codec.encode(ids, answers.weights.float().numpy(force=True))
    raise MismatchError(
        f"the store is not for answers '{type(answers).__name__.lower()}' at temperature {answers.temperature:g}",
        "give another folder",
    )


def _decode(codec: TopCodec | SampledCodec, rows: Rows, temperature: float) -> Top | Sampled:
    from torch import from_numpy

    if isinstance(codec, TopCodec):
        ids, log_p, log_sum, softened = map(from_numpy, codec.decode(rows.codes))
        return Top(ids, log_p, log_sum, softened, temperature)
    ids, weights = map(from_numpy, codec.decode(rows.many, rows.codes))
    return Sampled(ids, weights, temperature)


def _index_of(shards: list[Rows]) -> _Index:
    columns: list[list[NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in _Index._fields]
    for number, rows in enumerate(shards):
        tokens = rows.counts.astype(np.int64)
        ends = np.cumsum(tokens)
        row_ends = np.concatenate([[0], np.cumsum(rows.many, dtype=np.int64)])[ends] if len(rows.many) else ends
        lengths = np.diff(row_ends, prepend=0)
        found = (rows.uids, np.full(len(ends), number), ends - tokens, tokens, row_ends - lengths, lengths)
        for column, part in zip(columns, found, strict=True):
            column.append(part)
    together = [np.concatenate(column) for column in columns]
    _, first = np.unique(together[0], return_index=True)
    return _Index(*(column[first] for column in together))


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # Windows keeps a file that some process reads; the answers are then there twice
        return
