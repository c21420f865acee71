"""Documents become blocks of tokens: tokenised in bulk, joined or not, cut to length, framed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from limbeck.core.errors import KnobError, ModelError
from limbeck.core.task import LanguageKind
from limbeck.data.text.examples import spans

FEWEST = 8  # tokens a short piece must have to be worth a block
_TEXTS = 1000  # texts handed to the tokenizer at once: bounds the memory its Python lists take
_CHARACTERS = 2_000_000


def _nothing() -> np.ndarray:
    return np.empty(0, dtype=np.int8)


@dataclass(frozen=True)
class Blocks:
    """Block i holds the tokens from offsets[i] to offsets[i + 1]. Columns that are not needed are empty."""

    ids: np.ndarray  # [tokens] int32
    offsets: np.ndarray  # [blocks + 1] int64
    special: np.ndarray  # [tokens] bool: [CLS], [SEP] and the like, put there by the tokenizer: never predicted
    inside: np.ndarray = field(default_factory=_nothing)  # [tokens] bool: goes on with the word of the token before
    learnt: np.ndarray = field(default_factory=_nothing)  # [tokens] bool: to be learnt (chats); empty for all
    types: np.ndarray = field(default_factory=_nothing)  # [tokens] int8: segment, 0 or 1; empty if the model has none
    # [blocks] int8: 0 next sentence, 1 random; empty if no pairs
    next_sentence_label: np.ndarray = field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def tokens(self, index: int) -> slice:
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def take(self, indices: Sequence[int] | np.ndarray) -> Blocks:
        """These blocks, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        flat, offsets = spans(self.offsets[chosen], self.lengths[chosen])
        columns = {
            name: column[flat] if len(column := getattr(self, name)) else column
            for name in ("ids", "special", "inside", "learnt", "types")
        }
        follows = self.next_sentence_label
        return Blocks(offsets=offsets, next_sentence_label=follows[chosen] if len(follows) else follows, **columns)


