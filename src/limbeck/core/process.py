"""Which of several processes this is, by the environment that torchrun sets. One process alone is the main one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def rank() -> int:
    group = _group()
    return int(group.get_rank() if group else os.environ.get("RANK", 0))


def world_size() -> int:
    group = _group()
    return int(group.get_world_size() if group else os.environ.get("WORLD_SIZE", 1))


def is_main() -> bool:
    """Whether this process writes files. The others compute and read."""
    return rank() == 0


def barrier() -> None:
    """Waits for all processes, where they form a group."""
    if group := _group():
        group.barrier()


@contextmanager
def main_first() -> Iterator[None]:
    """The main process does it, then the others, which find on disk what it left."""
    if not is_main():
        barrier()
    try:
        yield
    finally:
        if is_main():
            barrier()


def _group() -> Any:
    """torch.distributed once it is initialised, else None; whoever has not imported it has not initialised it."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None
