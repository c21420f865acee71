"""Numbers too small for a processor's fast path count as 0 while a model learns.

Where a weight has no gradient, because its pixel is black or its column pruned, Adam's means halve until they are
denormal (below 1e-38), and an operation on such a number takes many times longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_TINY = 1e-40  # a denormal number
_PARALLEL = 1 << 20  # numbers that torch parts among its threads


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """On the CPU, in this thread. The others of torch's pool are begun before, so that they never inherit it: how far
    a number is flushed depends on the number of threads, not on when they began."""
    torch.ones(_PARALLEL).add_(1)
    before = bool((torch.tensor(_TINY) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
