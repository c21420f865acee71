"""What a step frees stays with the process while a model learns: the next step needs as much.

glibc hands large blocks back to the system as soon as they are free. The system fills each of their pages with zeros
when it is touched again, and that for the gradient of the embeddings alone, 47 MB of MiniLM's, at every step.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # as malloc.h numbers them
_KEEP = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1}
# As glibc has them when it has met a large block, for it adapts only until somebody sets one.
_USUAL = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 64 << 20, _MMAP_THRESHOLD: 32 << 20}


@contextmanager
def kept_memory() -> Iterator[None]:
    """On Linux with glibc; elsewhere it changes nothing. In the end the system has all that is free."""
    glibc = _glibc()
    if glibc is None:
        yield
        return
    for option, value in _KEEP.items():
        glibc.mallopt(option, value)
    try:
        yield
    finally:
        for option, value in _USUAL.items():
            glibc.mallopt(option, value)
        glibc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "gnu_get_libc_version") else None
