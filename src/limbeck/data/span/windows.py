"""Questions and their texts become windows of tokens, in each of which the answer may lie or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from limbeck.data.span.questions import Question
from limbeck.data.uids import parts_uid
from limbeck.data.windows import Window, model_inputs, windows_of

_CHUNK = 500  # questions handed to the tokenizer at once: bounds the memory its Python lists take


class Room(NamedTuple):
    """How a model's length is shared out, in tokens."""

    length: int
    question: int
    stride: int


def room_for(length: int, question: int, stride: int, tokenizer: Any) -> Room:
    """A question gets at most half, and windows overlap by at most half of what it leaves."""
    free = length - tokenizer.num_special_tokens_to_add(pair=True)
    question = min(question, free // 2)
    return Room(length, question, min(stride, (free - question) // 2))


def answer_windows(
    questions: Sequence[Question], times: Sequence[int], tokenizer: Any, room: Room, nullable: bool
) -> tuple[list[Window], int]:
    """The windows, and how many questions were truncated. `times` is how often each question came before.

    If questions may be without an answer, position 0 stands for that, and a window without the answer points there.
    Else such a window has no label: only the teacher's output is learnt from it."""
    made: list[Window] = []
    cut = 0
    for start in range(0, len(questions), _CHUNK):
        part = questions[start : start + _CHUNK]
        short = _cut([question.question for question in part], tokenizer, room.question)
        cut += sum(text != question.question for text, question in zip(short, part, strict=True))
        found = tokenizer(
            short,
            [question.context for question in part],
            truncation="only_second",
            max_length=room.length,
            stride=room.stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=False,
            verbose=False,
        )
        owners = np.array(found["overflow_to_sample_mapping"])
        for item, question in enumerate(part):
            mine = windows_of(owners, item)
            for window in mine:
                edges = (window == mine[0], window == mine[-1])
                inside = np.array([side == 1 for side in found.sequence_ids(window)], dtype=bool)
                if not inside.any():
                    continue
                where = np.array(found["offset_mapping"][window], dtype=np.int32)
                first, last = int(where[inside][0, 0]), int(where[inside][-1, 1])
                name = [f"{times[start + item]} {first} {last} {nullable:d}", short[item], question.context]
                labels, has_label = _ends(question, inside, where, edges, nullable)
                inside[0] |= nullable
                uid = parts_uid("answer", name, question.where)
                made.append(Window(start + item, uid, model_inputs(found, window), inside, labels, has_label, where))
    return made, cut


def _cut(texts: list[str], tokenizer: Any, longest: int) -> list[str]:
    found = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, padding=False, verbose=False)
    return [
        text[: offsets[longest - 1][1]] if len(offsets) > longest else text
        for text, offsets in zip(texts, found["offset_mapping"], strict=True)
    ]


def _ends(
    question: Question, inside: np.ndarray, where: np.ndarray, edges: tuple[bool, bool], nullable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """[2] start and end of the first gold answer that lies in the window whole, and whether there is a label."""
    places = np.flatnonzero(inside)
    begins, ends = where[places].T
    # what a tokenizer leaves out before the first token and after the last belongs to the first and last window
    low = 0 if edges[0] else begins[0]
    high = np.inf if edges[1] else ends[-1]
    for begin, end in question.spans:
        if low <= begin and end <= high:
            start, stop = np.searchsorted(ends, begin, side="right"), np.searchsorted(begins, end, side="left") - 1
            if start <= stop:
                return places[[start, stop]].astype(np.int64), np.array([True, True])
    return np.zeros(2, dtype=np.int64), np.full(2, nullable and question.answered)
