"""Questions and their texts become windows of tokens, in each of which the answer may lie or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from limbeck.core.progress import Silent, Watcher
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.span.questions import Question
from limbeck.data.uids import parts_uid
from limbeck.data.windows import (
    CHUNK,
    Window,
    WindowCorpus,
    WindowRows,
    Windows,
    build_corpus,
    check_fast,
    cut_windows,
    model_inputs,
    numbered,
)


def encode_questions(
    found: WindowRows[Question],
    tokenizer: Any,
    settings: DataSettings,
    windows: WindowSettings,
    watcher: Watcher = Silent(),  # noqa: B008
) -> WindowCorpus:
    """Cuts into windows; logs what was chosen and what became of every row.

    A question gets at most half of a window, and windows overlap by at most half of what it leaves."""
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    free = length - tokenizer.num_special_tokens_to_add(pair=True)
    longest = min(windows.longest_question, free // 2)
    stride = min(windows.stride, (free - longest) // 2)
    made, notes = {}, []
    for split, questions, times, uids in numbered(found):
        short = _cut([row.question for row in questions], tokenizer, longest)
        truncated = sum(text != row.question for text, row in zip(short, questions, strict=True))
        pairs = [(text, row.context) for text, row in zip(short, questions, strict=True)]
        answers = [
            _window(item, questions[item], times[item], short[item], tokens, number, mine, found.nullable)
            for item, tokens, mine in cut_windows(pairs, tokenizer, length, stride)
            for number in mine
        ]
        made[split] = Windows([window for window in answers if window], uids, truncated)
    if cut := sum(part.truncated for part in made.values()):
        notes.append(f"{cut:,} questions are cut to {longest} tokens")
    if (longest, stride) != (windows.longest_question, windows.stride):
        notes.append(
            f"of {length} tokens a question gets {longest} at most and windows share {stride}; "
            "more needs a larger --data.max-length"
        )
    return build_corpus(found, made, length, "texts hold no token", watcher, notes)


def _cut(texts: list[str], tokenizer: Any, longest: int) -> list[str]:
    """Each text, at most so many tokens of it."""
    short = []
    for start in range(0, len(texts), CHUNK):
        some = texts[start : start + CHUNK]
        found = tokenizer(some, add_special_tokens=False, return_offsets_mapping=True, padding=False, verbose=False)
        for text, offsets in zip(some, found["offset_mapping"], strict=True):
            short.append(text[: offsets[longest - 1][1]] if len(offsets) > longest else text)
    return short


def _window(
    item: int, question: Question, times: int, short: str, tokens: Any, number: int, mine: list[int], nullable: bool
) -> Window | None:
    """Window `number` of a tokenizer's output, one of `mine`; none where it holds nothing of the context.

    If questions may be without an answer, position 0 stands for that, and a window without the answer points there.
    Else such a window has no label: only the teacher's output is learnt from it."""
    inside = np.array([side == 1 for side in tokens.sequence_ids(number)], dtype=bool)
    if not inside.any():
        return None
    where = np.array(tokens["offset_mapping"][number], dtype=np.int32)
    first, last = int(where[inside][0, 0]), int(where[inside][-1, 1])
    labels, has_label = _ends(question, inside, where, (number == mine[0], number == mine[-1]), nullable)
    inside[0] |= nullable
    name = [f"{times} {first} {last} {nullable:d}", short, question.context]
    uid = parts_uid("answer", name, question.where)
    return Window(item, uid, model_inputs(tokens, number), inside, labels, has_label, where)


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
    return np.zeros(2, dtype=np.int64), np.full(2, nullable and question.has_label)
