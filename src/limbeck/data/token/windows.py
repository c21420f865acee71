"""Sentences become windows of tokens. The tag of a word is predicted once, at its first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limbeck.core.progress import Silent, Watcher
from limbeck.data.settings import DataSettings, WindowSettings
from limbeck.data.token.sentences import Sentence
from limbeck.data.uids import parts_uid
from limbeck.data.windows import (
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


@dataclass(frozen=True)
class _Seen:
    """A word's first token within one window."""

    window: int
    place: int
    begin: int  # character
    margin: int  # tokens to the nearer end of the window


def encode_sentences(
    found: WindowRows[Sentence],
    tokenizer: Any,
    settings: DataSettings,
    windows: WindowSettings,
    watcher: Watcher = Silent(),  # noqa: B008
) -> WindowCorpus:
    """Cuts into windows; logs what was chosen and what became of every row."""
    check_fast(tokenizer)
    length = min(settings.max_length, tokenizer.model_max_length)
    stride = max(min(windows.stride, length // 2 - tokenizer.num_special_tokens_to_add()), 0)
    ids = {label: place for place, label in enumerate(found.task.labels)}
    made = {}
    for split, sentences, times, uids in numbered(found):
        tagged = []
        for item, tokens, mine in cut_windows([row.texts for row in sentences], tokenizer, length, stride):
            sentence = sentences[item]
            chosen = _best(_word_of(sentence), [(window, tokens["offset_mapping"][window]) for window in mine])
            for window in mine:
                words = sorted((seen.place, word) for word, seen in chosen.items() if seen.window == window)
                if words:
                    inputs = model_inputs(tokens, window)
                    tagged.append(_window(item, sentence, times[item], inputs, words, ids))
        made[split] = Windows(tagged, uids)
    return build_corpus(found, made, length, "sentences hold no word the tokenizer sees", watcher)


def _word_of(sentence: Sentence) -> np.ndarray:
    """[characters] the word each belongs to, -1 for the spaces between."""
    return np.concatenate([np.append(np.full(len(word), n), -1) for n, word in enumerate(sentence.words)])


def _best(word_of: np.ndarray, windows: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> dict[int, _Seen]:
    """For each word the window in which its first token has the most tokens on both sides."""
    best: dict[int, _Seen] = {}
    for window, offsets in windows:
        for place, (begin, end) in enumerate(offsets):
            # a token may reach back over the space before its word, never over the word's last letter
            word = int(word_of[end - 1]) if end > begin else -1
            if word < 0:
                continue
            seen = _Seen(window, place, begin, min(place, len(offsets) - 1 - place))
            before = best.get(word)
            if before is None or (-seen.begin, seen.margin) > (-before.begin, before.margin):
                best[word] = seen
    return best


def _window(
    item: int,
    sentence: Sentence,
    times: int,
    inputs: dict[str, np.ndarray],
    words: Sequence[tuple[int, int]],
    ids: dict[str, int],
) -> Window:
    predicted = np.zeros(len(inputs["input_ids"]), dtype=bool)
    predicted[[place for place, _ in words]] = True
    tags = [sentence.tags[word] for _, word in words]
    span = f"{times} {words[0][1]} {words[-1][1]} {len(words)}"
    return Window(
        item=item,
        uid=parts_uid("tag", [span, *sentence.words], sentence.where),
        inputs=inputs,
        predicted=predicted,
        labels=np.array([ids[tag] if tag else 0 for tag in tags], dtype=np.int64),
        has_label=np.array([bool(tag) for tag in tags], dtype=bool),
        where=np.array([word for _, word in words], dtype=np.int32),
    )
