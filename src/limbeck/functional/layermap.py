"""Layer maps: which layer of the teacher each layer of the student learns from. Layers are counted from 1.

uniform     j → j·teacher/student, rounded up: the last learns from the last     12→4: 3, 6, 9, 12
skip        uniform without the last layer, which serves the head                12→6: 2, 4, 6, 8, 10
top         j → teacher − student + j                                            12→4: 9, 10, 11, 12
last        top without the last layer                                           12→6: 7, 8, 9, 10, 11
bottom      j → j                                                                12→4: 1, 2, 3, 4
kept        the layer it started from, the last from the last; by default          12→4: 1, 5, 8, 12
2,4,6       teacher layers of the student's layers 1, 2, 3
1:2,3:6     pairs, the student's layer first
"""

from __future__ import annotations

import re

from limbeck.core.errors import KnobError

Pairs = list[tuple[int, int]]  # layer of the student, layer of the teacher

KEPT = "kept"  # in a run, as its student is cut
_REMEDY = "use uniform, kept, skip, last, top, bottom, teacher layers like 2,4,6, or pairs like 1:2,3:6"


def layer_pairs(rule: str, student: int, teacher: int) -> Pairs:
    """The pairs that a rule gives for these numbers of layers."""
    every = range(1, student + 1)
    if rule in ("uniform", "skip"):
        pairs = [(j, -(-j * teacher // student)) for j in every]
    elif rule == KEPT:  # first and last included, as Shrink keeps them by default
        pairs = [
            (j, 1 + round((j - 1) * (teacher - 1) / (student - 1))) if j < student else (j, teacher) for j in every
        ]
    elif rule in ("top", "last", "bottom"):
        _check_depth(rule, student, teacher)
        pairs = [(j, j if rule == "bottom" else teacher - student + j) for j in every]
    else:
        return _explicit(rule, student, teacher)
    if rule not in ("skip", "last"):
        return pairs
    if student == 1:
        raise KnobError(
            f"knob 'layers' is '{rule}', which leaves the student's last layer out, but the student has no layer below",
            "give the student 2 layers or more, or use uniform",
        )
    return pairs[:-1]


def _check_depth(rule: str, student: int, teacher: int) -> None:
    if student > teacher:
        raise KnobError(
            f"knob 'layers' is '{rule}', but the student has {student} layers and the teacher only {teacher}",
            "use uniform, or name the pairs, like 1:2,3:6",
        )


def _explicit(rule: str, student: int, teacher: int) -> Pairs:
    plain = re.sub(r"\s*([,:])\s*", r"\1", rule.strip())
    if not re.fullmatch(r"\d+(,\d+)*|\d+:\d+(,\d+:\d+)*", plain):
        raise KnobError(f"knob 'layers' cannot be '{rule}'", _REMEDY)
    parts = [[int(number) for number in part.split(":")] for part in plain.split(",")]
    pairs = [(part[0], part[1]) if len(part) == 2 else (j, part[0]) for j, part in enumerate(parts, 1)]
    for side, who, layers in ((0, "student", student), (1, "teacher", teacher)):
        for pair in pairs:
            if not 1 <= pair[side] <= layers:
                raise KnobError(
                    f"knob 'layers' is '{rule}', but the {who} has no layer {pair[side]}",
                    f"the {who}'s layers are counted from 1 to {layers}",
                )
    if len({j for j, _ in pairs}) < len(pairs):
        raise KnobError(f"knob 'layers' is '{rule}', which names a layer of the student twice", "give each one once")
    return pairs
