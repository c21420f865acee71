"""Which of the teacher's coordinates a smaller student keeps: pure arithmetic."""

from __future__ import annotations

from limbeck.students.sizes import Sizes


def spread(count: int, keep: int) -> list[int]:
    """`keep` of `count`, evenly spaced, with the first and the last: 12 → 6 gives 0, 2, 4, 7, 9, 11."""
    return [round(step * (count - 1) / (keep - 1)) for step in range(keep)] if keep > 1 else [0]


def strided(count: int, keep: int) -> list[int]:
    """`keep` of `count`, evenly spaced from 0. With rotary positions this keeps the frequencies θ^(-2j/count)."""
    return [step * count // keep for step in range(keep)]


def within_head(count: int, keep: int) -> list[int]:
    """Evenly spaced within each half of a head, so that rotary pairs (j, j + count/2) stay pairs."""
    if keep == count:
        return list(range(count))
    half = count // 2
    pairs = strided(half, (keep + 1) // 2)
    return pairs + [half + first for first in pairs][: keep // 2]


def hidden_coordinates(teacher: Sizes, student: Sizes) -> list[int]:
    """The stream is laid out as the heads are, unless the two are free of each other: then it has no heads in it."""
    if teacher.free_head_size:
        return strided(teacher.hidden, student.hidden)
    return head_coordinates(teacher, student)


def head_coordinates(teacher: Sizes, student: Sizes) -> list[int]:
    """Whole heads where heads go, the same coordinates in every head where heads get smaller.

    A student with fewer but larger heads regroups: neighbours merge, and coordinates are evenly spaced over all."""
    if student.head_size > teacher.head_size:
        return strided(teacher.all_heads, student.all_heads)
    inside = within_head(teacher.head_size, student.head_size)
    return [head * teacher.head_size + one for head in spread(teacher.heads, student.heads) for one in inside]
