"""Pairs for next-sentence prediction, as the generator of BERT's release makes them.

A document is walked in chunks of whole sentences that fill a block. The first segment is a random part of the chunk,
from its start; the second is either the rest of the chunk, or comes from another document, and then the rest goes into
the next chunk. A chunk of one sentence has no rest, so more than half of the pairs are random ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from limbeck.core.errors import DataError, ModelError
from limbeck.data.language.pack import Blocks

Documents = Sequence[Sequence[Sequence[int]]]  # of sentences of token ids

_SPECIAL = 3  # [CLS] first second: [CLS] A [SEP] B [SEP]
_SHORTER = 0.1  # part of the documents that is cut to a random, smaller size; BERT code
_RANDOM = 0.5  # part of the longer chunks whose second segment comes from elsewhere; BERT


@dataclass(frozen=True)
class _Pair:
    """Two stretches of the flat tokens."""

    first: range
    second: range
    next_sentence_label: int  # 0 if the second comes after the first, 1 if it is a random one


def pairs(
    documents: Documents,
    length: int,
    cls: int | None,
    sep: int | None,
    seed: int,
    inside: Sequence[Sequence[Sequence[bool]]] = (),
) -> Blocks:
    """Blocks of at most `length` tokens, [CLS] A [SEP] B [SEP]. `inside` has the shape of `documents`."""
    if cls is None or sep is None:
        raise ModelError(
            "sentence pairs need a token to begin with and one between the sentences, and the tokenizer lacks one",
            "use a tokenizer with a cls_token and a sep_token, or leave out --blocks.pairs",
        )
    sizes = [sentences for document in documents if (sentences := [len(words) for words in document if len(words)])]
    if len(sizes) < 2:
        raise DataError(
            "a random second sentence must come from another document, but the text has "
            + ("only one document" if sizes else "no words"),
            "put blank lines between documents, one sentence per line, or leave out --blocks.pairs",
        )
    found = list(_walk(sizes, length - _SPECIAL, np.random.default_rng(seed)))
    return _blocks(found, _flat(documents, np.int32), _flat(inside, bool), cls, sep)


def tokens_cut(documents: Documents, blocks: Blocks) -> int:
    """Tokens of the documents that are in no pair: those cut off a pair too long for its block.

    A random second segment counts for nothing here: its sentences have their own turn."""
    second = np.add.reduceat(blocks.types, blocks.offsets[:-1], dtype=np.int64)  # its [SEP] included
    own = blocks.lengths - _SPECIAL - np.where(blocks.next_sentence_label == 1, second - 1, 0)
    return sum(len(words) for document in documents for words in document) - int(own.sum())


def _walk(sizes: list[list[int]], most: int, draw: np.random.Generator) -> Iterator[_Pair]:
    """Over all documents, given as the lengths of their sentences; most: tokens that a pair may have."""
    starts = np.cumsum([0, *chain.from_iterable(sizes)])  # of sentences, in tokens
    edges = np.cumsum([0, *map(len, sizes)]).tolist()  # of documents, in sentences
    for number, (begin, end) in enumerate(pairwise(edges)):
        target = int(draw.integers(2, most + 1)) if draw.random() < _SHORTER else most
        while begin < end:
            full = min(int(np.searchsorted(starts, starts[begin] + target)), end)
            middle = int(draw.integers(begin + 1, full)) if full > begin + 1 else full
            first = range(starts[begin], starts[middle])
            if middle == full or draw.random() < _RANDOM:
                other = int(draw.integers(len(sizes) - 1))
                other += other >= number
                second = _elsewhere(starts, edges[other], edges[other + 1], target - len(first), draw)
                pair, begin = _Pair(first, second, next_sentence_label=1), middle
            else:
                pair, begin = _Pair(first, range(starts[middle], starts[full]), next_sentence_label=0), full
            yield _shortened(pair, most, draw)


def _elsewhere(starts: np.ndarray, begin: int, end: int, wanted: int, draw: np.random.Generator) -> range:
    """Sentences of another document, from a random one on, until there are as many tokens as wanted."""
    at = int(draw.integers(begin, end))
    stop = min(int(np.searchsorted(starts, starts[at] + max(wanted, 1))), end)
    return range(starts[at], starts[stop])


def _shortened(pair: _Pair, most: int, draw: np.random.Generator) -> _Pair:
    """Token by token off the longer segment, the second if they are equal, each time from a random end."""
    excess = len(pair.first) + len(pair.second) - most
    if excess <= 0:
        return pair
    ahead = len(pair.first) - len(pair.second)
    even = max(0, excess - abs(ahead))  # what is left to cut once both are equally long
    off_first = min(excess, max(ahead, 0)) + even // 2
    ends = []
    for segment, off in ((pair.first, off_first), (pair.second, excess - off_first)):
        front = int(draw.binomial(off, 0.5))
        ends.append(segment[front : len(segment) - (off - front)])
    return replace(pair, first=ends[0], second=ends[1])


def _flat(nested: Sequence[Sequence[Sequence[Any]]], kind: type[np.generic] | type[bool]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(chain.from_iterable(nested)), dtype=kind)


def _blocks(found: list[_Pair], ids: np.ndarray, inside: np.ndarray, cls: int, sep: int) -> Blocks:
    first = np.array([len(pair.first) for pair in found])
    second = np.array([len(pair.second) for pair in found])
    offsets = np.concatenate([[0], np.cumsum(first + second + _SPECIAL)])
    opens, middles, closes = offsets[:-1], offsets[:-1] + first + 1, offsets[1:] - 1
    special = np.zeros(offsets[-1], dtype=bool)
    special[np.concatenate([opens, middles, closes])] = True
    source = np.concatenate([np.arange(part.start, part.stop) for pair in found for part in (pair.first, pair.second)])
    tokens = np.full(offsets[-1], sep, dtype=np.int32)
    tokens[opens] = cls
    tokens[~special] = ids[source]
    types = np.repeat(
        np.tile(np.array([0, 1], dtype=np.int8), len(found)), np.stack([first + 2, second + 1], 1).ravel()
    )
    pieces = np.zeros(offsets[-1] if len(inside) else 0, dtype=bool)
    if len(inside):
        pieces[~special] = inside[source]
        pieces[np.concatenate([opens, middles]) + 1] = False  # a segment begins with a word, or what is left of one
    next_sentence_label = np.array([pair.next_sentence_label for pair in found], dtype=np.int8)
    return Blocks(tokens, offsets, special, inside=pieces, types=types, next_sentence_label=next_sentence_label)
