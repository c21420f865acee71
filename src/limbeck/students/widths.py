"""Heads, head size and hidden size of a student, where not all three are given: pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limbeck.core.errors import KnobError
from limbeck.students.sizes import Sizes

if TYPE_CHECKING:
    from limbeck.students.shrink import Shrink


def width(asked: Shrink, teacher: Sizes) -> tuple[int, int]:
    """Heads and hidden size of the student, by hidden = heads × head_size where the architecture has it so."""
    heads, head_size, hidden = asked.heads, asked.head_size, asked.hidden
    if teacher.free_head_size:
        return heads or teacher.heads, hidden or teacher.hidden
    if not hidden:
        heads = heads or teacher.heads
        return heads, heads * (head_size or teacher.head_size)
    if not heads and not head_size:
        if hidden % teacher.head_size == 0:
            return hidden // teacher.head_size, hidden
        heads = teacher.heads
    elif not heads:
        heads = max(1, hidden // head_size)
    head_size = head_size or hidden // heads
    if heads * head_size != hidden:
        raise KnobError(
            f"a hidden size of {hidden} does not divide into {heads} heads"
            + (f" of {head_size}" if asked.head_size else ""),
            _remedy(asked, teacher),
        )
    return heads, hidden


def _remedy(asked: Shrink, teacher: Sizes) -> str:
    """The nearest hidden sizes that do divide."""
    if asked.heads and asked.head_size:
        return f"set hidden to {asked.heads * asked.head_size} (heads × head_size), or leave one of the three out"
    steps = [asked.heads or asked.head_size] if asked.heads or asked.head_size else [teacher.head_size, teacher.heads]
    valid = {size for step in steps for size in range(step, teacher.hidden + 1, step)}
    nearest = sorted(sorted(valid, key=lambda size: abs(size - asked.hidden))[:4])
    return f"the nearest hidden sizes that fit are {', '.join(map(str, nearest))}"
