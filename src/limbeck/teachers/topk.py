"""A cache of a teacher's distributions over a vocabulary on disk: the top k of each token, or ids drawn at random.

The manifest names teacher, tokenizer, data, mask, k, vocabulary and temperature. Every `add` writes one small shard, so
a killed writer loses no more than one batch. Small shards are merged into large ones after some adds and when the cache
is closed. Several processes may write at once; the one that holds the lock merges the shards of all.

codes    one row of bytes for each token; of draws, one for each distinct id
many     of draws: the number of distinct ids of each token
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from limbeck.core.errors import KnobError, LimbeckError, MismatchError
from limbeck.core.files import explained
from limbeck.core.knob import Frozen, Settings, knob
from limbeck.core.trace import Batch, Projection, Sampled, Teacher, Top, Trace, Want
from limbeck.functional.softmax import chunk_size
from limbeck.functional.truncated import draw, top_of
from limbeck.teachers.codec import SampledCodec, TopArrays, TopCodec
from limbeck.teachers.shards import VERSION, Array, Ints, Ragged, RaggedFolder, read_index

SMALL = 2**16  # tokens; a shard with fewer is merged with others
ADDS_PER_MERGE, TOKENS_PER_MERGE = 64, 2**17


class Manifest(Settings):
    """What the answers of a cache are of. All of it but the notes must be the same to use the cache again."""

    kind: Literal["top", "sampled"] = knob("top", "the most probable words, or words drawn at random")
    k: int = knob(50, "words kept, or draws, per token", at_least=1)
    vocabulary: int = knob(30522, "words to choose from", at_least=1)
    temperature: float = knob(1.0, "temperature of the draws, or the one the top's softened sum is for", above=0)
    fingerprints: dict[str, str] = knob({}, "of teacher, tokenizer, data and mask")
    notes: dict[str, Any] = knob({}, "knobs, for people to read; not compared")


class Info(Frozen):
    """What `limbeck cache --info` shows."""

    version: int
    created: str
    manifest: Manifest
    examples: int
    tokens: int
    shards: int
    bytes: int
    bytes_per_token: float
    damaged: list[str]


class TopKCache(RaggedFolder):
    """The folder. `fill` or `add` store answers, `teacher` or `get` serve them."""

    def __init__(self, folder: Path | str, manifest: Manifest, *, write: bool = False) -> None:
        self._codec = _codec(manifest)
        self._adds = self._added_tokens = 0
        compared = {"store": "top k", **manifest.model_dump(mode="json", exclude={"notes"})}
        parts = dict.fromkeys(("codes", "many") if manifest.kind == "sampled" else ("codes",), "uint8")
        self._per_token = list(parts)[-1]  # the part whose counts are tokens
        # Of two answers to one example, that of the smaller shard goes when shards are merged.
        super().__init__(folder, compared, parts, largest=self._per_token, write=write, notes=manifest.notes)
        self.manifest = manifest.model_copy(update={"notes": self.index.notes})

    @classmethod
    def open(cls, folder: Path | str, *, write: bool = False) -> Self:
        """The cache in this folder, with the manifest it has."""
        index = read_index(Path(folder), f"delete {folder}, or give another folder")
        if index.manifest.get("store") != "top k":
            raise MismatchError(f"{folder} holds {index.manifest.get('store')}, not a top k", "give another folder")
        compared = {name: value for name, value in index.manifest.items() if name != "store"}
        return cls(folder, Manifest(**compared, notes=index.notes), write=write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()

    def __len__(self) -> int:
        return len(self.uids)

    @property
    def tokens(self) -> int:
        return int(self._rows_of(self._per_token).rows.sum())

    def info(self) -> Info:
        return Info(
            version=VERSION,
            created=self.index.created,
            manifest=self.manifest,
            examples=len(self),
            tokens=self.tokens,
            shards=len(self.shards),
            bytes=self.bytes_on_disk,
            bytes_per_token=self.bytes_on_disk / max(self.tokens, 1),
            damaged=[path.name for path in self.damaged],
        )

    def teacher(self) -> TopKTeacher:
        return TopKTeacher(self)

    def get(self, uids: ArrayLike) -> tuple[Top | Sampled, Ints]:
        """Answers to these examples in their order, token after token, and how many tokens each has."""
        positions, exists = self._rows_of("codes").find(np.asarray(uids, np.int64))
        if not exists.all():
            raise MismatchError(
                f"the cache in {self.folder} has no answer for {(~exists).sum()} of {len(exists)} examples",
                "fill it with the same data, mask and folder, or give another folder",
            )
        coded = self._rows(positions)
        counts = coded.counts[self._per_token].astype(np.int64)
        return _decode(self._codec, coded.parts, self.manifest.temperature), counts

    def fill(
        self, teacher: Teacher, batches: Iterable[Batch], on_rows: Callable[[int], None] = lambda rows: None
    ) -> None:
        """Runs `teacher` on every batch; its answer is on disk before the next batch."""
        for rows in self.fill_by_batch(teacher, batches):
            on_rows(rows)

    def fill_by_batch(self, teacher: Teacher, batches: Iterable[Batch]) -> Iterator[int]:
        """The same, batch by batch: yields the number of rows done, so that the caller can report progress."""
        done = 0
        for batch in batches:
            counts = batch.in_loss.sum(1).cpu().numpy()
            self.add(batch.uids.cpu().numpy(), counts, compress(teacher.answer(batch).tokens, self.manifest, batch))
            done += len(counts)
            yield done

    def add(self, uids: ArrayLike, counts: ArrayLike, answers: Top | Sampled) -> None:
        """Answers to examples of `counts` tokens each, token after token. They are on disk when this returns."""
        if not self.writable:
            raise LimbeckError(f"the cache in {self.folder} was opened to be read", "open it with write=True")
        uids, counts = np.asarray(uids, np.int64), np.asarray(counts, np.int32)
        if uids.shape != counts.shape or counts.sum() != len(answers) or (counts < 0).any():
            raise MismatchError(
                f"{len(uids)} examples of {counts.sum()} tokens do not fit answers to {len(answers)} tokens",
                "give one count per example and one answer per token",
            )
        if len(uids):
            self._add(_encode(self._codec, uids, counts, answers, self.manifest.temperature))
            self._adds, self._added_tokens = self._adds + 1, self._added_tokens + len(answers)
        if self._adds >= ADDS_PER_MERGE or self._added_tokens >= TOKENS_PER_MERGE:
            self.merge()

    def estimate(self, examples: float, tokens: float, sample: Top | Sampled | None = None) -> int:
        """Bytes that answers to so many tokens take on disk; of draws by those of the sample, else at most."""
        per_token: float = self._codec.width
        if isinstance(self._codec, SampledCodec):
            distinct: float = self.manifest.k
            if isinstance(sample, Sampled):
                distinct = float((sample.weights > 0).sum()) / max(len(sample), 1)
            per_token = distinct * self._codec.width + 1
        return round(tokens * per_token + (8 + 4 * len(self.parts)) * examples)

    def close(self) -> None:
        """Leaves large shards behind. A cache that was not closed holds the same answers in more files."""
        if self.writable:
            self.merge()

    def merge(self) -> None:
        """Makes one shard of all small ones, whoever wrote them; each is deleted when the whole is on disk."""
        with explained(self.folder), self._lock():
            self.refresh()
            small = {n: path for n, (path, shard) in enumerate(self.shards.items()) if self._tokens(shard) < SMALL}
            if len(small) > 1:
                positions = np.flatnonzero(np.isin(self._rows_of("codes").shard, list(small)))
                if len(positions):
                    self._add(self._rows(positions))
                for path in small.values():
                    self._delete(path)
                self.refresh()
        self._adds = self._added_tokens = 0

    def _tokens(self, shard: Ragged) -> int:
        return int(shard.counts[self._per_token].sum())

    def _rows(self, positions: Ints) -> Ragged:
        """The coded answers at these positions of the table, in their order."""
        where = {part: self._rows_of(part).at(positions) for part in self.parts}
        nothing = {"codes": np.empty((0, self._codec.width), np.uint8), "many": np.empty((0, 1), np.uint8)}
        parts = {part: self._gather(part, where[part]) if self.shards else nothing[part] for part in self.parts}
        return Ragged(where["codes"].uids, {part: where[part].rows for part in self.parts}, parts)


class TopKTeacher(Teacher):
    """Answers from a cache, without the network."""

    def __init__(self, cache: TopKCache) -> None:
        self.cache = cache
        self.has = Want.TOP if cache.manifest.kind == "top" else Want.SAMPLED

    def answer(self, batch: Batch) -> Trace:
        answers, counts = self.cache.get(batch.uids.cpu().numpy())
        predicted = batch.in_loss.sum(dim=1).cpu().numpy()
        if (predicted != counts).any():
            raise MismatchError(
                f"{(predicted != counts).sum()} of {len(predicted)} examples ask about another number of tokens than "
                f"the cache in {self.cache.folder} has answers for",
                "the cache was filled under another mask or length; give the same, or another folder",
            )
        moved = {name: value.to(batch.uids.device) for name, value in vars(answers).items() if name != "temperature"}
        if isinstance(answers, Top):
            return Trace(top=replace(answers, **moved))
        return Trace(sampled=replace(answers, **moved))


@torch.no_grad()
def compress(answers: Projection, manifest: Manifest, batch: Batch) -> Top | Sampled:
    """What a cache stores of the answers to a batch, computed a few tokens at a time."""
    size = chunk_size(answers.vocabulary)
    if manifest.kind == "top":
        chunks = _chunks(0, len(answers), size)
        tops = [top_of(answers.logits(chunk), manifest.k, manifest.temperature) for chunk in chunks]
        columns = zip(*((top.ids, top.log_p, top.log_sum, top.softened) for top in tops), strict=True)
        ids, log_p, log_sum, softened = (torch.cat(column).cpu() for column in columns)
        return Top(ids, log_p, log_sum, softened, manifest.temperature)
    drawn: list[Sampled] = []
    first = 0
    for uid, count in zip(batch.uids.tolist(), batch.in_loss.sum(1).tolist(), strict=True):
        # Seeded by the example: after a crash, and in any batch, it gets the same draws.
        generator = torch.Generator(answers.features.device).manual_seed(uid)
        chunks = _chunks(first, first + count, size)
        drawn += [draw(answers.logits(chunk), manifest.k, manifest.temperature, generator) for chunk in chunks]
        first += count
    most = max((one.ids.shape[1] for one in drawn), default=0)
    wide = [torch.nn.functional.pad(x, (0, most - x.shape[1])) for one in drawn for x in (one.ids, one.weights)]
    return Sampled(torch.cat(wide[::2]).cpu(), torch.cat(wide[1::2]).cpu(), manifest.temperature)


def _chunks(first: int, last: int, size: int) -> list[slice]:
    """Slices of `size` tokens; of no tokens, one empty slice."""
    return [slice(start, min(start + size, last)) for start in range(first, max(last, first + 1), size)]


def _codec(manifest: Manifest) -> TopCodec | SampledCodec:
    if manifest.kind == "top":
        if manifest.k > manifest.vocabulary:
            raise KnobError(f"a vocabulary of {manifest.vocabulary} has no top {manifest.k}", "give a smaller k")
        return TopCodec(manifest.k, manifest.vocabulary, manifest.temperature)
    if manifest.k > 255:
        raise KnobError(f"{manifest.k} draws per token cannot be kept", "draw at most 255 times")
    return SampledCodec(manifest.k, manifest.vocabulary)


def _encode(
    codec: TopCodec | SampledCodec, uids: Ints, counts: NDArray[np.int32], answers: Top | Sampled, temperature: float
) -> Ragged:
    ids = answers.ids.numpy(force=True)
    if answers.temperature == temperature:
        if isinstance(codec, TopCodec) and isinstance(answers, Top):
            numbers = (answers.log_p, answers.log_sum, answers.softened)
            top = TopArrays(ids, *(number.float().numpy(force=True) for number in numbers))
            return Ragged(uids, {"codes": counts}, {"codes": codec.encode(top)})
        if isinstance(codec, SampledCodec) and isinstance(answers, Sampled):
            many, codes = codec.encode(ids, answers.weights.float().numpy(force=True))
            ends = np.concatenate([[0], np.cumsum(many, dtype=np.int64)])[np.cumsum(counts)]
            rows = np.diff(ends, prepend=0)
            return Ragged(uids, {"codes": rows, "many": counts}, {"codes": codes, "many": many[:, None]})
    raise MismatchError(
        f"the cache is not for answers '{type(answers).__name__.lower()}' at temperature {answers.temperature:g}",
        "give another folder",
    )


def _decode(codec: TopCodec | SampledCodec, parts: Mapping[str, Array], temperature: float) -> Top | Sampled:
    if isinstance(codec, TopCodec):
        ids, log_p, log_sum, softened = map(torch.from_numpy, codec.decode(parts["codes"]))
        return Top(ids, log_p, log_sum, softened, temperature)
    ids, weights = map(torch.from_numpy, codec.decode(parts["many"][:, 0], parts["codes"]))
    return Sampled(ids, weights, temperature)