@dataclass(frozen=True)
class Frame:
    """What a tokenizer puts around the text of a block, and what stands between documents."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    between: tuple[int, ...]  # one token, or none

    @property
    def size(self) -> int:
        return len(self.prefix) + len(self.suffix)


@dataclass(frozen=True)
class Packed:
    blocks: Blocks
    dropped: int = 0  # tokens of pieces too short for a block
    truncated: int = 0  # chats that lost their end
    rows: Mapping[str, int] = field(default_factory=dict)  # reason → chats without a block


def frame_of(tokenizer: Any, kind: LanguageKind) -> Frame:
    """Masked models read [CLS] … [SEP]; causal ones what they start with, and the end of text after a document."""
    body = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    start = next((i for i in range(len(full)) if full[i : i + len(body)] == body), None)
    if start is None:
        raise ModelError(
            "the tokenizer changes a text when it adds its special tokens to it", "use the model's own tokenizer"
        )
    ends = (tokenizer.sep_token_id, tokenizer.eos_token_id) if kind == "mask-fill" else (tokenizer.eos_token_id,)
    between = tuple(token for token in ends if token is not None)[:1]
    suffix = tuple(full[start + len(body) :]) if kind == "mask-fill" else ()
    return Frame(tuple(full[:start]), suffix, between)


def tokenise(texts: Sequence[str], tokenizer: Any, kind: LanguageKind) -> Blocks:
    """Every text as one block of its own, without a frame."""
    ids: list[np.ndarray] = []
    inside: list[np.ndarray] = []
    lengths: list[int] = []
    for found in encoded(texts, tokenizer):
        rows = found["input_ids"]
        lengths += map(len, rows)
        ids.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
        if kind == "mask-fill" and tokenizer.is_fast:
            inside.append(_inside([encoding.word_ids for encoding in found.encodings]))
    flat = np.concatenate([np.empty(0, dtype=np.int32), *ids])
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return Blocks(flat, offsets, _special(flat, tokenizer, kind), np.concatenate([np.empty(0, dtype=bool), *inside]))


def encoded(texts: Sequence[str], tokenizer: Any) -> Iterator[Any]:
    """The tokenizer's output, chunk by chunk: neither truncated nor padded, without special tokens."""
    for some in _chunks(texts):
        yield tokenizer(
            some,
            add_special_tokens=False,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for text in texts:
        some.append(text)
        size += len(text)
        if len(some) == _TEXTS or size >= _CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _inside(words: Sequence[Sequence[int | None]]) -> np.ndarray:
    """Whether a token goes on with the word of the one before. A text begins with a new word."""
    flat = np.fromiter((-1 if word is None else word for row in words for word in row), dtype=np.int64)
    goes_on = np.zeros(len(flat), dtype=bool)
    goes_on[1:] = (flat[1:] == flat[:-1]) & (flat[1:] >= 0)
    starts = np.cumsum([0, *map(len, words)])[:-1]
    goes_on[starts[starts < len(flat)]] = False
    return goes_on


def _special(ids: np.ndarray, tokenizer: Any, kind: LanguageKind) -> np.ndarray:
    """A "[SEP]" that a text spells out is the special token. [UNK] is not marked here, but it is never masked either:
    a `Masker` leaves out all special ids of the tokenizer.

    Causal models predict their special tokens: the end of the text is how they learn to stop."""
    if kind == "generate":
        return np.zeros(len(ids), dtype=bool)
    return np.isin(ids, [token for token in tokenizer.all_special_ids if token != tokenizer.unk_token_id])


def pack(documents: Blocks, frame: Frame, length: int, join: bool, kind: LanguageKind) -> Packed:
    """Blocks of at most `length` tokens. Joined, documents fill them one after another; else none holds two."""
    body = length - frame.size
    if body < 1:
        raise KnobError(
            f"blocks of {length} tokens have no room beside {frame.size} special ones", "make blocks.length larger"
        )
    stream = _separated(documents, frame.between, join, kind)
    ends = stream.offsets[[0, -1]] if join else stream.offsets
    pieces = replace(stream, offsets=_cut(ends, body))
    long_enough = pieces.lengths >= min(FEWEST, body)
    kept = pieces.take(np.flatnonzero(long_enough))
    return Packed(_framed(kept, frame), int(pieces.lengths[~long_enough].sum()))


def _separated(documents: Blocks, between: tuple[int, ...], join: bool, kind: LanguageKind) -> Blocks:
    """Masked models: a separator between joined documents. Causal ones: the end of text after each."""
    if not between or (kind == "mask-fill" and not join):
        return documents
    made = _framed(documents, Frame((), between, ()), special=kind == "mask-fill")
    if kind == "generate" or not len(documents):
        return made
    last = slice(0, -1)  # nothing follows the last document
    offsets = np.minimum(made.offsets, len(made.ids) - 1)
    inside = made.inside[last] if len(made.inside) else made.inside
    return Blocks(made.ids[last], offsets, made.special[last], inside)


def _cut(ends: np.ndarray, body: int) -> np.ndarray:
    """The offsets of pieces of `body` tokens that start anew at each of these ends."""
    lengths = np.diff(ends)
    counts = -(-lengths // body)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(ends[:-1], counts) + body * (np.arange(counts.sum()) - first)
    return np.append(starts, ends[-1])


def _framed(pieces: Blocks, frame: Frame, special: bool = True) -> Blocks:
    """Every block between the frame's prefix and suffix."""
    before, size = len(frame.prefix), frame.size
    offsets = pieces.offsets - pieces.offsets[0] + size * np.arange(len(pieces) + 1)
    body = np.arange(int(pieces.lengths.sum())) + before + size * np.repeat(np.arange(len(pieces)), pieces.lengths)

    def spread(column: np.ndarray, fill: Any) -> np.ndarray:
        made = np.full(int(offsets[-1]), fill, dtype=column.dtype)
        made[body] = column
        return made

    ids = spread(pieces.ids, 0)
    for place, token in enumerate(frame.prefix):
        ids[offsets[:-1] + place] = token
    for place, token in enumerate(reversed(frame.suffix), 1):
        ids[offsets[1:] - place] = token
    inside = spread(pieces.inside, False) if len(pieces.inside) else pieces.inside
    if len(inside) and len(pieces):
        inside[offsets[:-1] + before] = False  # a block begins with a new word, wherever it was cut
    return Blocks(ids, offsets, spread(pieces.special, special), inside)


def sentences(texts: Sequence[str], tokenizer: Any) -> tuple[list[list[list[int]]], list[list[list[bool]]]]:
    """Token ids of every line of every document, and which of them go on with a word.

    One sentence per line, as BERT's own files are written."""
    lines = [[line for line in text.split("\n") if line.strip()] for text in texts]
    flat = tokenise([line for document in lines for line in document], tokenizer, "mask-fill")

    def nested(column: np.ndarray) -> list[list[list[Any]]]:
        rows = iter(column[flat.tokens(index)].tolist() for index in range(len(flat)))
        return [[next(rows) for _ in document] for document in lines]

    return nested(flat.ids), nested(flat.inside) if len(flat.inside) else []
