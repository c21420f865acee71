"""Heads, head size and hidden size of a student, where not all three are set: pure arithmetic."""

from __future__ import annotations

from limbeck.core.errors import KnobError
from limbeck.students.sizes import Sizes


def width(heads: int, head_size: int, hidden: int, teacher: Sizes) -> tuple[int, int]:
    """Heads and hidden size of the student, by hidden = heads × head_size where the architecture has it so. 0: open."""
    if teacher.free_head_size:
        return heads or teacher.heads, hidden or teacher.hidden
    if not hidden:
        heads = heads or teacher.heads
        return heads, heads * (head_size or teacher.head_size)
    count, size = heads, head_size
    if not heads and not head_size:
        if hidden % teacher.head_size == 0:
            return hidden // teacher.head_size, hidden
        count = teacher.heads
    elif not heads:
        count = max(1, hidden // head_size)
    size = size or hidden // count
    if count * size != hidden:
        raise KnobError(
            f"a hidden size of {hidden} does not divide into {count} heads" + (f" of {size}" if head_size else ""),
            _remedy(heads, head_size, hidden, teacher),
        )
    return count, hidden


def _remedy(heads: int, head_size: int, hidden: int, teacher: Sizes) -> str:
    """The nearest hidden sizes that do divide."""
    if heads and head_size:
        return f"set hidden to {heads * head_size} (heads × head_size), or leave one of the three out"
    steps = [heads or head_size] if heads or head_size else [teacher.head_size, teacher.heads]
    valid = {size for step in steps for size in range(step, teacher.hidden + 1, step)}
    nearest = sorted(sorted(valid, key=lambda size: abs(size - hidden))[:4])
    return f"the nearest hidden sizes that fit are {', '.join(map(str, nearest))}"
