"""Content hashes: the uids of examples, and the hashes by which they are split and drawn.

Uids key the teacher cache and stand in Records: not a byte of what is hashed here may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from limbeck.core.errors import DataError

Key = TypeVar("Key", bound=Hashable)


def hash64(purpose: str, *content: bytes) -> int:
    digest = blake2b(digest_size=8, person=purpose.encode())
    for part in content:
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def uid(purpose: str, *content: bytes) -> int:
    """63 bits, which an int64 holds without a sign."""
    return hash64(purpose, *content) >> 1


def text_uid(text: str, pair: str, repeat: int, where: str) -> int:
    """`repeat` is how often the same texts came before, in this split or an earlier one."""
    # the length keeps ("ab", "c") apart from ("a", "bc")
    return uid("uid", _encoded(f"{len(text)} {repeat} {text}{pair}", where))


def text_split_hash(text: str, pair: str, where: str) -> float:
    """In [0, 1)."""
    return hash64("split", _encoded(f"{len(text)}  {text}{pair}", where)) / 2.0**64


def augmented_uid(text: str, pair: str) -> int:
    """Never that of a row that was read: it has another purpose."""
    return uid("augment", f"{len(text)} {text}{pair}".encode())


def parts_uid(purpose: str, parts: Sequence[str], where: str) -> int:
    """Of several texts; their lengths keep ("ab", "c") apart from ("a", "bc")."""
    return uid(purpose, _encoded("\0".join([*(str(len(part)) for part in parts), *parts]), where))


def parts_split_hash(parts: Sequence[str], where: str) -> float:
    """In [0, 1)."""
    return parts_uid("split", parts, where) / 2.0**63


def source_uids(sources: Sequence[str]) -> np.ndarray:
    """[n] int64: the same source has the same one wherever it stands."""
    return np.fromiter((uid("source", text.encode()) for text in sources), np.int64, len(sources))


def block_uid(kind: str, inputs: np.ndarray, types: np.ndarray, predicted: np.ndarray) -> int:
    """Of all that a language model's output depends on: tokens after masking, segments, positions predicted."""
    lengths = f"{len(inputs)} {len(types)} ".encode()
    return uid(kind, lengths, _int32(inputs), types.astype("i1").tobytes(), np.packbits(predicted).tobytes())


def pair_uid(kind: str, start: int, source: np.ndarray, target: np.ndarray) -> int:
    """Of a decoder's start token, source and target; the lengths keep [1, 2], [3] apart from [1], [2, 3]."""
    return uid(kind, f"{start} {len(source)} {len(target)} ".encode(), _int32(source), _int32(target))


def repeats(keys: Iterable[Key], seen: Counter[Key]) -> list[int]:
    """How often each key came before; `seen` goes on from split to split."""
    found = []
    for key in keys:
        found.append(seen[key])
        seen[key] += 1
    return found


def _int32(tokens: np.ndarray) -> bytes:
    return tokens.astype("<i4").tobytes()


def _encoded(content: str, where: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: the text holds half a character ({error.object[error.start]!r})",
            "mend that row: a \\u escape of a pair was cut in two",
        ) from None
